# SPDX-License-Identifier: Apache-2.0
"""Serves predictions: files, Ray, threads, over HTTP."""
