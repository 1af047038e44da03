"""Keysight 34465A: the 34461A's bigger sister, with one integration time more.

Without the digitizing option it has 0.06 power line cycles besides those of the 34461A. Source: the
manuals that profiles/keysight_34465a.yaml names.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from edged_sim.models import keysight_34461a


class Dmm34465a(keysight_34461a.Truevolt):
    """The state of one unit."""

    nplc_steps = (0.02, 0.06, 0.2, 1.0, 10.0, 100.0)


MODEL: Final = dataclasses.replace(
    keysight_34461a.MODEL,
    idn="Keysight Technologies,34465A,{serial},A.02.14-02.40-02.14-00.49-03-01",
    build=Dmm34465a,
)
