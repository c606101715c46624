# SPDX-License-Identifier: Apache-2.0
"""The reproduction study: plan, records and tables, leakage, transfer, ready models; `python -m benchmarks.study`."""
