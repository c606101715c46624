# SPDX-License-Identifier: Apache-2.0
"""Files of the models that come with the package, a folder for each; `hf_emotion.runtime.ready` reads them."""
