# SPDX-License-Identifier: Apache-2.0
"""The reproduction study: published tables, baselines, leakage, transfer, human evaluation."""
