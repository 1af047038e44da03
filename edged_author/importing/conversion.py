"""One declaration → the commands that it is: a question, a write, or both; or why it is neither.

A set command is a template of Python's ``%``; in a channel what comes of it is a template of
``str.format`` besides. Both are taken apart here and made one of edged's own. Where a value is one
of a few, what goes out for each is worked out by ``%`` itself and written into the map, so that no
conversion (``%d`` of a truth, ``%02X``) can come out otherwise.
"""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edged.errors import Invalid
from edged.profiles.format.commands import is_question
from edged.profiles.model import Command, ErrorCheck, Parameter, ParameterType, ScalarAnswer
from edged.profiles.template import parse_template
from edged.record import record
from edged.scpi.kinds import AnswerType, ErrorKind
from edged.scpi.numbers import shortest_text
from edged_author.importing.declarations import Declaration, DriverReader, Members
from edged_author.importing.literals import NotLiteralError, shown
from edged_author.importing.passing import passes_on
from edged_author.importing.source import ClassSource
from edged_author.importing.units import unit_in

VALUE: Final = "\ue000"
"""Stands for the value while a channel's template is taken apart; no source holds it."""
_PERCENT: Final = re.compile(
    r"%(?:(?P<key>\([^)]*\))?(?P<flags>[#0\- +]*)(?P<width>\*|\d{0,2})"
    r"(?:\.(?P<precision>\*|\d{0,2}))?[hlL]?(?P<kind>[diouxXeEfFgGcrsa])|%)"
)
_WHOLE: Final = frozenset("diu")
_REAL: Final = frozenset("eEfFgG")
RANGES: Final = frozenset({"strict_range", "truncated_range"})
SETS: Final = frozenset({"strict_discrete_set", "truncated_discrete_set"})
CASTS: Final[Mapping[str, AnswerType]] = {
    "int": AnswerType.INT, "float": AnswerType.FLOAT, "bool": AnswerType.BOOL,
    "str": AnswerType.STRING,
}  # fmt: skip
PROCESSES: Final = (
    "get_process", "get_process_list", "preprocess_reply", "values_kwargs", "maxsplit",
)  # fmt: skip
"""What code makes of an answer: it is given as it comes then."""
LONGEST_LABEL: Final = 200
WORST_ROUNDING: Final = 1e-2
"""Of a limit, by the format that it is sent in."""
MOST_OPTIONS: Final = 500
_NO_ERRORS: Final = ErrorCheck(kind=ErrorKind.QUEUE, query="SYST:ERR?")


class _NotConvertedError(Exception):
    """Why a declaration makes no command."""


@record(kw_only=False)
class Channels:
    """Which channels a channel class has in one instrument.

    Attributes:
        placeholder: the name that stands for the id.
        name: the parameter by which callers say which.
    """

    ids: tuple[str | int, ...]
    placeholder: str
    name: str = "channel"


@record
class Converted:
    """What became of a declaration.

    Attributes:
        reasons: what did not arrive, or not whole.
        remarks: what the draft says of the query.
    """

    query: Command | None = None
    write: Command | None = None
    reasons: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@record
class Values:
    """What a write may carry.

    Attributes:
        options: label → wire text, of a choice.
        spec: edged's number format where a number goes out; empty: the shortest text.
    """

    type: ParameterType
    min: float | None = None
    max: float | None = None
    options: Mapping[str, str] | None = None
    spec: str = ""


@record(kw_only=False)
class _Conversion:
    """One ``%`` of a template: as it stands there, and its parts."""

    text: str
    flags: str
    width: str
    precision: str | None
    kind: str


def convert(
    declaration: Declaration,
    reader: DriverReader,
    members: Members,
    above: Members,
    channels: Channels | None,
    parameter: str,
) -> Converted:
    """The commands of one declaration.

    Args:
        members: the class that has it, by which it writes and reads.
        above: the instrument, which is the same but for what is a channel's.
        channels: which channels it is of; ``None``: of the instrument itself.
        parameter: what the value is called.
    """
    one = _One(declaration, reader, (members, above), channels, parameter)
    reasons: list[str] = []
    made: list[Command | None] = []
    for make, argument in ((one.query, "get_command"), (one.write, "set_command")):
        try:
            made.append(make() if one.has(argument) else None)
        except (_NotConvertedError, NotLiteralError) as why:
            made.append(None)
            side = "the question" if argument == "get_command" else "the write"
            reasons.append(f"{side}: {why}")
    query, write = made
    if query is None and write is None and not reasons:
        reasons.append("it has no command")
    return Converted(
        query=query,
        write=write,
        reasons=(*reasons, *one.notes),
        remarks=(*one.notes, *one.remarks),
    )


