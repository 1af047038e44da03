"""``match``, ``connection`` and what commands share with it (``errors``, ``complete``)."""

from __future__ import annotations

import re
from typing import Final

from edged.profiles.format.fields import (
    Fields,
    complaint,
    expression_of,
    pattern_of,
    scalar_of,
    template_of,
    text_of,
)
from edged.profiles.model import (
    Completion,
    CompletionKind,
    Connection,
    ErrorCheck,
    Match,
    Precondition,
    Probe,
)
from edged.scpi.answer_text import ErrorKind
from edged.yaml.tree import Node, ScalarNode

__all__ = [
    "MAX_TIMEOUT_MS",
    "read_acknowledge",
    "read_completion",
    "read_connection",
    "read_errors",
    "read_match",
    "read_precondition",
]

MAX_TIMEOUT_MS: Final = 3_600_000
"""An hour: some calibrations take that long, nothing takes longer."""
MAX_PAUSE_MS: Final = 60_000
CONNECTION_KEYS: Final = frozenset(
    {
        "read_termination", "write_termination", "encoding", "timeout_ms", "open_timeout_ms",
        "after_write_ms", "min_gap_ms", "chunk_bytes", "baud_rate", "data_bits", "parity",
        "stop_bits", "flow", "errors", "acknowledge", "on_connect", "on_connect_serial",
        "on_release", "probe",
    }
)  # fmt: skip
MATCH_KEYS: Final = ("idn", "usb", "examples")
PROBE_KEYS: Final = ("query", "expect")
PRECONDITION_KEYS: Final = ("query", "expect", "hint")
ERROR_KEYS: Final = ("query", "kind", "detail")
COMPLETION_KEYS: Final = ("poll", "until", "every_ms", "timeout_ms")
ENCODINGS: Final = ("ascii", "latin-1", "utf-8")
PARITIES: Final = ("none", "even", "odd", "mark", "space")
FLOWS: Final = ("none", "xon_xoff", "rts_cts", "dtr_dsr")
STOP_BITS: Final = (1, 1.5, 2)
_USB_ID: Final = re.compile(r"(?:0x)?([0-9a-f]{4}):(?:0x)?([0-9a-f]{4})", re.IGNORECASE)
_NOTHING: Final = frozenset[str]()


def read_match(node: Node) -> Match:
    """``match: {idn, usb?, examples?}``; ``usb`` lists ids as ``"1ab1:0e11"``, hexadecimal."""
    fields = Fields.of(node, "match", MATCH_KEYS)
    name = fields.name_of("examples")
    return Match(
        idn=pattern_of(fields.need("idn"), fields.name_of("idn")),
        usb_ids=tuple(_usb_id(entry) for entry in fields.items("usb", most=100)),
        examples=tuple(text_of(entry, name, most=512) for entry in fields.items("examples")),
    )


def _usb_id(node: Node) -> tuple[int, int]:
    text = text_of(node, 'match: "usb"', most=32)
    found = _USB_ID.fullmatch(text)
    if found is None:
        message = f'match: "usb" has "{text}", which is not vendor:product in hexadecimal.'
        raise complaint(node.mark, message, 'Write it like "1ab1:0e11".')
    return int(found.group(1), 16), int(found.group(2), 16)


def read_connection(node: Node | None) -> Connection:
    """How to talk to the instrument.

    Raises:
        Invalid: with the place of whatever breaks a rule.
    """
    if node is None:
        return Connection()
    fields = Fields.of(node, "connection", CONNECTION_KEYS)
    timeout_ms = fields.whole("timeout_ms", 1, MAX_TIMEOUT_MS)
    return Connection(
        read_termination=_termination(fields, "read_termination"),
        write_termination=_termination(fields, "write_termination"),
        encoding=fields.choice("encoding", ENCODINGS) or "ascii",
        timeout_ms=2_000 if timeout_ms is None else timeout_ms,
        open_timeout_ms=fields.whole("open_timeout_ms", 1, MAX_PAUSE_MS) or 5_000,
        after_write_ms=fields.whole("after_write_ms", 0, MAX_PAUSE_MS) or 0,
        min_gap_ms=fields.whole("min_gap_ms", 0, MAX_PAUSE_MS) or 0,
        chunk_bytes=fields.whole("chunk_bytes", 16, 64 * 1024 * 1024),
        baud_rate=fields.whole("baud_rate", 50, 10_000_000),
        data_bits=fields.whole("data_bits", 5, 8),
        parity=fields.choice("parity", PARITIES),
        stop_bits=_stop_bits(fields),
        flow=fields.choice("flow", FLOWS),
        errors=read_errors(fields.get("errors"), "connection.errors") or ErrorCheck(),
        acknowledge=read_acknowledge(fields),
        on_connect=fields.templates("on_connect", _NOTHING),
        on_connect_serial=fields.templates("on_connect_serial", _NOTHING)
        if fields.has("on_connect_serial")
        else None,
        on_release=fields.templates("on_release", _NOTHING),
        probe=_read_probe(fields.get("probe")),
    )


