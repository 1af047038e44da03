"""Siglent SDM3065X: the SDM3055's sister with a digit more, and other integration times.

Source: the manuals that profiles/siglent_sdm3065x.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import siglent_sdm3055


class Sdm3065x(siglent_sdm3055.Sdm3055):
    """The state of one unit."""

    gain_error = 35e-6
    least_nplc = 0.005
    nplc_steps = (0.005, 0.05, 0.5, 1.0, 10.0, 100.0)


MODEL: Final = dataclasses.replace(
    siglent_sdm3055.MODEL,
    idn="Siglent Technologies,SDM3065X,{serial},3.02.01.13",
    serial="SDM36HCD{number:06d}",
    first_number=801_207,
    build=Sdm3065x,
)