class _One:
    """One declaration while it is converted."""

    def __init__(
        self,
        declaration: Declaration,
        reader: DriverReader,
        members: tuple[Members, Members],
        channels: Channels | None,
        parameter: str,
    ) -> None:
        self._declaration = declaration
        self._reader = reader
        self._own, self._above = members
        self._channels = channels
        self._name = parameter
        self._values: Values | None = None
        self.notes: list[str] = []
        # What a draft says of its query besides.
        self.remarks: list[str] = []

    def has(self, argument: str) -> bool:
        """Whether an argument is given, and is not plainly none."""
        given = self._declaration.arguments.get(argument)
        return given is not None and getattr(given.node, "value", "") is not None

    def query(self) -> Command:
        """What asks.

        Raises:
            _NotConvertedError, NotLiteralError: it cannot be said without code.
        """
        self._refuse_code(("ask", "read", "values", "check_get_errors"))
        # Nothing is put into a question, so that every % stands for itself.
        line, parameters = self._line(self._text("get_command"), None)
        return Command(
            name="",
            scpi=(line,),
            is_query=True,
            parameters=parameters,
            returns=self._returns(),
        )

    def write(self) -> Command:
        """What sets.

        Raises:
            _NotConvertedError, NotLiteralError: it cannot be said without code.
        """
        self._refuse_code(())
        if self._is_true("check_set_errors") and not self._asks_as_scpi():
            raise _NotConvertedError("whether it was taken is asked by code of its own")
        if self.has("set_process"):
            raise _NotConvertedError("set_process: code makes what is sent")
        text = self._text("set_command")
        _, conversion = printf_parts(text)
        values = self._values = values_of(
            conversion.text,
            self._validator(),
            self._literal("values"),
            is_map=self._is_true("map_values"),
        )
        line, parameters = self._line(text, values)
        if is_question(line):
            raise _NotConvertedError("its line asks besides, and nobody reads the answer")
        unit = unit_in(self._docs(), line) if values.type is ParameterType.FLOAT else ""
        own = Parameter(
            name=self._name,
            type=values.type,
            unit=unit,
            min=values.min,
            max=values.max,
            options=tuple(values.options or ()),
            map=dict(values.options or {}),
        )
        return Command(
            name="",
            scpi=(line,),
            parameters={**parameters, self._name: own},
            errors=_NO_ERRORS if self._is_true("check_set_errors") else None,
        )

    def _refuse_code(self, reading: tuple[str, ...]) -> None:
        """Raises where the class sends, or reads, by code of its own."""
        if self.has("command_process"):
            raise _NotConvertedError("command_process: code makes what is sent")
        argument = "get_command" if reading else "set_command"
        sending = self._code("write")
        if sending is not None and not passes_on(sending[1], self._text(argument)):
            raise _NotConvertedError(
                f"{sending[0].name} sends by code of its own (write, line {sending[1].lineno})"
            )
        if self._channels is not None and "insert_id" in self._own.code:
            raise _NotConvertedError("the channel's id is put in by code (insert_id)")
        for name in reading:
            found = self._code(name)
            if found is None or (name == "check_get_errors" and not self._is_true(name)):
                continue
            raise _NotConvertedError(
                f"{found[0].name} reads answers by code of its own ({name}, line {found[1].lineno})"
            )
        if self._reader.is_set_by_code(self._declaration, (self._own, self._above)):
            raise _NotConvertedError("code changes its arguments while it runs (dynamic)")

    def _code(self, name: str) -> tuple[ClassSource, ast.stmt] | None:
        """The method that a class of these says anew; a channel asks by what its instrument has."""
        return self._own.code.get(name) or self._above.code.get(name)

    def _asks_as_scpi(self) -> bool:
        is_own = {"check_errors", "check_set_errors"} & set(self._own.code)
        return self._above.asks_as_scpi and (self._own is self._above or not is_own)

    def _line(self, text: str, values: Values | None) -> tuple[str, dict[str, Parameter]]:
        """The profile's template for a command's text, and the parameter of its channel, if any."""
        pieces = [text] if values is None else printf_parts(text)[0]
        hole = (
            "" if values is None else f"{{{self._name}{':' if values.spec else ''}{values.spec}}}"
        )
        parameters: dict[str, Parameter] = {}
        if self._channels is None:
            line = "".join(hole if piece == VALUE else _escaped(piece) for piece in pieces)
        else:
            line, channel = _channelled("".join(pieces), hole, self._channels)
            if channel is not None:
                parameters[channel.name] = channel
        try:
            parse_template(line)
        except Invalid as error:
            raise _NotConvertedError(error.message.rstrip(".")) from None
        if not line.strip():
            raise _NotConvertedError("its command is empty")
        return line, parameters

    def _returns(self) -> ScalarAnswer | None:
        """How the answer is read; nothing, the text as it comes, where that is not known."""
        touched = [name for name in PROCESSES if self.has(name)]
        if touched:
            self.notes.append(
                f"its answer is given as it comes: code makes something of it ({touched[0]})"
            )
            return None
        separator = self._literal("separator") if self.has("separator") else ","
        if separator != ",":
            self._remark(f'its values are separated by "{separator}"')
            return None
        if self._is_true("map_values"):
            return self._mapped_answer()
        cast = self._cast()
        docs = self._docs()
        unit = unit_in(docs, "")
        if cast is not None:
            known = cast in (AnswerType.INT, AnswerType.FLOAT)
            return ScalarAnswer(type=cast, unit=unit if known else "")
        if self._is_number():
            return ScalarAnswer(type=AnswerType.FLOAT, unit=unit)
        is_one = not _SEVERAL.search(docs)
        # PyMeasure makes a number of what a plain measurement is answered by.
        word, quantity = _NO_NUMBER.search(docs), _QUANTITY.search(docs)
        is_word = word is not None and (quantity is None or word.start() < quantity.start())
        is_plain = self._declaration.kind == "measurement" and not is_word
        if is_one and (unit or (is_plain and not self._asks_text())):
            return ScalarAnswer(type=AnswerType.FLOAT, unit=unit)
        if _ASKS_DATA.search(self._text("get_command")):
            self._remark("it may be a list or a block")
        elif not is_one:
            self._remark("it may have several values")
        return None

    def _remark(self, why: str) -> None:
        self.remarks.append(f"its answer is given as it comes: {why}; describe it under returns")

    def _asks_text(self) -> bool:
        """Whether the query is one that SCPI has answered by text, or by more than one number."""
        try:
            asked = self._literal("get_command")
        except NotLiteralError:
            return False
        return isinstance(asked, str) and _ASKS_TEXT.search(asked) is not None

    def _is_number(self) -> bool:
        """Whether what is written is a number, so that what is asked is one, too."""
        if self._writes_number():
            return True
        validator = self._declaration.arguments.get("validator")
        if validator is None or not self.has("values"):
            return False
        try:
            values = self._literal("values")
            if isinstance(values, range):
                return True
            listed = list(values) if isinstance(values, list | dict) else []
        except NotLiteralError:
            return False
        return bool(listed) and all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in listed
        )

    def _writes_number(self) -> bool:
        if not self.has("set_command"):
            return False
        try:
            _, conversion = printf_parts(self._text("set_command"))
        except (_NotConvertedError, NotLiteralError):
            return False
        return conversion.kind in _WHOLE | _REAL

    def _mapped_answer(self) -> ScalarAnswer | None:
        try:
            options = _mapped(self._literal("values"))
            wires = {_label(value): label for label, value in reversed(options.items())}
        except _NotConvertedError:
            return None
        is_truth = set(wires.values()) == {"true", "false"}
        ordered = dict(reversed(wires.items()))
        return ScalarAnswer(type=AnswerType.BOOL if is_truth else AnswerType.STRING, map=ordered)

    def _text(self, argument: str) -> str:
        try:
            found = self._literal(argument)
        except NotLiteralError as why:
            raise _NotConvertedError(f"{argument} is not a literal ({why})") from None
        if not isinstance(found, str):
            raise _NotConvertedError(f"{argument} is not text")
        if not found.isprintable():
            raise _NotConvertedError(f"{argument} holds control characters")
        if VALUE in found:
            raise _NotConvertedError(f"{argument} holds what stands for a value here")
        return found

    def _literal(self, argument: str) -> Any:
        given = self._declaration.arguments.get(argument)
        if given is None:
            return None
        try:
            return self._reader.value(given)
        except NotLiteralError as why:
            raise NotLiteralError(f"{argument} is not a literal ({why})") from None

    def _is_true(self, argument: str) -> bool:
        found = self._literal(argument)
        if found not in (None, False, True):
            raise _NotConvertedError(f"{argument} is neither True nor False")
        return found is True

    def _docs(self) -> str:
        try:
            found = self._literal("docs")
        except NotLiteralError:
            return ""
        return found if isinstance(found, str) else ""

    def _validator(self) -> str:
        given = self._declaration.arguments.get("validator")
        if given is None:
            return ""
        name = shown(given.node).removeprefix("….")
        module = self._reader.tree.module(given.scope.path)
        where, _, what = module.imports.get(name, ("", 0, ""))
        through = getattr(getattr(given.node, "value", None), "id", "")
        is_theirs = where.rpartition(".")[2] == "validators" or (
            module.imports.get(through, ("", 0, ""))[2] == "validators"
        )
        if not is_theirs or (what or name) not in RANGES | SETS:
            raise _NotConvertedError(f"its validator {name} is code")
        return what or name

    def _cast(self) -> AnswerType | None:
        given = self._declaration.arguments.get("cast")
        if given is None:
            return None
        name = shown(given.node)
        module = self._reader.tree.module(given.scope.path)
        if name not in CASTS or name in module.imports or name in module.constants:
            self.notes.append(f"its answer is given as it comes: its cast {name} is code")
            return AnswerType.STRING
        return CASTS[name]


