"""What an instrument is, as far as its driver's names tell: maker, model, class, how it is reached.

A draft for a person to mend: the pattern by which an instrument is recognized is as narrow as a
model's number, and matches nothing where the class is called by a family's name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from edged.patterns import why_slow
from edged.profiles.importing.declarations import Argument, DriverReader, Members
from edged.profiles.importing.literals import NotLiteralError
from edged.profiles.importing.naming import clean_name

__all__ = ["About", "about", "pattern_for"]

_MAKERS: Final[Mapping[str, tuple[str, str]]] = {
    "hp": ("Hewlett-Packard", "hewlett"),
    "srs": ("Stanford Research Systems", "stanford"),
    "rohdeschwarz": ("Rohde & Schwarz", "rohde"),
    "siglenttechnologies": ("Siglent", "siglent"),
    "signalrecovery": ("Signal Recovery", "signal"),
    "lakeshore": ("Lake Shore", "l(?:ake ?shore|sci)"),
    "tdk": ("TDK-Lambda", "(?:tdk|lambda)"),
    "aimtti": ("Aim-TTi", "(?:thurlby|aim)"),
    "oxfordinstruments": ("Oxford Instruments", "oxford"),
    "temptronic": ("Temptronic", "temptronic"),
    "ni": ("National Instruments", "national"),
    "activetechnologies": ("Active Technologies", "active"),
    "teledyne": ("Teledyne LeCroy", "(?:teledyne|lecroy)"),
    "lecroy": ("Teledyne LeCroy", "(?:teledyne|lecroy)"),
}  # fmt: skip
"""Folder → the maker as people write it, and how its answers to ``*IDN?`` begin."""
_CLASSES: Final[tuple[tuple[str, str], ...]] = (
    ("smu", r"source[- ]?(?:meter|measure)|\bsmu\b|sourcemeter"),
    ("electronic_load", r"electronic load|dc load|\bload bank"),
    ("power_supply", r"power suppl|\bpsu\b|dc source|supply\b"),
    ("oscilloscope", r"oscilloscope"),
    ("function_generator", r"(?:function|waveform|pulse) generator|arbitrary|\bawg\b"),
    ("signal_generator", r"signal generator|signal source|synthesi[sz]er|microwave source"),
    ("spectrum_analyzer", r"spectrum analy[sz]er"),
    ("network_analyzer", r"network analy[sz]er"),
    ("lock_in", r"lock[- ]?in"),
    ("lcr_meter", r"\blcr\b|impedance analy[sz]er|capacitance bridge"),
    ("temperature_controller", r"temperature contr|temperature monitor|cryo"),
    ("electrometer", r"electrometer|picoammeter"),
    ("current_source", r"current source"),
    ("frequency_counter", r"frequency counter|universal counter"),
    ("power_meter", r"power meter|power sensor"),
    ("multimeter", r"multimeter|\bdmm\b|voltmeter"),
    ("switch", r"switch(?:ing)?\b|multiplexer"),
)  # fmt: skip
_LINE_ENDS: Final = frozenset({"\n", "\r", "\r\n", "\n\r"})
_ENDS_OF: Final = ("read_termination", "write_termination")
MAX_DOCS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What stands in the head of a draft; ``begins``: how the maker's answers to ``*IDN?`` do."""

    maker: str
    folder: str
    model: str
    instrument_class: str
    begins: str
    connection: Mapping[str, Any]


def about(members: Members, reader: DriverReader) -> About:
    """What an instrument class is."""
    of = members.of
    folder = clean_name(PurePosixPath(of.path).parent.name or "unknown")
    maker, begins = _MAKERS.get(folder, (folder.replace("_", " ").title(), folder))
    model = _model(of.name.rpartition(".")[2], folder)
    words = (
        f"{of.name} {PurePosixPath(of.path).stem} {(ast.get_docstring(of.node) or '')[:MAX_DOCS]}"
    )
    known = (name for name, pattern in _CLASSES if re.search(pattern, words, re.IGNORECASE))
    return About(
        maker=maker,
        folder=folder,
        model=model,
        instrument_class=next(known, "other"),
        begins=begins,
        connection=_connection(members, reader),
    )


def pattern_for(known: About) -> str:
    """What to search in an answer to ``*IDN?``.

    As wide as a quick search allows between the maker's first word and the model.
    """
    begins, model = known.begins, known.model
    tries = (rf"{begins}[^,]{{0,{most}}}, ?(?:model ?)?{model}\b" for most in (30, 20, 10, 0))
    return next((one for one in tries if not why_slow(one)), rf"\b{model}\b")


def _model(name: str, folder: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9]", "", name)
    starts = plain.lower().startswith(folder.replace("_", ""))
    rest = plain[len(folder.replace("_", "")) :] if starts else plain
    return (rest or plain)[:40]


def _connection(members: Members, reader: DriverReader) -> dict[str, Any]:
    """Line ends and speed, where the constructor says them as literals."""
    found: dict[str, Any] = {}
    for one in members.order:
        for node in one.node.body:
            if not isinstance(node, ast.FunctionDef) or node.name != "__init__":
                continue
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and _is_constructor(call):
                    for word in call.keywords:
                        _take(word, Argument(word.value, one), reader, found)
    return found


def _is_constructor(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
            return True
        case _:
            return False


def _take(
    word: ast.keyword, argument: Argument, reader: DriverReader, found: dict[str, Any]
) -> None:
    try:
        value = reader.value(argument) if word.arg in (*_ENDS_OF, "asrl") else None
    except NotLiteralError:
        return
    if word.arg in _ENDS_OF and value in _LINE_ENDS:
        found.setdefault(word.arg, value)
    if word.arg == "asrl" and isinstance(value, dict):
        for end in _ENDS_OF:
            if value.get(end) in _LINE_ENDS:
                found.setdefault(end, value[end])
        speed = value.get("baud_rate")
        if type(speed) is int and 50 <= speed <= 4_000_000:
            found.setdefault("baud_rate", speed)
