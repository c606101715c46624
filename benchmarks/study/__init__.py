# SPDX-License-Identifier: Apache-2.0
"""The reproduction study: plan, records and tables, baselines, leakage, transfer, human evaluation; `python -m benchmarks.study`."""
