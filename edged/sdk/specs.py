"""``MCP_TOOL_SPECS`` as a worker sent it → checked specifications, or a complaint with its place.

The one grammar of parameters is the profiles' (``grammar_parameters``), so that a wrapper's tool is
validated like any command. Pure.

Source: docs/promises.md section 10; docs/sdk-wrappers.md has every key.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from edged.profiles.arguments import ParameterCheck, compile_parameters
from edged.profiles.format.kinds import check_name
from edged.profiles.format.parameters import CHECKS, PARAMETERS, read_parameters
from edged.profiles.model import Parameter
from edged.profiles.parameter_schema import usable_default
from edged.record import record
from edged.schema.fields import MAX_TEXT, Fields, Gathering, complaint, text_of
from edged.schema.tables import (
    TEXT_SCHEMA,
    TRUTH,
    Key,
    Kind,
    Table,
    choice,
    entries,
    made,
    number,
    text,
)
from edged.yaml.tree import ListNode, MapNode, Mark, Node, ScalarNode

PREFIX: Final = "sdk:"
UsbId = tuple[int, int | None]
"""Vendor and product; ``None``: any product of that vendor."""
_USB_ID: Final = re.compile(r"([0-9a-fA-F]{4}):([0-9a-fA-F]{4}|\*)")
MOST_USB_IDS: Final = 64
MOST_SPECS: Final = 100
DEFAULT_TIMEOUT_S: Final = 30.0
LONGEST_TIMEOUT_S: Final = 3_600.0
MAX_DEPTH: Final = 32


class ReturnType(enum.StrEnum):
    """What a function gives back."""

    FLOAT = "float"
    INT = "int"
    STRING = "string"
    BOOL = "bool"
    LIST = "list"
    OBJECT = "object"


@record
class Returned:
    """``returns``, or one of its ``fields``."""

    type: ReturnType
    unit: str = ""
    description: str = ""
    fields: Mapping[str, Returned] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As get_capabilities shows it."""
        told: dict[str, Any] = {"type": self.type.value}
        if self.unit:
            told["unit"] = self.unit
        if self.description:
            told["description"] = self.description
        if self.fields:
            told["fields"] = {name: one.to_json() for name, one in self.fields.items()}
        return told


def wrapper_id(stem: str) -> str:
    """What a wrapper is called where instruments have their ids: in lockouts and in the record."""
    return f"{PREFIX}{stem}"


@record
class WrapperSpec:
    """One tool of a wrapper.

    Attributes:
        wrapper: the stem of its file.
        digest: of all its specifications: what was learnt of other ones no longer holds.
        method: the function that is called in the worker.
        check: of its arguments; ``check.schema`` is what agents see.
        is_query: it changes nothing; whatever does not say so counts as a write.
        is_abort: stop all runs it; it is safe and needs no arguments.
        timeout_s: after which the worker is killed.
    """

    wrapper: str
    digest: str
    name: str
    description: str
    method: str
    parameters: Mapping[str, Parameter]
    check: ParameterCheck
    is_query: bool = False
    is_dangerous: bool = False
    is_safe: bool = False
    is_abort: bool = False
    is_essential: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    returns: Returned | None = None

    @property
    def wrapper_id(self) -> str:
        return wrapper_id(self.wrapper)


@record
class SpecSource:
    """Where specifications come from.

    Attributes:
        line: where the list begins; ``lines``: where each of its items does.
        methods: what the functions take and need; None where the module could not be imported.
    """

    stem: str
    path: str
    line: int = 1
    lines: Sequence[int] = ()
    methods: Mapping[str, Any] | None = None
    digest: str = ""

    def mark(self, index: int | None = None) -> Mark:
        """The place of one specification, or of the list."""
        line = self.line if index is None or index >= len(self.lines) else self.lines[index]
        return Mark(path=self.path, line=max(1, line), column=1)


