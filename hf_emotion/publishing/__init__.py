# SPDX-License-Identifier: Apache-2.0
"""Push, release, export."""
