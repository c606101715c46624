# SPDX-License-Identifier: Apache-2.0
"""Loading models, batching, attribution, exported models."""
