# SPDX-License-Identifier: Apache-2.0
"""The study: published tables, baselines, leakage, transfer, human evaluation."""