_NO_NUMBER: Final = re.compile(
    r"\b(?:string|text|names?|versions?|identif\w*|identity|serial|messages?|model|firmware|"
    r"modes?|types?(?! [A-Z]\b)|function|shape|dates?)\b",
    re.IGNORECASE,
)
"""What a measurement may say of itself that is answered by a word."""
_QUANTITY: Final = re.compile(
    r"\b(?:voltage|current|power|energy|charge|resistance|impedance|conductance|capacitance|"
    r"inductance|frequency|period|phase|amplitude|magnitude|level|temperature|pressure|humidity|"
    r"flow|field|position|angle|speed|distance|time|delay|duration|width|gain|ratio|count|number|"
    r"value|reading|measured|measures?)\b",
    re.IGNORECASE,
)
"""What a measurement may say of itself that is answered by a number: the first word decides."""
_ASKS_TEXT: Final = re.compile(
    r"\*(?:IDN|OPT|LRN)\b|ERR(?:OR)?(?::NEXT)?\?|:?CAT\b|:DATE|VERS|DATA|TRAC", re.IGNORECASE
)
_ASKS_DATA: Final = re.compile(r"(?:DATA|TRAC[A-Z]*)\b[^;]*\?", re.IGNORECASE)
"""A query for a trace, by its name."""
_SEVERAL: Final = re.compile(r"\b(?:list|lists|array|arrays|tuple|dict|string|numpy)\b", re.I)
"""What a description says of an answer that is no single number."""


