"""``match``, ``connection`` and what commands share with it (``errors``, ``complete``)."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from edged.config.instruments import LACKS, TIMEOUT, WIRE_SETTINGS, read_errors
from edged.profiles import model
from edged.profiles.format.kinds import (
    EXPRESSION,
    PATTERN,
    PLAIN_QUERY,
    PLAIN_QUESTION,
    QUERY,
    TEMPLATE,
    expression_of,
    pattern,
    pattern_of,
)
from edged.schema.fields import Fields, complaint, scalar_of, text_of
from edged.schema.tables import (
    TEXT_SCHEMA,
    TRUTH,
    Key,
    Kind,
    Table,
    array,
    choice,
    integer,
    is_word,
    reference,
    text,
)
from edged.scpi.kinds import AnswerType, ErrorKind
from edged.yaml.tree import Node, ScalarNode

MAX_PAUSE_MS: Final = 60_000
_USB_ID: Final = re.compile(r"(?:0x)?([0-9a-f]{4}):(?:0x)?([0-9a-f]{4})", re.IGNORECASE)


_USB_PATTERN: Final = "^(0x)?[0-9a-fA-F]{4}:(0x)?[0-9a-fA-F]{4}$"


def _usb_id(fields: Fields, key: str, node: Node, _names: Collection[str]) -> tuple[int, int]:
    found = text_of(node, fields.name_of(key), most=32)
    match = _USB_ID.fullmatch(found)
    if match is None:
        message = f'match: "usb" has "{found}", which is not vendor:product in hexadecimal.'
        raise complaint(node.mark, message, 'Write it like "1ab1:0e11".')
    return int(match.group(1), 16), int(match.group(2), 16)


def _termination(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    name = fields.name_of(key)
    if isinstance(node, ScalarNode) and node.text in ("", "none") and node.value in ("", "none"):
        return ""
    found = scalar_of(node, name)
    if not isinstance(found, str) or len(found) > 4 or not found.isascii():
        raise complaint(node.mark, f"{name} must be at most four ASCII characters.")
    if "\\" in found:
        raise complaint(node.mark, f"{name} has a backslash as such.", 'Use double quotes: "\\n".')
    return found


def _acknowledge(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    return "" if is_word(node, "none") else pattern_of(node, fields.name_of(key))


def _errors(fields: Fields, key: str, node: Node, _names: Collection[str]) -> model.ErrorCheck:
    if is_word(node, "none"):
        return model.ErrorCheck()
    found = read_errors(fields, key, node, ERRORS, queue=(ErrorKind.NONE,))
    if found.setdefault("kind", ErrorKind.CODE) is ErrorKind.NONE:
        return model.ErrorCheck()
    return model.ErrorCheck(**found)


def _completion(fields: Fields, key: str, node: Node, names: Collection[str]) -> model.Completion:
    owner = f"{fields.owner}.{key}"
    if not isinstance(node, ScalarNode):
        found = COMPLETION.read_values(node, owner, names)
        return model.Completion(kind=model.CompletionKind.POLL, **found)
    word = text_of(node, owner, most=32)
    if word not in (model.CompletionKind.NONE, model.CompletionKind.OPC):
        raise complaint(node.mark, f'{owner} must be none, opc or a poll, not "{word}".')
    return model.Completion(kind=model.CompletionKind(word))


def _until(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    return expression_of(node, fields.name_of(key), {"value"})


_TERMINATION: Final = Kind(
    "up to 4 ASCII characters, or `none`", {"type": "string", "maxLength": 4}, _termination
)
ACKNOWLEDGE: Final = Key(
    "acknowledge",
    Kind("regular expression or `none`", TEXT_SCHEMA, _acknowledge),
    "The answer to a line that is not a query, like `^OK$`: read and compared after each of them, "
    "raw lines and aborts included; `none`: nothing does.",
)
MATCH: Final = Table(
    "match",
    model.Match,
    "Which instruments a profile is for.",
    Key("idn", PATTERN,
        "Searched in the whole `*IDN?` answer, ignoring case; the longest match is used.",
        is_required=True),
    Key("usb",
        array(Kind("vendor:product", {"type": "string", "pattern": _USB_PATTERN}, _usb_id), 100),
        'USB ids such as `"1ab1:0e11"`, hexadecimal; they decide between profiles that match '
        'equally well.', field="usb_ids"),
    Key("examples", array(text(512)), "Real answers to `*IDN?`."),
)  # fmt: skip
IDENTIFY: Final = Table(
    "identify",
    model.Identify,
    "The query that is sent instead of `*IDN?`, if INSTRUMENTS names the profile.",
    Key("ask", PLAIN_QUESTION, "The query, with or without `?`.", is_required=True),
    Key("expect", PATTERN, "Searched in the answer: if it matches, it is this instrument.",
        is_required=True),
    Key("serial", pattern(1), "Its group is the serial number in that answer."),
)  # fmt: skip
PROBE: Final = Table(
    "probe",
    model.Probe,
    "A query whose answer must match before the profile is used.",
    Key("query", PLAIN_QUERY, "The query, such as `*LANG?`.", is_required=True),
    Key("expect", PATTERN, "Searched in the answer.", is_required=True),
)  # fmt: skip
PRECONDITION: Final = Table(
    "precondition",
    model.Precondition,
    "A query that must have the expected answer before a command is sent; not for safe commands.",
    Key("query", PLAIN_QUERY, "Sent before everything else.", is_required=True),
    Key("expect", PATTERN, "If the answer does not match, the command fails.", is_required=True),
    Key("hint", text(), "The text of the error message then."),
)  # fmt: skip
ERRORS: Final = Table(
    "errors",
    model.ErrorCheck,
    "The query for an error caused by the last line; or `none`.",
    Key("kind", choice(ErrorKind),
        "How its answer is read; required unless there is a `pattern`, and `code` then. A `queue` "
        "is read to its end."),
    Key("query", PLAIN_QUERY,
        "The query, such as `SYST:ERR?`; required unless the kind is `none`."),
    Key("detail", PLAIN_QUERY, "A query for the text of an error, sent after an error."),
    Key("pattern", PATTERN,
        "Searched in an answer of another form, with the groups `code` and optionally `text`: "
        "`'^E(?P<code>[0-9]+)'`. The code 0, or an empty one, is no error."),
    Key("none", PATTERN, "Searched in the answer: if it matches, there is no error."),
    other={"const": "none"},
    needs_one=("kind", "pattern"),
)  # fmt: skip
COMPLETION: Final = Table(
    "complete",
    model.Completion,
    "How edged knows that a command is done: `none`, `opc` (`*OPC?` is answered by 1; any other "
    "answer is invalid), or a query that is polled.",
    Key("poll", QUERY, "The query.", field="query", is_required=True),
    Key("until", EXPRESSION._replace(read=_until),
        "An expression over `value` (the answer).", is_required=True),
    Key("pattern", pattern(1), "Its group is the value, if the answer has more text."),
    Key("type", choice(AnswerType),
        "The type of the value (default: a number if it is one, else text)."),
    Key("every_ms", integer(10, MAX_PAUSE_MS), "The interval between two queries."),
    Key("timeout_ms", TIMEOUT, "The timeout."),
    other={"enum": ["none", "opc"]},
)  # fmt: skip
ERRORS_KIND: Final = Kind("[errors](#errors) or `none`", reference("errors"), _errors)
COMPLETION_KIND: Final = Kind(
    "[complete](#complete), `opc` or `none`", reference("complete"), _completion
)
_SETTINGS: Final = (
    Key("read_termination", _TERMINATION, "The terminator of an answer."),
    Key("write_termination", _TERMINATION, "The terminator of a line that is sent."),
    *WIRE_SETTINGS,
    Key("errors", ERRORS_KIND, "The error query that is sent after a line that sets something."),
    ACKNOWLEDGE,
    Key("before", array(TEMPLATE, 20),
        "The lines that address the unit, such as `ADR {address}`: sent before it is identified, "
        "and again after another unit of the same port was spoken to. `{address}` is the "
        "`bus_address` in INSTRUMENTS."),
    Key("shared", TRUTH,
        "`true`: several units may share one port; each has its own `bus_address`, which "
        "`{address}` stands for in every line and pattern of the profile."),
    Key("on_connect", array(TEMPLATE, 100), "Sent when connecting; must not change an output."),
    Key("on_release", array(TEMPLATE, 100), "Sent before the connection is closed."),
    Key("probe", PROBE.inside, "A query whose answer must match before the profile is used."),
    Key("heartbeat", TRUTH,
        "Whether the probe (or else `*IDN?`) is sent on an idle LAN or serial connection every "
        "HEARTBEAT_SEC; `false` if that disturbs people at the front panel."),
    Key("heartbeat_source", text(),
        "The source that says that the query changes nothing; with `heartbeat: false`, the "
        "reason."),
)  # fmt: skip
WIRE: Final[Table[dict[str, Any]]] = Table(
    "wire",
    dict,
    "The settings of `connection` that differ on one kind of wire. What is omitted is as in "
    "`connection`.",
    *_SETTINGS,
)


def _settings_of_wire(
    fields: Fields, wire: str, node: Node, names: Collection[str]
) -> dict[str, Any]:
    owner = f"{fields.owner}.{wire}"
    found = WIRE.read(node, owner, names)
    inner = WIRE.fields(node, owner)
    for key in LACKS[wire]:
        if inner.get(key) is not None:
            message = f"{inner.name_of(key)} means nothing on this kind of wire."
            raise complaint(inner.mark_of(key), message, "Leave it out here.")
    return found


def _wire(name: str) -> Kind:
    schema = {**reference("wire"), "propertyNames": {"not": {"enum": list(LACKS[name])}}}
    return Kind(WIRE.inside.word, schema, _settings_of_wire)


CONNECTION: Final = Table(
    "connection",
    model.Connection,
    "The settings of the connection; omitted serial settings have the transport's defaults.",
    *_SETTINGS,
    Key("on_connect_serial", array(TEMPLATE, 100),
        "Sent instead of `on_connect` on a serial port; the same as `on_connect` in `serial`."),
    Key("serial", _wire("serial"), "What differs on a serial port."),
    Key("gpib", _wire("gpib"),
        "What differs on GPIB, also behind an adapter or a gateway; no settings of a serial port."),
    Key("lan", _wire("lan"), "What differs on the network; no settings of a serial port."),
    Key("usb", _wire("usb"), "What differs on USB (USBTMC); no settings of a serial port."),
)  # fmt: skip
