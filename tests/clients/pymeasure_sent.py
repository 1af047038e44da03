"""What PyMeasure itself sends: run in its own environment, apart from how edged reads its source.

Orders come as JSON lines: an instrument's class, a property of it or of a channel, and numbers to
set. The property is worked as a program would, over an adapter that only writes down what was sent.
The answer says every listed value that the property takes, by its own arguments, with the line
that it sends; what it sent for the numbers; the question that it asks, and what it makes of given
answers.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import sys
import warnings
from typing import Any

from pymeasure.adapters import Adapter
from pymeasure.instruments import Channel
from pymeasure.instruments.common_base import CommonBase, DynamicProperty

MOST_LISTED = 600


class WritingDown(Adapter):
    """Answers every question with the same text, and keeps what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []
        self.answer = "0"

    def _write(self, command: str, **_: Any) -> None:
        self.sent.append(command)

    def _write_bytes(self, content: bytes, **_: Any) -> None:
        self.sent.append(content.decode("latin-1"))

    def _read(self, **_: Any) -> str:
        return self.answer

    def _read_bytes(self, count: int, break_on_termchar: bool = False, **_: Any) -> bytes:
        return self.answer.encode()

    def flush_read_buffer(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


@functools.cache
def instrument_of(kind: type[Any]) -> tuple[Any, WritingDown]:
    """The instrument of a class, and what it sends through: made once, as a program makes it.

    PyMeasure looks through all members of the class for it, which takes 50 ms.
    """
    adapter = WritingDown()
    return made(kind, adapter), adapter


def made(kind: type[Any], *arguments: Any) -> Any:
    """The object by its own constructor; where that wants a real instrument, without it."""
    try:
        return kind(*arguments)
    except BaseException:  # noqa: BLE001 - constructors of drivers raise whatever they like
        bare = kind.__new__(kind)
        bare.__dict__["_special_names"] = []
        if issubclass(kind, Channel):
            bare.parent, bare.id = arguments
        else:
            bare.adapter = arguments[0]
            bare.SCPI = False
        names = CommonBase._setup_special_names(bare)
        bare.__dict__["_special_names"] = names
        return bare


@functools.cache
def channel_of(instrument: Any, kind: type[Any], identity: Any) -> Any:
    """The instrument's own channel object, else one that is made for it."""
    found = []
    for value in instrument.__dict__.values():
        found += list(value.values()) if isinstance(value, dict) else [value]
    for one in found:
        if type(one) is kind and getattr(one, "id", None) == identity:
            return one
    return made(kind, instrument, identity)


def arguments_of(owner: Any, name: str, function: Any) -> dict[str, Any]:
    """What a property's function works by: its defaults, and what class or object say anew."""
    told = {
        key: parameter.default
        for key, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    if isinstance(inspect.getattr_static(type(owner), name), DynamicProperty):
        for key in told:
            told[key] = owner.__dict__.get(f"___{name}_{key}", told[key])
    return told


def set_to(owner: Any, adapter: WritingDown, name: str, value: Any) -> str | None:
    """The line that was sent for a value; nothing where it was refused."""
    adapter.sent.clear()
    try:
        setattr(owner, name, value)
    except Exception:  # noqa: BLE001 - a refusal, of whatever kind
        return None
    return "\n".join(adapter.sent)


def told_of_set(owner: Any, adapter: WritingDown, order: dict[str, Any]) -> dict[str, Any]:
    """Every value that it takes by its own arguments, and the numbers of the order."""
    name = order["property"]
    static = inspect.getattr_static(type(owner), name)
    arguments = arguments_of(owner, name, static.fset)
    values = arguments.get("values", ())
    listed: list[Any] = []
    validator, is_map = arguments["validator"].__name__, bool(arguments.get("map_values"))
    # Between two ends nothing is listed: PyMeasure looks through a whole range for each value.
    if is_map or validator not in ("<lambda>", "strict_range", "truncated_range"):
        listed = list(values)[:MOST_LISTED]
    try:
        ends = [min(values), max(values)]
    except (TypeError, ValueError):
        ends = []
    return {
        "validator": validator,
        "ends": ends,
        "is_map": is_map,
        "listed": [[value, set_to(owner, adapter, name, value)] for value in listed],
        "numbers": [[value, set_to(owner, adapter, name, value)] for value in order["numbers"]],
    }


def told_of_get(owner: Any, adapter: WritingDown, order: dict[str, Any]) -> dict[str, Any]:
    """The question, and what each answer means."""
    name = order["property"]
    meant = []
    asked = ""
    for answer in order["answers"] or ["0"]:
        adapter.sent.clear()
        adapter.answer = answer
        try:
            value = getattr(owner, name)
        except Exception as error:  # noqa: BLE001 - it may want another answer
            value = f"{type(error).__name__}"
        asked = "\n".join(adapter.sent)
        meant.append([answer, value if isinstance(value, str | int | float | bool) else str(value)])
    return {"asked": asked, "meant": meant}


def told(order: dict[str, Any]) -> dict[str, Any]:
    """The answer to one order."""
    module = importlib.import_module(order["module"])
    kind: Any = module
    for part in order["class"].split("."):
        kind = getattr(kind, part)
    owner, adapter = instrument_of(kind)
    adapter.answer = "0"
    if order["channel_class"]:
        where: Any = importlib.import_module(order["channel_module"])
        for part in order["channel_class"].split("."):
            where = getattr(where, part)
        owner = channel_of(owner, where, order["id"])
    owner.check_set_errors = list
    owner.check_get_errors = list
    if order["side"] == "set":
        return told_of_set(owner, adapter, order)
    return told_of_get(owner, adapter, order)


def main() -> None:
    """Answer each order with a line."""
    warnings.simplefilter("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            result = told(json.loads(line))
        except BaseException as error:  # noqa: BLE001 - the test says what may fail
            result = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(result, default=str) + "\n")


if __name__ == "__main__":
    main()
