# SPDX-License-Identifier: Apache-2.0
"""Reports on runs: cards, tables, plots, pages."""
