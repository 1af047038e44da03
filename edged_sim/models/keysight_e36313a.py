"""Keysight E36313A: the E36312A's sister with twice the current.

Source: the manuals that profiles/keysight_e36313a.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keysight_e36312a


class E36313a(keysight_e36312a.E36312a):
    """The state of one unit."""

    ratings = {1: (6.0, 10.0), 2: (25.0, 2.0), 3: (25.0, 2.0)}  # noqa: RUF012 - the class variable


MODEL: Final = dataclasses.replace(
    keysight_e36312a.MODEL,
    idn="Keysight Technologies,E36313A,{serial},2.1.0-1.0.4-1.12",
    build=E36313a,
)