def _termination(fields: Fields, key: str) -> str:
    node = fields.get(key)
    if node is None:
        return "\n"
    name = fields.name_of(key)
    if isinstance(node, ScalarNode) and node.text in ("", "none") and node.value in ("", "none"):
        return ""
    text = scalar_of(node, name)
    if not isinstance(text, str) or len(text) > 4 or not text.isascii():
        raise complaint(node.mark, f"{name} must be at most four ASCII characters.")
    if "\\" in text:
        raise complaint(node.mark, f"{name} has a backslash as such.", 'Use double quotes: "\\n".')
    return text


def _stop_bits(fields: Fields) -> float | None:
    value = fields.number("stop_bits")
    if value is not None and value not in STOP_BITS:
        raise complaint(fields.mark_of("stop_bits"), "connection: stop_bits must be 1, 1.5 or 2.")
    return value


def read_acknowledge(fields: Fields) -> str | None:
    """``acknowledge``: the pattern of what answers a line that asks nothing; "none": empty."""
    node = fields.get("acknowledge")
    if node is None:
        return None
    if isinstance(node, ScalarNode) and node.text == "none":
        return ""
    return pattern_of(node, fields.name_of("acknowledge"))


def _read_probe(node: Node | None) -> Probe | None:
    if node is None:
        return None
    fields = Fields.of(node, "connection.probe", PROBE_KEYS)
    query = fields.need("query")
    return Probe(
        query=check_query(query, template_of(query, fields.name_of("query"), _NOTHING), fields),
        expect=pattern_of(fields.need("expect"), fields.name_of("expect")),
    )


def read_precondition(node: Node | None, owner: str) -> Precondition | None:
    """``precondition: {query, expect, hint?}`` of a command; the query has no placeholders."""
    if node is None:
        return None
    fields = Fields.of(node, owner, PRECONDITION_KEYS)
    query = fields.need("query")
    return Precondition(
        query=check_query(query, template_of(query, fields.name_of("query"), _NOTHING), fields),
        expect=pattern_of(fields.need("expect"), fields.name_of("expect")),
        hint=fields.text("hint"),
    )


def check_query(node: Node, template: str, fields: Fields) -> str:
    """Raises Invalid: a template that asks nothing, where a question belongs."""
    if "?" not in template:
        raise complaint(node.mark, f'{fields.owner}: "{template}" is no query (it has no "?").')
    return template


def read_errors(node: Node | None, owner: str) -> ErrorCheck | None:
    """``errors: {query, kind, detail?}`` or ``none``; ``None`` when nothing is said."""
    if node is None:
        return None
    if isinstance(node, ScalarNode) and node.text == "none":
        return ErrorCheck()
    fields = Fields.of(node, owner, ERROR_KEYS)
    fields.need("kind")
    kind = ErrorKind(fields.choice("kind", list(ErrorKind)) or "none")
    if kind is ErrorKind.NONE:
        return ErrorCheck()
    query = fields.need("query")
    text = check_query(query, template_of(query, fields.name_of("query"), _NOTHING), fields)
    detail = fields.get("detail")
    if detail is None:
        return ErrorCheck(kind=kind, query=text)
    asked = template_of(detail, fields.name_of("detail"), _NOTHING)
    return ErrorCheck(kind=kind, query=text, detail=check_query(detail, asked, fields))


def read_completion(node: Node | None, owner: str, names: frozenset[str]) -> Completion | None:
    """``complete: none | opc | {poll, until, every_ms, timeout_ms}``."""
    if node is None:
        return None
    if isinstance(node, ScalarNode):
        text = text_of(node, owner, most=32)
        if text not in (CompletionKind.NONE, CompletionKind.OPC):
            raise complaint(node.mark, f'{owner} must be none, opc or a poll, not "{text}".')
        return Completion(kind=CompletionKind(text))
    fields = Fields.of(node, owner, COMPLETION_KEYS)
    poll = fields.need("poll")
    template = template_of(poll, fields.name_of("poll"), names)
    return Completion(
        kind=CompletionKind.POLL,
        query=check_query(poll, template, fields),
        until=expression_of(fields.need("until"), fields.name_of("until"), {"value"}),
        every_ms=fields.whole("every_ms", 10, MAX_PAUSE_MS) or 100,
        timeout_ms=fields.whole("timeout_ms", 1, MAX_TIMEOUT_MS) or 10_000,
    )