def printf_parts(text: str) -> tuple[list[str], _Conversion]:
    """A template of ``%`` with one value: its pieces, ``VALUE`` where it stands.

    Raises:
        _NotConvertedError: it takes no value, or several, or none that stands alone.
    """
    pieces: list[str] = []
    found: list[_Conversion] = []
    position = 0
    while (at := text.find("%", position)) >= 0:
        pieces.append(text[position:at])
        match = _PERCENT.match(text, at)
        if match is None:
            raise _NotConvertedError(f"its % at {at + 1} is none that is known")
        position = match.end()
        if match.group() == "%%":
            pieces.append("%")
            continue
        if match["key"] or "*" in (match["width"], match["precision"] or ""):
            raise _NotConvertedError("its value comes by name, or its width with it")
        found.append(
            _Conversion(
                match.group(), match["flags"], match["width"], match["precision"], match["kind"]
            )
        )
        pieces.append(VALUE)
    pieces.append(text[position:])
    if len(found) != 1:
        many = "no place for a value" if not found else f"places for {len(found)} values"
        raise _NotConvertedError(f"its command has {many}")
    return [piece for piece in pieces if piece], found[0]


def values_of(conversion: str, validator: str, values: Any, *, is_map: bool) -> Values:
    """What may be written: limits for a range, every option of a set or a map.

    Args:
        conversion: as it stands in the command: ``%g``.
        validator: the name of one that is known, or empty.
        values: what it is held against.

    Raises:
        _NotConvertedError: it cannot be said in a profile exactly.
    """
    _, parts = printf_parts(conversion)
    if is_map:
        if validator in RANGES:
            raise _NotConvertedError("a map behind a range")
        return _choice({label: _sent(conversion, to) for label, to in _mapped(values).items()})
    if validator in RANGES:
        return _range(parts, values)
    if validator in SETS:
        return _set(conversion, parts, values)
    return _free(parts)


