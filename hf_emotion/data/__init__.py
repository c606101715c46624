# SPDX-License-Identifier: Apache-2.0
"""What corpora share: rows, files, splits."""
