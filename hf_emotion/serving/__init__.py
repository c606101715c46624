# SPDX-License-Identifier: Apache-2.0
"""Prediction for many: files, Ray, threads, the demo."""
