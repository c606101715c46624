# SPDX-License-Identifier: Apache-2.0
"""Files, rows and paths."""
