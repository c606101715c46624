# SPDX-License-Identifier: Apache-2.0
"""A whole run: train and report, evaluate."""
