"""Siglent SDS1202X-E: the SDS1104X-E's sister with two channels.

Source: what profiles/siglent_sds1202xe.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import siglent_sds1104xe


class Sds1202xe(siglent_sds1104xe.Sds1104xe):
    """The state of one unit."""

    channel_count = 2


MODEL: Final = dataclasses.replace(
    siglent_sds1104xe.MODEL,
    idn="Siglent Technologies,SDS1202X-E,{serial},7.1.1.3.23",
    serial="SDS1ECDQ2R{number:04d}",
    first_number=5789,
    build=Sds1202xe,
)
