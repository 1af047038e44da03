"""What an action would send, for the person who approves it: every line, or ranges of them.

Lines are added in the order in which they would go out. At most ``MOST_LISTED`` of them are shown
as they are; of more, each command (and each line that belongs to none) has one row with the number
of its lines and the smallest and largest value of each argument as it is sent. All lines are kept
compressed, and a digest is made of them. Pure.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import field
from decimal import Decimal
from typing import Final, NamedTuple

from edged.actions.envelope import Envelope
from edged.profiles.model import Command, Parameter, ParameterType
from edged.profiles.template import labels, pieces
from edged.record import record
from edged.scpi.numbers import NUMBER
from edged.yaml.tree import Scalar

MOST_LISTED: Final = 40
"""Lines that are shown as they are, and rows that are shown instead of more lines."""
MOST_KEPT: Final = 100_000
"""Lines of one question; a person can read them all with ``edged approve show``."""
MOST_CHARACTERS: Final = 2 * 1024 * 1024
"""Of these lines together."""
MOST_OF_A_LINE: Final = 1_000
LINES_A_PACK: Final = 256
"""Lines that are compressed together: one by one would take longer."""
_NUMBERS: Final = frozenset({ParameterType.FLOAT, ParameterType.INT})
_BLANKS: Final = re.compile(r"\s{3,}")
_NUMBER: Final = re.compile(NUMBER)
_LOOSE_NUMBER: Final = re.compile(rf"(?<![\w.]){NUMBER}(?![\w.])")


class Argument(NamedTuple):
    """One number in a line, as it is sent.

    Attributes:
        name: of the parameter; of a line that belongs to no command its place, from 1.
        unit: of the parameter, or empty.
    """

    name: str
    unit: str
    text: str


@record(kw_only=False)
class Origin:
    """The command whose template a line was written by, and with which values."""

    command: Command
    template: str
    values: Mapping[str, Scalar]


@record(frozen=False, kw_only=False)
class _Row:
    """Lines that differ only in their numbers; the smallest and largest text of each number.

    Attributes:
        shown: the line where all are the same, else their shape.
    """

    count: int
    shown: str
    least: list[Argument]
    most: list[Argument]

    def add(self, line: str, shape: str, arguments: list[Argument], times: int) -> None:
        self.count += times
        if line != self.shown:
            self.shown = shape
        for place, argument in enumerate(arguments):
            value = Decimal(argument.text)
            if value < Decimal(self.least[place].text):
                self.least[place] = argument
            if value > Decimal(self.most[place].text):
                self.most[place] = argument

    def ranges(self) -> str:
        """Such as ``channel 1, voltage 0.000 to 5.000 V``; each name once."""
        pairs = zip(self.least, self.most, strict=True)
        return ", ".join(dict.fromkeys(_range(low, high) for low, high in pairs))


def _range(low: Argument, high: Argument) -> str:
    unit = f" {low.unit}" if low.unit else ""
    span = low.text if low.text == high.text else f"{low.text} to {high.text}"
    return f"{low.name} {span}{unit}"


@record(frozen=False, kw_only=False)
class Outgoing:
    """The lines of one action, gathered while it is rehearsed.

    Attributes:
        count: how many lines there are.
        is_counted: some stand for more than one, so they cannot be listed.
        gap: why not all of it could be gathered; empty: it was.
        ramp: the values that a ramp goes through, from and to.
        later: what is known only while it runs, and why.
        envelope: what a run with a plan may send: shown in place of its lines.
    """

    count: int = 0
    is_counted: bool = False
    gap: str = ""
    ramp: tuple[float, float] | None = None
    later: dict[str, str] = field(default_factory=dict)
    envelope: Envelope | None = None
    _listed: list[tuple[str, str]] = field(default_factory=list)
    _rows: dict[tuple[str, str, str], _Row] = field(default_factory=dict)
    _kept: int = 0
    _characters: int = 0
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)
    _loose: list[str] = field(default_factory=list)
    _packer: zlib._Compress = field(default_factory=lambda: zlib.compressobj(1))
    _packed: list[bytes] = field(default_factory=list)

    def add(self, unit: str, line: str, origin: Origin | None = None, *, times: int = 1) -> None:
        """One more line.

        Args:
            unit: what the instrument is called to which it goes.
            origin: the command that it belongs to, if any.
            times: so many lines of this kind, of which this is the first. The last must be added
                behind it if its values differ.
        """
        self.count += times
        self.is_counted = self.is_counted or times > 1
        self._hash.update(repr((unit, times, line)).encode())
        shown = shown_line(line)
        if len(shown) > MOST_OF_A_LINE:
            self.gap = self.gap or f"one line is longer than {MOST_OF_A_LINE} characters"
            return
        self._keep(unit, shown, times)
        name, shape, arguments = arguments_of(line, origin)
        row = self._rows.get((unit, name, shape))
        if row is not None:
            row.add(line, shape, arguments, times)
        elif len(self._rows) <= MOST_LISTED:
            self._rows[unit, name, shape] = _Row(times, line, arguments, [*arguments])

    def add_data(self, data: bytes) -> None:
        """Bytes that go out beside the lines, such as a block: the digest covers them."""
        self._hash.update(repr(data).encode())

    def _keep(self, unit: str, shown: str, times: int) -> None:
        if self._kept < MOST_LISTED:
            self._listed.append((unit, shown))
        more = f"  ({times:,} lines like it as the sweep goes)" if times > 1 else ""
        self._kept += 1
        self._characters += len(shown)
        if self._kept > MOST_KEPT or self._characters > MOST_CHARACTERS:
            self.gap = self.gap or (
                f"it is more than {MOST_KEPT:,} lines or {MOST_CHARACTERS // 2**20} MiB of text"
            )
            return
        self._loose.append(f"{unit}: {shown}{more}\n")
        if len(self._loose) >= LINES_A_PACK:
            self._pack()

    def _pack(self) -> None:
        self._packed.append(self._packer.compress("".join(self._loose).encode()))
        self._loose.clear()

    def packed(self) -> bytes:
        """All lines for ``unpacked``; nothing may be added afterwards."""
        self._pack()
        self._packed.append(self._packer.flush())
        return b"".join(self._packed)

    def digest(self) -> str:
        """SHA-256 of all lines and of what is known only later, in hexadecimal digits."""
        whole = self._hash.copy()
        whole.update(repr((self.ramp, sorted(self.later.items()))).encode())
        if self.envelope is not None:
            whole.update(repr(self.envelope).encode())
        return whole.hexdigest()

    def summary(self, unit: str) -> tuple[str, ...]:
        """What a person reads: the lines, or rows of them, and then what is known only later.

        Args:
            unit: whose lines are not marked by its name.
        """
        if self.envelope is not None:
            return self.envelope.text()
        is_listed = self.count <= MOST_LISTED and not self.is_counted
        found = self._lines(unit) if is_listed else self._ranges(unit)
        later = (f"known only as it runs: {what} ({why})" for what, why in self.later.items())
        return (*found, *map(shown_line, later))

    def why_incomplete(self) -> str:
        """Why a summary would leave something out; empty: it would not."""
        if self.envelope is not None:
            return self.envelope.why_unreadable()
        if not self.gap and len(self._rows) > MOST_LISTED:
            return f"its lines are of more than {MOST_LISTED} kinds"
        return self.gap

    def _lines(self, unit: str) -> Iterator[str]:
        for other, line in self._listed:
            yield line if other == unit else f"{other}: {line}"

    def _ranges(self, unit: str) -> Iterator[str]:
        for (other, name, _), row in self._rows.items():
            where = "" if other == unit else f"{other}: "
            what = f"{name}, {shown_line(row.shown)}" if name else shown_line(row.shown)
            told = row.ranges()
            lines = "1 line" if row.count == 1 else f"{row.count:,} lines"
            yield f"{where}{lines} of {what}{f': {told}' if told else ''}"


def unpacked(packed: bytes) -> list[str]:
    """The lines that ``Outgoing.packed`` has kept."""
    return zlib.decompress(packed).decode().split("\n")[:-1]


def arguments_of(line: str, origin: Origin | None) -> tuple[str, str, list[Argument]]:
    """A line as the name of its command, its shape, and the numbers that fill this shape.

    The shape is the line with ``{name}`` in the place of each number. Filling it again gives the
    line, so nothing in a line is left out.
    """
    if origin is not None:
        parameters = origin.command.parameters
        parts = pieces(origin.template, parameters, origin.values)
        shape, found = "", list[Argument]()
        for name, text in parts:
            known = parameters.get(name)
            if known is not None and _is_number(known) and _NUMBER.fullmatch(text):
                found.append(Argument(name, known.unit, text))
                shape += f"{{{name}}}"
            else:
                shape += text
        if "".join(text for _, text in parts) == line:
            return origin.command.name, shape, found
    # Digits in a header say which input or output is meant; numbers behind it are arguments.
    header, blank, told = line.partition(" ")
    found = [
        Argument(f"#{number}", "", match.group())
        for number, match in enumerate(_LOOSE_NUMBER.finditer(told), 1)
    ]
    numbers = iter(found)
    shape = _LOOSE_NUMBER.sub(lambda _: f"{{{next(numbers).name}}}", told)
    return "", f"{header}{blank}{shape}", found


def _is_number(parameter: Parameter) -> bool:
    """Whether sizes mean something; what stands for a label or a state gets a row of its own."""
    return parameter.type in _NUMBERS and not labels(parameter)


def shown_line(line: str) -> str:
    """A line for people: blanks are counted where they are many, and nothing is invisible."""
    if not line.isprintable():
        line = "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode() for char in line
        )
    return _BLANKS.sub(lambda blanks: f" ({len(blanks[0])} blanks) ", line)
