# SPDX-License-Identifier: Apache-2.0
"""Whole runs: train and report, evaluate."""
