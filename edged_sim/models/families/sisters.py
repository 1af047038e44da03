"""Models that are another one with other ratings: the *sister* of a model that has a file.

A row has what the manual or driver says that the profile of the same name cites in its head. A
model that also answers to other words has a file of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from edged.record import record
from edged_sim.scpi import ModelSpec, ModelState


@record(kw_only=False)
class Sister:
    """One model.

    Attributes:
        of: the model whose commands and dialect it has.
        ratings: attributes of the other's state class that differ.
        more: fields of ``ModelSpec`` that differ, besides ``idn``.
    """

    of: str
    idn: str
    ratings: Mapping[str, Any]
    more: Mapping[str, Any]

    def spec(self, other: ModelSpec[Any]) -> ModelSpec[ModelState]:
        """This model, from the one that it is a sister of."""
        build = other.build
        if self.ratings and isinstance(build, type):
            build = type(f"{build.__name__}Sister", (build,), dict(self.ratings))
        return replace(other, idn=self.idn, build=build, **self.more)


def _sister(of: str, idn: str, serial: str = "", first: int = -1, **ratings: Any) -> Sister:
    more: dict[str, Any] = {"serial": serial} if serial else {}
    if first >= 0:
        more["first_number"] = first
    return Sister(of, idn, ratings, more)


def _e3600(
    number: str, firmware: str, most_volts: float, most_amps: float, **ranges: Any
) -> Sister:
    """A supply with one output: volts and amperes of its ranges, and the highest trip levels."""
    output = {"ranges": ranges, "most_over_volts": most_volts, "most_over_amps": most_amps}
    idn = f"HEWLETT-PACKARD,{number},{{serial}},{firmware}"
    return _sister("keysight_e3634a", idn, outputs={1: output})


def _e364x(number: str, firmware: str, **ranges: tuple[float, float]) -> Sister:
    """A supply with two outputs of the same ranges."""
    idn = f"Agilent Technologies,{number},{{serial}},{firmware}"
    return _sister("keysight_e3646a", idn, ranges=ranges)


def _smu(
    idn: str,
    first: int,
    most: tuple[float, float],
    corner: tuple[float, float],
    volts: tuple[float, ...],
    amps: tuple[float, ...],
) -> Sister:
    """A 2400 with other ranges and another envelope, whose corner is in volts and amperes."""
    return _sister(
        "keithley_2400",
        f"KEITHLEY INSTRUMENTS INC.,MODEL {idn}",
        first=first,
        highest_v=most[0],
        highest_a=most[1],
        corner_v=corner[0],
        corner_a=corner[1],
        ranges={"VOLT": volts, "CURR": amps},
    )


def _tbs(number: str, first: int, channels: int) -> Sister:
    """A TBS1102C with other channels and longer records."""
    idn = f"TEKTRONIX,{number},{{serial}},CF:91.1CT FV:v1.29.30; FPGA:v20.78;"
    depths = (1000, 2000, 20_000, 200_000, 2_000_000)
    return _sister("tektronix_tbs1000c", idn, first=first, channel_count=channels, depths=depths)


def _hmp(number: str, amps: float) -> Sister:
    """An HMP4040 with three channels."""
    idn = f"HAMEG,{number},{{serial}},HW50020001/SW2.50"
    return _sister("rs_hmp4040", idn, "{number:09d}", 22982747, count=3, highest_a=amps)


def _dg1000z(number: str, serial: str, first: int, sine_hz: float) -> Sister:
    """A DG1022Z whose sine goes higher."""
    idn = f"Rigol Technologies,{number},{{serial}},03.01.12"
    return _sister("rigol_dg1022z", idn, serial, first, highest_sine_hz=sine_hz)


SISTERS: Final[Mapping[str, Sister]] = {
    "hp_4284a": _sister(
        "keysight_e4980a",
        "HEWLETT-PACKARD,4284A,{serial},REV01.20",
        "0",
        0,
        highest_hz=1e6,
        lowest_v=0.005,
        lowest_a=50e-6,
    ),
    "keithley_2401": _smu(
        "2401,{serial},A01 Aug 25 2011 12:57:43/A02  /T/K",
        4095154,
        (21.0, 1.05),
        (21.0, 1.05),
        (0.2, 2.0, 20.0),
        (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0),
    ),
    "keithley_2410": _smu(
        "2410,{serial},C34 Sep 21 2016 15:30:00/A02  /L/M",
        4406455,
        (1100.0, 1.05),
        (21.0, 0.021),
        (0.2, 2.0, 20.0, 1000.0),
        (1e-6, 1e-5, 1e-4, 1e-3, 2e-2, 0.1, 1.0),
    ),
    "keithley_2420": _smu(
        "2420,{serial},C30   Mar 17 2006 09:29:29/A02  /H/L",
        1230523,
        (63.0, 3.15),
        (21.0, 1.05),
        (0.2, 2.0, 20.0, 60.0),
        (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 3.0),
    ),
    # Without the digitizing option it has 0.06 power line cycles besides those of the 34461A.
    "keysight_34465a": _sister(
        "keysight_34461a",
        "Keysight Technologies,34465A,{serial},A.02.14-02.40-02.14-00.49-03-01",
        nplc_steps=(0.02, 0.06, 0.2, 1.0, 10.0, 100.0),
    ),
    # With LAN and USB, and a serial number of its own.
    "keysight_34972a": _sister(
        "keysight_34970a",
        "Agilent Technologies,34972A,{serial},1.16-1.12-02-02",
        "MY{number:08d}",
        49_021_266,
    ),
    "keysight_e3632a": _e3600(
        "E3632A", "1.2-5.0-1.0", 32.0, 7.5, P15V=(15.0, 7.0), P30V=(30.0, 4.0)
    ),
    "keysight_e3633a": _e3600(
        "E3633A", "1.7-5.0-1.0", 22.0, 22.0, P8V=(8.0, 20.0), P20V=(20.0, 10.0)
    ),
    "keysight_e3647a": _e364x("E3647A", "1.7-5.0-1.0", P35V=(35.0, 0.8), P60V=(60.0, 0.5)),
    "keysight_e3648a": _e364x("E3648A", "1.7-5.0-1.0", P8V=(8.0, 5.0), P20V=(20.0, 2.5)),
    "keysight_e3649a": _e364x("E3649A", "1.4-5.0-1.0", P35V=(35.0, 1.4), P60V=(60.0, 0.8)),
    "keysight_e36313a": _sister(
        "keysight_e36312a",
        "Keysight Technologies,E36313A,{serial},2.1.0-1.0.4-1.12",
        ratings={1: (6.0, 10.0), 2: (25.0, 2.0), 3: (25.0, 2.0)},
    ),
    "keysight_e5062a": _sister(
        "keysight_e5061a", "Agilent Technologies,E5062A,{serial},03.00", highest_hz=3e9
    ),
    "lakeshore_336": _sister(
        "lakeshore_335",
        "LSCI,MODEL336,{serial},2.9",
        "LSA{number:d}CMQ/LSA2C8R",
        2,
        inputs=("A", "B", "C", "D"),
        # The third and the fourth output are on or off.
        highest_ranges=(3, 3, 1, 1),
    ),
    "rigol_dg1032z": _dg1000z("DG1032Z", "DG1ZA{number:010d}", 2_012_604_407, 30e6),
    "rigol_dg1062z": _dg1000z("DG1062Z", "DG1ZA{number:09d}", 232_603_118, 60e6),
    "rigol_dl3031": _sister(
        "rigol_dl3021",
        "RIGOL TECHNOLOGIES,DL3031A,{serial},00.01.05.00.01",
        "DL3D{number:09d}",
        232300106,
        highest_a=60.0,
        highest_w=350.0,
        low_range_a=6.0,
    ),
    # 100 MHz of bandwidth.
    "rigol_ds1104z": _sister(
        "rigol_ds1054z",
        "RIGOL TECHNOLOGIES,DS1104Z,{serial},00.04.05.SP2",
        "DS1ZA{number:03d}M00140",
        266,
    ),
    "rs_hmp2030": _hmp("HMP2030", 5.0),
    "rs_hmp4030": _hmp("HMP4030", 10.0),
    "siglent_sdl1030x": _sister(
        "siglent_sdl1020x",
        "Siglent Technologies,SDL1030X-E,{serial},1.1.1.23R4",
        "SDL13GCQ7R{number:04d}",
        669,
        highest_w=300.0,
    ),
    "siglent_sdm3065x": _sister(
        "siglent_sdm3055",
        "Siglent Technologies,SDM3065X,{serial},3.02.01.13",
        "SDM36HCD{number:06d}",
        801_207,
        gain_error=35e-6,
        least_nplc=0.005,
        nplc_steps=(0.005, 0.05, 0.5, 1.0, 10.0, 100.0),
    ),
    "siglent_sds1202xe": _sister(
        "siglent_sds1104xe",
        "Siglent Technologies,SDS1202X-E,{serial},7.1.1.3.23",
        "SDS1ECDQ2R{number:04d}",
        5789,
        channel_count=2,
    ),
    "siglent_spd1305x": _sister(
        "siglent_spd1168x",
        "Siglent Technologies,SPD1305X,{serial},2.1.1.8",
        "SPD13DCC8R{number:04d}",
        195,
        highest_v=30.0,
        highest_a=5.0,
    ),
    "srs_sr865a": _sister(
        "srs_sr860",
        "Stanford_Research_Systems,SR865A,{serial},v1.34",
        first=2725,
        highest_hz=4_000_000.0,
    ),
    "tektronix_tbs2202b": _tbs("TBS2202B", 10_001, 2),
    "tektronix_tbs2204b": _tbs("TBS2204B", 10_302, 4),
}
