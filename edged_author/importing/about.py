"""What an instrument is, as far as its driver's names tell: maker, model, class, how it is reached.

A draft for a person to mend: the pattern by which an instrument is recognized is as narrow as a
model's number, and matches nothing where the class is called by a family's name.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from edged.patterns import why_slow
from edged.record import record
from edged_author.importing.declarations import Argument, DriverReader, Members
from edged_author.importing.literals import NotLiteralError
from edged_author.importing.naming import clean_name

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
_NAME: Final = re.compile(
    r"(?P<maker>[A-Za-z][A-Za-z&-]*(?: [A-Za-z&-]+){0,3}) (?P<model>[A-Za-z-]*\d[\w-]*).{0,80}"
)
"""``Kikusui PLZ1205W Electronic Load``: the model is the first word with a digit."""


@record
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
    parent = PurePosixPath(of.path).parent.name
    folder = clean_name(parent) if parent else ""
    told = "" if folder else _name(members, reader)
    named = _NAME.fullmatch(told)
    if named is not None:
        folder = clean_name(named["maker"].split()[0])
    folder = folder or "unknown"
    usual = folder.replace("_", " ").title() if named is None else named["maker"]
    maker, begins = _MAKERS.get(folder, (usual, folder))
    model = _model(of.name.rpartition(".")[2] if named is None else named["model"], folder)
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


def _name(members: Members, reader: DriverReader) -> str:
    """What a constructor calls the instrument, where that is a literal: ``Acme P1``."""
    for one in members.order:
        for node in one.node.body:
            if not isinstance(node, ast.FunctionDef) or node.name != "__init__":
                continue
            given = dict(
                zip([a.arg for a in node.args.args][::-1], node.args.defaults[::-1], strict=False)
            )
            given |= {
                a.arg: d
                for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                if d is not None
            }
            calls = [c for c in ast.walk(node) if isinstance(c, ast.Call) and _is_constructor(c)]
            said = [word.value for call in calls for word in call.keywords if word.arg == "name"]
            said += [call.args[1] for call in calls if len(call.args) > 1]
            for expression in (*said, *filter(None, [given.get("name")])):
                with contextlib.suppress(NotLiteralError):
                    found = reader.value(Argument(expression, one))
                    if isinstance(found, str):
                        return found
    return ""


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