def read_specs(specs: object, source: SpecSource) -> tuple[WrapperSpec, ...]:
    """The specifications of one wrapper; none where the module declares none (a helper of others).

    Raises:
        Invalid: BAD_PROFILE with path and line, for the first that breaks a rule.
    """
    if specs is None:
        return ()
    if not isinstance(specs, list | tuple):
        raise complaint(source.mark(), "MCP_TOOL_SPECS must be a list of dicts.")
    if not 0 < len(specs) <= MOST_SPECS:
        message = f"MCP_TOOL_SPECS has {len(specs)} entries; 1 to {MOST_SPECS} can be."
        raise complaint(source.mark(), message)
    source = replace(source, digest=_fingerprint(specs))
    found: dict[str, WrapperSpec] = {}
    for index, plain in enumerate(specs):
        mark = source.mark(index)
        spec = _read_spec(plain_node(plain, mark), f"MCP_TOOL_SPECS[{index}]", mark, source)
        if spec.name in found:
            raise complaint(mark, f'MCP_TOOL_SPECS has the name "{spec.name}" twice.')
        found[spec.name] = spec
    return tuple(found.values())


def read_usb_ids(told: object) -> frozenset[UsbId]:
    """``USB_IDS`` of a wrapper (``["0416:5011", "1443:*"]``); what is none is passed over."""
    texts = told[:MOST_USB_IDS] if isinstance(told, list | tuple) else ()
    found = (_USB_ID.fullmatch(text) for text in texts if isinstance(text, str))
    return frozenset(
        (int(one[1], 16), None if one[2] == "*" else int(one[2], 16)) for one in found if one
    )


