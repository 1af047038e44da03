"""Stanford SR865A: the SR860 up to 4 MHz. Source: what profiles/srs_sr865a.yaml names."""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import srs_sr860


class Sr865a(srs_sr860.Sr860):
    """The state of one unit."""

    highest_hz = 4_000_000.0


MODEL: Final = dataclasses.replace(
    srs_sr860.MODEL,
    idn="Stanford_Research_Systems,SR865A,{serial},v1.34",
    first_number=2725,
    build=Sr865a,
)
