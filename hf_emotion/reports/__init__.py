# SPDX-License-Identifier: Apache-2.0
"""What is shown of runs: cards, tables, plots, pages."""