def _fingerprint(specs: object) -> str:
    text = json.dumps(specs, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _said(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    found = text_of(node, fields.name_of(key), most=200 if key == "method" else MAX_TEXT)
    if not found.strip():
        raise complaint(node.mark, f"{fields.name_of(key)} is empty.")
    return found


def _returned(fields: Fields, key: str, node: Node, _names: Collection[str]) -> Returned:
    owner = f"{fields.owner}.{key}"
    found = RETURNED.read_values(node, owner)
    if "type" not in found and not found.get("fields"):
        raise complaint(node.mark, f'{owner} has no "type".')
    return Returned(**{"type": ReturnType.OBJECT, **found})


_TEXT: Final = Kind("text", TEXT_SCHEMA, _said)
_TYPE: Final = Key("type", choice(ReturnType), "What it is.")
_UNIT: Final = Key("unit", text(32), "Its unit.")
_DESCRIPTION: Final = Key("description", text(), "What it means.")
FIELD: Final = Table(
    "field", Returned, "One field of what a function gives back.",
    _TYPE._replace(is_required=True), _UNIT, _DESCRIPTION,
)  # fmt: skip
RETURNED: Final[Table[dict[str, Any]]] = Table(
    "returned", dict, "What a function gives back.", _TYPE, _UNIT, _DESCRIPTION,
    Key("fields", entries("name", FIELD.inside, 100), "Those of an object, the type then."),
)  # fmt: skip
SPEC: Final[Table[dict[str, Any]]] = Table(
    "spec",
    dict,
    "One tool of a wrapper.",
    Key("name", _TEXT, "Its name.", is_required=True),
    Key("description", _TEXT, "What it does, for an agent.", is_required=True),
    Key("method", _TEXT, "The function of the module, or method of `Wrapper`.", is_required=True),
    PARAMETERS,
    CHECKS,
    Key("is_query", TRUTH, "It changes nothing."),
    Key("is_dangerous", TRUTH, "It may do harm."),
    Key("is_safe", TRUTH, "It makes safe."),
    Key("is_abort", TRUTH, "Stop all runs it."),
    Key("is_essential", TRUTH, "It is listed with `tools=essential`."),
    Key("timeout_s", made(number(0.1, LONGEST_TIMEOUT_S), float), "Then its worker is killed."),
    Key("returns", Kind(RETURNED.link.word, RETURNED.link.schema, _returned),
        "What it gives back."),
)  # fmt: skip


def _read_spec(node: Node, place: str, mark: Mark, source: SpecSource) -> WrapperSpec:
    fields = SPEC.fields(node, place)
    name = check_name(mark, SPEC.value(fields, "name"), f"{place}: the tool")
    owner = f"{source.stem}.{name}"
    fields = Fields(fields.node, owner)
    gathering = Gathering()
    parameters = read_parameters(fields, gathering)
    gathering.end()
    found = SPEC.values(fields, parameters)
    takes = _signature(found["method"], owner, mark, source)
    optional = _optional(parameters, takes, owner, mark)
    checks = found.pop("checks", ())
    spec = WrapperSpec(
        wrapper=source.stem,
        digest=source.digest,
        parameters=parameters,
        check=compile_parameters(owner, parameters, checks, optional, encoding="utf-8"),
        **found,
    )
    _check_roles(spec, owner, mark)
    return spec


def _check_roles(spec: WrapperSpec, owner: str, mark: Mark) -> None:
    if spec.is_safe and spec.is_dangerous:
        raise complaint(mark, f"{owner} is marked both is_safe and is_dangerous.")
    if spec.is_abort and not spec.is_safe:
        raise complaint(mark, f"{owner} is marked is_abort, so it must be is_safe, too.")
    required = spec.check.schema.get("required", ())
    if spec.is_abort and required:
        needed = ", ".join(required)
        message = f"{owner} is marked is_abort, but needs {needed}; stop all gives no arguments."
        raise complaint(mark, message, "Give them defaults.")


def _signature(method: str, owner: str, mark: Mark, source: SpecSource) -> Mapping[str, Any] | None:
    if source.methods is None:
        return None
    if method not in source.methods:
        message = f'{owner}: "method" names {method}, which is not a function of the module'
        raise complaint(mark, f"{message} and no method of its class Wrapper.")
    takes: Mapping[str, Any] | None = source.methods[method]
    return takes


def _optional(
    parameters: Mapping[str, Parameter], takes: Mapping[str, Any] | None, owner: str, mark: Mark
) -> frozenset[str]:
    """The parameters that may be left out because the function has a default of its own."""
    if takes is None:
        return frozenset()
    for name in parameters:
        if name not in takes["takes"]:
            raise complaint(mark, f"{owner}: its function takes no argument {name}.")
    for name in takes["needs"]:
        if name not in parameters:
            message = f'{owner}: its function needs {name}, which is not in "parameters".'
            raise complaint(mark, message)
    return frozenset(
        name
        for name, parameter in parameters.items()
        if name not in takes["needs"] and usable_default(parameter) is None
    )


def plain_node(value: object, mark: Mark, depth: int = 0) -> Node:
    """Plain Python data as nodes that all stand at ``mark``: the one grammar reads them, too.

    Raises:
        Invalid: something that YAML could not hold, or too deep.
    """
    if depth > MAX_DEPTH:
        raise complaint(mark, f"This is nested deeper than {MAX_DEPTH} levels.")
    match value:
        case float() if not math.isfinite(value):
            raise complaint(mark, f"{value} is not a finite number.")
        case None:
            return ScalarNode(mark, None, "")
        case bool():
            return ScalarNode(mark, value, str(value).lower())
        case int() | float() | str():
            return ScalarNode(mark, value, str(value))
        case list() | tuple():
            return ListNode(mark, tuple(plain_node(item, mark, depth + 1) for item in value))
        case Mapping():
            keys = {str(key): ScalarNode(mark, key, str(key)) for key in value}
            entries = {str(key): plain_node(item, mark, depth + 1) for key, item in value.items()}
            return MapNode(mark, entries, keys)
        case _:
            raise complaint(mark, f"{type(value).__name__} is not a plain value.")