def _range(parts: _Conversion, values: Any) -> Values:
    listed = list(_ends(values))
    if not listed or not all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in listed
    ):
        raise _NotConvertedError("a range of what are not numbers")
    low, high = min(listed), max(listed)
    if parts.kind in _WHOLE:
        if low != int(low) or high != int(high):
            raise _NotConvertedError("whole numbers are sent, and its limits are none")
        return Values(type=ParameterType.INT, min=int(low), max=int(high), spec=_spec(parts, "d"))
    spec = _spec(parts, parts.kind)
    for end in (low, high):
        # %f of 20 ns is 0.000000: what is sent then is not what was meant.
        if spec and abs(float(parts.text % end) - end) > WORST_ROUNDING * abs(end):
            raise _NotConvertedError(f"{parts.text} cannot write its limit {end:g}")
    return Values(type=ParameterType.FLOAT, min=low, max=high, spec=spec)


def _ends(values: Any) -> Sequence[Any]:
    if isinstance(values, range):
        return (values[0], values[-1]) if values else ()
    if isinstance(values, list | dict):
        return list(values)
    raise _NotConvertedError("a range that has no ends")


def _set(conversion: str, parts: _Conversion, values: Any) -> Values:
    if not isinstance(values, list | range | dict):
        raise _NotConvertedError("a set that is none")
    if isinstance(values, range) and abs(values.step) == 1 and len(values) > 2:
        low, high = min(values[0], values[-1]), max(values[0], values[-1])
        return _whole(parts, low, high)
    if len(values) > MOST_OPTIONS:
        raise _NotConvertedError(f"more than {MOST_OPTIONS} options")
    listed = list(values)
    if (
        len(listed) > 2
        and all(type(value) is int for value in listed)
        and sorted(listed) == list(range(min(listed), min(listed) + len(listed)))
    ):
        return _whole(parts, min(listed), max(listed))
    return _choice({_label(value): _sent(conversion, value) for value in _distinct(listed)})


def _whole(parts: _Conversion, low: int, high: int) -> Values:
    """A number of which every whole one from low to high is an option."""
    if parts.kind not in _WHOLE | _REAL | {"s"}:
        raise _NotConvertedError(f"numbers are sent as %{parts.kind}")
    kind = "d" if parts.kind in _WHOLE else parts.kind
    return Values(type=ParameterType.INT, min=low, max=high, spec=_spec(parts, kind))


def _free(parts: _Conversion) -> Values:
    if parts.kind in _WHOLE:
        return Values(type=ParameterType.INT, spec=_spec(parts, "d"))
    if parts.kind in _REAL:
        return Values(type=ParameterType.FLOAT, spec=_spec(parts, parts.kind))
    if parts.text != "%s":
        raise _NotConvertedError(f"a text is sent as {parts.text}")
    return Values(type=ParameterType.STRING)


def _spec(parts: _Conversion, kind: str) -> str:
    """The number format that writes as the conversion does."""
    if kind == "s":
        if parts.text != "%s":
            raise _NotConvertedError(f"a number is sent as {parts.text}")
        return ""
    if set(parts.flags) - {"+", "0"} or (kind == "d" and parts.precision is not None):
        raise _NotConvertedError(f"a number is sent as {parts.text}")
    sign = "+" if "+" in parts.flags else ""
    zero = "0" if "0" in parts.flags and parts.width else ""
    precision = "" if parts.precision is None else f".{parts.precision or 0}"
    spec = f"{sign}{zero}{parts.width}{precision}{'f' if kind == 'F' else kind}"
    return "" if spec == "d" else spec


