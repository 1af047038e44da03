"""A draft of a plan, made from what was sent by hand. Pure.

Commands become steps in the order in which they were sent. A set-point that was written again and
again, with the same readings between, becomes a ``for``. What a plan cannot say, such as raw lines,
becomes a comment. ``finally`` has the commands that switch off what was switched on.

Source: EXPERIMENTS.md, "CLI", ``from-history``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby
from statistics import median
from typing import Any, Final

from edged.experiments.grammar import KEYWORDS
from edged.record import record
from edged.yaml.tree import Scalar

LEAST_WAIT_S: Final = 0.5
"""A shorter time between two calls is what the calls take."""
MOST_WAIT_S: Final = 600.0
"""A longer one is a break of a person."""
LEAST_READINGS: Final = 3
"""One reading that is asked so often in a row is a loop."""
PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
NO_TEXT: Final = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})
ENDS: Final = {"on": "off", "start": "stop", "enable": "disable", "enabled": "disabled"}
UNREADABLE: Final = frozenset({"list", "waveform", "image"})
"""Answers that are no value of a row."""

Capabilities = Mapping[str, Mapping[str, Any]]
"""Command → its entry of get_capabilities."""


@record
class SentTo:
    """An instrument that something was sent to.

    Attributes:
        role: how a plan calls it.
        called: its alias or id.
    """

    role: str
    called: str
    commands: Capabilities


def role_of(alias: str, model: str) -> str:
    """The name of a role, made from what people call an instrument."""
    name = re.sub(r"[^a-z0-9]+", "_", (alias or model).lower()).strip("_")
    return name if name[:1].isalpha() else f"unit_{name}"


@record
class Sent:
    """A command that was sent: at which unit, and how long after the one before it, in seconds.

    Attributes:
        to, rate: of a sweep: where to, and units per second.
    """

    role: str
    command: str
    arguments: Mapping[str, Scalar]
    is_query: bool
    gap_s: float = 0.0
    to: Scalar | None = None
    rate: Scalar | None = None

    @property
    def what(self) -> tuple[object, ...]:
        """What two calls have in common that do the same."""
        return self.role, self.command, tuple(sorted(self.arguments.items())), self.to, self.rate


@record
class Repeated:
    """A loop: a parameter of a command takes each of these values, and then comes the body.

    Attributes:
        parameter: empty: nothing is set, the body is repeated.
    """

    call: Sent
    parameter: str
    values: tuple[Scalar, ...]
    body: tuple[Item, ...]
    wait_s: float

    @property
    def what(self) -> tuple[object, ...]:
        """As of a call; the first value of the call itself is among the values."""
        fixed = {name: value for name, value in self.call.arguments.items()
                 if name != self.parameter}  # fmt: skip
        inner = tuple(one.what for one in self.body)
        return self.call.role, self.call.command, tuple(sorted(fixed.items())), self.values, inner


@record
class Comment:
    """What a plan cannot say."""

    text: str

    @property
    def what(self) -> tuple[object, ...]:
        """Itself."""
        return (self.text,)


Item = Sent | Repeated | Comment


def draft(
    rows: Iterable[Mapping[str, Any]], units: Mapping[str, SentTo], *, name: str = "from_history"
) -> str:
    """The YAML text of a plan; empty where nothing was sent by hand.

    Args:
        rows: of the audit log, as ``AuditRow.to_json`` gives them.
        units: by instrument id.
        name: of the experiment.
    """
    items = list(_items(rows, units))
    roles = {one.role: None for one in items if isinstance(one, Sent)}
    if not roles:
        return ""
    called = {unit.role: unit.called for unit in units.values()}
    known = {unit.role: unit.commands for unit in units.values()}
    last = _switched_off(items, known)
    shown = _without_end(_with_loops(items), last)
    writer = _Writer(known=known)
    lines = [
        "# A draft of what was sent by hand. Read it, and check it, before you run it.",
        "format: 1",
        f"experiment: {name}",
        f"roles: {{{', '.join(f'{role}: {_scalar(called[role])}' for role in roles)}}}",
        "steps:",
        *writer.steps(shown, "  "),
    ]
    if last:
        lines += ["finally:", *(f"  - {_command(call)}" for call in last)]
    return "\n".join(lines) + "\n"


def _items(rows: Iterable[Mapping[str, Any]], units: Mapping[str, SentTo]) -> Iterator[Item]:
    """What somebody sent, the oldest first; what runs sent for somebody is left out."""
    ended_ms: float | None = None
    ours = [row for row in rows if row["phase"] == "end" and not row["on_behalf_of"]]
    for row in sorted(ours, key=lambda row: row["time_ms"] - row["duration_ms"]):
        unit = units.get(row["instrument"])
        began_ms = row["time_ms"] - row["duration_ms"]
        gap_s = 0.0 if ended_ms is None else max(0.0, (began_ms - ended_ms) / 1000)
        for item in _item(row, unit, gap_s):
            ended_ms = row["time_ms"]
            yield item


def _item(row: Mapping[str, Any], unit: SentTo | None, gap_s: float) -> Iterator[Item]:
    tool, command, said = str(row["tool"]), str(row["command"]), row["parameters"]
    given = dict(said) if isinstance(said, Mapping) else {}
    if unit is None or given.get("dry_run") is True:
        return
    is_known = command in unit.commands
    is_call = tool == "execute_command" or tool.endswith(f"__{command}")
    if row["outcome"] != "ok" or not is_known or not (is_call or tool == "start_sweep"):
        # A stream and a sequence have sent nothing themselves.
        what = " | ".join(str(row["scpi"]).splitlines()) or command
        outcome = "" if row["outcome"] == "ok" else f" ({row['outcome']})"
        if what:
            yield Comment(text=f"{tool} at {unit.role}: {what}{outcome}")
        return
    about = unit.commands[command]
    inner = given.get("parameters") if tool in ("execute_command", "start_sweep") else given
    names = about["parameters"].get("properties") or {}
    asked = {
        name: value
        for name, value in (inner if isinstance(inner, Mapping) else {}).items()
        if name in names and isinstance(value, int | float | str | bool)
    }
    call = Sent(
        role=unit.role,
        command=command,
        arguments=asked,
        is_query=bool(about["is_query"]),
        gap_s=gap_s,
    )
    if tool == "start_sweep":
        if given.get("measure"):
            yield Comment(text=f"the ramp of {unit.role}.{command} was a sweep that measured")
        call = replace(call, to=given.get("target_value"), rate=given.get("sweep_rate"))
    yield call


# Loops


def _with_loops(items: Sequence[Item]) -> list[Item]:
    """The same with repeated writes as loops; inner ones first, until there are no more."""
    items = _with_repeats(items)
    while True:
        found = _one_round(items)
        if len(found) == len(items):
            return found
        items = found


def _with_repeats(items: Sequence[Item]) -> list[Item]:
    """The same with one reading that was asked again and again as a loop."""
    found: list[Item] = []
    for _, same in groupby(items, key=lambda one: one.what):
        alike = list(same)
        run = [one for one in alike if isinstance(one, Sent) and one.is_query]
        if len(run) < LEAST_READINGS:
            found += alike
            continue
        gaps = [one.gap_s for one in run[1:]]
        numbers = tuple(range(len(run)))
        found.append(
            Repeated(call=run[0], parameter="", values=numbers, body=(run[0],), wait_s=median(gaps))
        )
    return found


def _one_round(items: Sequence[Item]) -> list[Item]:
    found: list[Item] = []
    at = 0
    while at < len(items):
        loop, length = _loop_at(items, at)
        found.append(loop or items[at])
        at += length if loop else 1
    return found


def _loop_at(items: Sequence[Item], at: int) -> tuple[Repeated | None, int]:
    """The loop that begins at an item, and how many items it stands for."""
    first = items[at]
    if not isinstance(first, Sent) or first.is_query or first.rate is not None:
        return None, 0
    body = _body(items, at + 1)
    if not body:
        return None, 0
    step = 1 + len(body)
    calls = [first]
    parameter = ""
    while (following := at + len(calls) * step) < len(items):
        other = items[following]
        same = [one.what for one in items[following + 1 : following + step]]
        if not isinstance(other, Sent) or same != [one.what for one in body]:
            break
        changed = _changed(first, other)
        if changed is None or (parameter and changed not in ("", parameter)):
            break
        parameter = parameter or changed
        calls.append(other)
    if len(calls) < 2 or not parameter:
        return None, 0
    gaps = [one.gap_s for n in range(len(calls))
            if isinstance(one := items[at + n * step + 1], Sent)]  # fmt: skip
    loop = Repeated(
        call=first,
        parameter=parameter,
        values=tuple(call.arguments[parameter] for call in calls),
        body=tuple(body),
        wait_s=median(gaps) if gaps else 0.0,
    )
    return loop, len(calls) * step


def _body(items: Sequence[Item], start: int) -> list[Item]:
    """Readings, and loops, up to the next write."""
    found: list[Item] = []
    for one in items[start:]:
        if isinstance(one, Comment) or (isinstance(one, Sent) and not one.is_query):
            break
        found.append(one)
    return found


def _changed(one: Sent, other: Sent) -> str | None:
    """The only argument in which two writes differ; empty: in none; ``None``: they are no pair."""
    if (one.role, one.command) != (other.role, other.command) or other.rate is not None:
        return None
    if one.arguments.keys() != other.arguments.keys():
        return None
    names = [name for name in one.arguments if one.arguments[name] != other.arguments[name]]
    return None if len(names) > 1 else "".join(names)


# What makes safe


def _switched_off(items: Iterable[Item], known: Mapping[str, Capabilities]) -> list[Sent]:
    """The commands that undo those that switched something on, the last one first."""
    found: dict[tuple[object, ...], Sent] = {}
    for one in items:
        if not isinstance(one, Sent) or one.is_query:
            continue
        off = _off(one, known[one.role])
        if off is not None:
            found.pop(off.what, None)
            found[off.what] = off
    return list(reversed(found.values()))


def _off(call: Sent, commands: Capabilities) -> Sent | None:
    words = call.command.split("_")
    name = "_".join(ENDS.get(word, word) for word in words)
    if name != call.command and name in commands:
        accepted = commands[name]["parameters"].get("properties") or {}
        kept = {key: value for key, value in call.arguments.items() if key in accepted}
        return replace(call, command=name, arguments=kept, gap_s=0.0)
    truths = [key for key, value in call.arguments.items() if value is True]
    if len(truths) == 1 and {"output", "input", "heater"} & set(words):
        return replace(call, arguments={**call.arguments, truths[0]: False}, gap_s=0.0)
    return None


def _without_end(items: list[Item], last: Iterable[Sent]) -> list[Item]:
    """Without what was switched off at the end: ``finally`` does it."""
    done = {call.what for call in last}
    while items and isinstance(items[-1], Sent) and items[-1].what in done:
        items = items[:-1]
    return items


# Text


@record(frozen=False)
class _Writer:
    """Writes steps, and gives every reading and loop a name of its own."""

    known: Mapping[str, Capabilities]
    names: set[str] = field(default_factory=set)

    def steps(self, items: Sequence[Item], indent: str) -> list[str]:
        lines: list[str] = []
        read: dict[str, str] = {}

        def end_reading() -> None:
            if read:
                inside = ", ".join(f"{name}: {target}" for name, target in read.items())
                lines.append(f"{indent}- {{measure: {{{inside}}}}}")
                read.clear()

        for at, item in enumerate(items):
            if isinstance(item, Sent) and at > 0:
                wait = _wait(item.gap_s)
                if wait:
                    end_reading()
                    lines.append(f"{indent}{wait}")
            match item:
                case Sent(is_query=True) if self._members(item) is not None:
                    for member in self._members(item) or ():
                        read[self._name(member or item.command)] = _target(item, member)
                case Sent():
                    end_reading()
                    lines.append(f"{indent}- {_command(item)}")
                case Repeated():
                    end_reading()
                    lines += self._loop(item, indent)
                case Comment(text=text):
                    end_reading()
                    lines.append(f"{indent}# {''.join(filter(str.isprintable, text))[:300]}")
        end_reading()
        if not any(line.lstrip().startswith("-") for line in lines):
            lines.append(f"{indent}- {{wait_s: 0}}")
        return lines

    def _loop(self, loop: Repeated, indent: str) -> list[str]:
        call = loop.call
        fixed = {name: v for name, v in call.arguments.items() if name != loop.parameter}
        target = _target(replace(call, arguments=fixed), loop.parameter)
        values = f"[{', '.join(map(_scalar, loop.values))}]"
        wait_s = _rounded(loop.wait_s)
        return [
            f"{indent}- for: {self._name(loop.parameter or 'reading')}",
            f"{indent}  in: {values if loop.parameter else f'{{count: {len(loop.values)}}}'}",
            *([f"{indent}  set: {target}"] if loop.parameter else []),
            *([f"{indent}  wait_s: {wait_s:g}"] if LEAST_WAIT_S <= wait_s <= MOST_WAIT_S else []),
            f"{indent}  steps:",
            *self.steps(loop.body, f"{indent}    "),
        ]

    def _members(self, call: Sent) -> tuple[str, ...] | None:
        """The fields of an answer; one that is empty: it is one value. ``None``: no number."""
        returns = self.known[call.role][call.command].get("returns") or {}
        if returns.get("type", "list") in UNREADABLE:
            return None
        return tuple(one["name"] for one in returns.get("fields") or ()) or ("",)

    def _name(self, wanted: str) -> str:
        plain = re.sub(r"^(measure|get|read|query)_", "", wanted)
        plain = plain if PLAIN.fullmatch(plain) and plain not in KEYWORDS else f"x_{plain}"
        name, number = plain, 1
        while name in self.names:
            number += 1
            name = f"{plain}_{number}"
        self.names.add(name)
        return name


def _command(call: Sent) -> str:
    if call.to is not None and call.rate is not None:
        return f"{{ramp: {_target(call, '')}, to: {_scalar(call.to)}, rate: {_scalar(call.rate)}}}"
    given = _arguments(call)
    return f"{{command: {call.role}.{call.command}{f', parameters: {given}' if given else ''}}}"


def _target(call: Sent, member: str) -> str:
    name = f"{call.role}.{call.command}{f'.{member}' if member else ''}"
    given = _arguments(call)
    return f"{{command: {name}, parameters: {given}}}" if given else name


def _arguments(call: Sent) -> str:
    inside = ", ".join(f"{name}: {_scalar(value)}" for name, value in call.arguments.items())
    return f"{{{inside}}}" if inside else ""


def _wait(gap_s: float) -> str:
    if gap_s > MOST_WAIT_S:
        return f"# here nothing was sent for {round(gap_s / 60)} min"
    wait_s = _rounded(gap_s)
    return f"- {{wait_s: {wait_s:g}}}" if wait_s >= LEAST_WAIT_S else ""


def _rounded(seconds: float) -> float:
    """To half a second, and to two digits where it is longer."""
    return round(2 * seconds) / 2 if seconds < 10 else float(f"{seconds:.2g}")


def _scalar(value: Scalar) -> str:
    if isinstance(value, str) and PLAIN.fullmatch(value) and value.lower() not in NO_TEXT:
        return value
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)
