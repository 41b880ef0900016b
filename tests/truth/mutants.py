# SPDX-License-Identifier: Apache-2.0
"""All mutants: importing this fills the two registries."""

import mutants_bytes  # noqa: F401
import mutants_harmless  # noqa: F401
import mutants_records  # noqa: F401
import mutants_shown  # noqa: F401
from mutant_tools import HARMFUL, HARMLESS, Copy

__all__ = ["HARMFUL", "HARMLESS", "Copy"]