def _mapped(values: Any) -> dict[str, Any]:
    """Label → what is sent for it."""
    if isinstance(values, dict):
        pairs = list(values.items())
    elif isinstance(values, list | range):
        # Of a list the number of the place is sent.
        listed = _distinct(list(values[: MOST_OPTIONS + 1]))
        pairs = [(value, index) for index, value in enumerate(listed)]
    else:
        raise _NotConvertedError("a map that is none")
    if not 0 < len(pairs) <= MOST_OPTIONS:
        raise _NotConvertedError(f"a map of {len(pairs)} labels")
    found = {_label(label): value for label, value in pairs}
    if len(found) != len(pairs):
        raise _NotConvertedError("labels that read alike")
    return found


def _distinct(values: list[Any]) -> list[Any]:
    """Raises where two are equal: True and 1 are one to Python, and go out as two."""
    if not all(isinstance(value, bool | int | float | str) for value in values):
        raise _NotConvertedError("options that are not plain values")
    if len(set(values)) != len(values):
        raise _NotConvertedError("options that are equal")
    return values


def _choice(options: dict[str, str]) -> Values:
    if not 0 < len(options) <= MOST_OPTIONS:
        raise _NotConvertedError(f"{len(options)} options")
    if set(options) == {"true", "false"}:
        return Values(type=ParameterType.BOOL, options=options)
    return Values(type=ParameterType.ENUM, options=options)


def _sent(conversion: str, value: Any) -> str:
    if isinstance(value, str) and len(value) > LONGEST_LABEL:
        raise _NotConvertedError("a wire value that is too long")
    if not isinstance(value, bool | int | float | str):
        raise _NotConvertedError("a wire value that is not a plain one")
    try:
        text = conversion % (value,)
    except (TypeError, ValueError, OverflowError):
        raise _NotConvertedError(f"{conversion} cannot write {str(value)[:40]!r}") from None
    if not text or not text.isprintable() or len(text) > LONGEST_LABEL:
        raise _NotConvertedError("a wire value that cannot be written")
    return text


def _label(value: Any) -> str:
    """What callers say for a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = shortest_text(value) if isinstance(value, int | float) else value
    if not isinstance(text, str):
        raise _NotConvertedError("a label that is not a plain value")
    bare = text.strip().strip("\"'")
    if not bare or not bare.isprintable() or len(bare) > LONGEST_LABEL:
        raise _NotConvertedError("a label that cannot be written")
    return bare


def _escaped(text: str) -> str:
    return re.sub(r"[{}\[\]]", lambda mark: mark.group() * 2, text)


def _channelled(text: str, hole: str, channels: Channels) -> tuple[str, Parameter | None]:
    """A channel's template: its id put in where there is one, else a parameter for it."""
    line, formats = "", set()
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError:
        raise _NotConvertedError("its braces are not a template") from None
    for literal_text, name, spec, conversion in pieces:
        line += _escaped(literal_text).replace(VALUE, hole)
        if name is None:
            continue
        if (
            name != channels.placeholder
            or conversion
            or "{" in (spec or "")
            or VALUE in (spec or "")
        ):
            raise _NotConvertedError(f"its placeholder {{{name[:40]}}} is filled by code")
        formats.add(spec or "")
        line += "{" + channels.name + "}"
    if not formats:
        return line, None
    if len(formats) > 1:
        raise _NotConvertedError("the channel's id is written in two ways")
    wires = [_id_text(id_, next(iter(formats))) for id_ in channels.ids]
    if len(wires) == 1:
        return line.replace("{" + channels.name + "}", _escaped(wires[0])), None
    return line, _channel_parameter(channels, wires)


def _id_text(id_: str | int, spec: str) -> str:
    try:
        text = format(id_, spec) if len(spec) <= 8 else ""
    except ValueError:
        text = ""
    if (not text and (spec or id_ != "")) or not text.isprintable() or len(text) > LONGEST_LABEL:
        raise _NotConvertedError("the channel's id cannot be written")
    return text


def _channel_parameter(channels: Channels, wires: list[str]) -> Parameter:
    ids = list(channels.ids)
    whole = [id_ for id_ in ids if isinstance(id_, int)]
    if wires == [str(id_) for id_ in whole] and whole == list(
        range(whole[0], whole[0] + len(whole))
    ):
        return Parameter(name=channels.name, type=ParameterType.INT, min=whole[0], max=whole[-1])
    options = {_label(id_): wire for id_, wire in zip(ids, wires, strict=True)}
    if len(options) != len(ids):
        raise _NotConvertedError("channels that read alike")
    return Parameter(
        name=channels.name,
        type=ParameterType.ENUM,
        options=tuple(options),
        map=options,
    )
