"""``returns`` of a query: nodes → how its answer is read.

The pieces that all answers share: types, labels, scales, and named fields.

``returns: {waveform}`` and ``{image}``: nodes → how a block of bytes is fetched and read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from edged.profiles.addressed import ADDRESS, PLACEHOLDER
from edged.profiles.format.kinds import (
    EXPRESSION,
    NAME_PATTERN,
    SENDABLE,
    TEMPLATE,
    check_name,
    expression_of,
    pattern,
    template_of,
)
from edged.profiles.frames import LENGTHS, SIZES
from edged.profiles.model import (
    MOST_ITEMS,
    AnswerField,
    BitField,
    BitsAnswer,
    FieldsAnswer,
    ImageAnswer,
    ListAnswer,
    Packets,
    Parameter,
    ParameterType,
    Returns,
    ScalarAnswer,
    WaveformAnswer,
)
from edged.schema.fields import (
    Fields,
    Gathering,
    choice_of,
    complaint,
    each_of,
    list_of,
    map_of,
    number_of,
    scalar_of,
    text_of,
    whole_number_of,
)
from edged.schema.tables import (
    TEXT_SCHEMA,
    Key,
    Kind,
    Table,
    array,
    choice,
    integer,
    is_word,
    mapping,
    text,
)
from edged.scpi.kinds import AnswerType
from edged.yaml.tree import ListNode, Node

MOST_FIELDS: Final = 200
MOST_PIECES: Final = 1_000_000
MOST_DIGITS: Final = 18
MOST_SKIPPED: Final = 65_536
NUMBERS: Final = frozenset({AnswerType.FLOAT, AnswerType.INT, AnswerType.SI, AnswerType.HEX})


def _labels(fields: Fields, key: str, _node: Node, _names: Collection[str]) -> dict[str, str]:
    """``map`` of an answer: wire text → label."""
    node = fields.mapping(key)
    name = fields.name_of(key)
    return {} if node is None else {
        wire: text_of(label, f"{name}: {wire}", most=200) for wire, label in node.entries.items()
    }  # fmt: skip


def _name(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    name = text_of(node, fields.name_of(key), most=64)
    return check_name(fields.mark_of(key), name, f"{fields.owner}: the field")


def _key(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    return text_of(node, fields.name_of(key), most=64).replace(PLACEHOLDER, ADDRESS)


def _control(fields: Fields, key: str, node: Node, _names: Collection[str]) -> bool:
    return choice_of(node, fields.name_of(key), ("escape",)) == "escape"


def _separator(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    separator = scalar_of(node, fields.name_of(key))
    if not isinstance(separator, str) or not 0 < len(separator) <= 8:
        raise complaint(node.mark, f'{fields.owner}: "separator" must be 1 to 8 characters.')
    return separator


def _count(fields: Fields, key: str, node: Node, _names: Collection[str]) -> tuple[int, int]:
    name = fields.name_of(key)
    if not isinstance(node, ListNode):
        count = whole_number_of(node, name, 1, MOST_PIECES)
        return count, count
    match [whole_number_of(entry, name, 1, MOST_PIECES) for entry in list_of(node, name, most=2)]:
        case [least, most] if least <= most:
            return least, most
        case _:
            raise complaint(node.mark, f"{name} must be a number, or the least and the most.")


def _lines_due(fields: Fields, key: str, node: Node, _names: Collection[str]) -> int | None:
    """``lines`` of a list; ``None``: as many as come."""
    if is_word(node, "until_end"):
        return None
    return whole_number_of(node, fields.name_of(key), 1, MOST_PIECES)


def _has_header(fields: Fields, key: str, node: Node, _names: Collection[str]) -> bool:
    return choice_of(node, fields.name_of(key), ("block", "none")) == "block"


def _packet_fields(
    fields: Fields, key: str, node: Node, _names: Collection[str]
) -> tuple[tuple[str, int], ...]:
    """``fields`` of packets: pairs of a name and its number of digits."""
    owner = fields.name_of(key)
    found: dict[str, int] = {}
    for entry in list_of(node, owner, most=MOST_FIELDS):
        pair = list_of(entry, owner, most=2) if isinstance(entry, ListNode) else ()
        if len(pair) != 2:
            raise complaint(entry.mark, f"{owner}: an entry is a name and its number of digits.")
        name = check_name(entry.mark, text_of(pair[0], owner, most=64), f"{owner}: the field")
        if name in found:
            raise complaint(entry.mark, f'{owner} has two fields called "{name}".')
        found[name] = whole_number_of(pair[1], owner, 1, MOST_DIGITS)
    if not found:
        raise complaint(node.mark, f"{owner} is empty.")
    return tuple(found.items())


def _sentinel(fields: Fields, key: str, node: Node, _names: Collection[str]) -> float:
    return float(number_of(node, fields.name_of(key)))


def _base(fields: Fields, key: str, node: Node, _names: Collection[str]) -> int:
    base = whole_number_of(node, fields.name_of(key), 10, 16)
    if base not in (10, 16):
        raise complaint(fields.mark_of(key), f'{fields.owner}: "base" must be 10 or 16.')
    return base


def _mime(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    mime = text_of(node, fields.name_of(key), most=64)
    if not mime.startswith("image/"):
        raise complaint(fields.mark_of(key), f'{fields.owner}: "{mime}" is not an image type.')
    return mime


def _lines(fields: Fields, key: str, node: Node, names: Collection[str]) -> tuple[str, ...]:
    name = fields.name_of(key)
    lines = list_of(node, name, most=100) if isinstance(node, ListNode) else (node,)
    return each_of(lines, lambda line: template_of(line, name, names))


_NAME: Final = Key(
    "name",
    Kind("name", {"type": "string", "pattern": NAME_PATTERN}, _name),
    "Its name for callers.",
    is_required=True,
)
_TYPE: Final = Key(
    "type",
    choice(AnswerType),
    "What the value is; `si`: a number with a unit or a prefix behind it (`19.9 C`, `500mV`); "
    "`hex`: a whole number in hexadecimal (`1F`, `0x1F`, `#H1F`).",
    is_required=True,
)
_CONTROL: Final = Key(
    "control",
    choice(("escape",))._replace(read=_control),
    "`escape`: control characters of a text are kept, as `\\x01`; otherwise they become blanks.",
    field="keeps_control",
)
_UNIT: Final = Key("unit", text(32), "The unit of the value.")
_LABELS: Final = mapping("wire value → label", TEXT_SCHEMA, _labels)
_MAP: Final = Key("map", _LABELS, "Answer → label (a parameter's `map` is label → what is sent).")
_SCALE: Final = Key(
    "scale",
    EXPRESSION._replace(read=None),
    "An expression over `value` and the parameters; only for numbers.",
)
DECIMAL: Final = Key(
    "decimal",
    choice((".", ",")),
    "The decimal mark of its numbers: `,` for `-1,2`. A number with the other one is invalid.",
)
_SENTINELS: Final = Key(
    "sentinels",
    array(Kind("number", {"type": "number"}, _sentinel), 20),
    'The numbers that mean "no value", instead of those of SCPI.',
)
_EXTRA_LINES: Final = Key(
    "extra_lines",
    integer(0, 16),
    "The maximum number of meaningless lines that the instrument adds to its answer.",
)
_PIECES: Final[dict[str, Any]] = {"type": "integer", "minimum": 1, "maximum": MOST_PIECES}
_SEPARATOR: Final = Key(
    "separator",
    Kind("1 to 8 characters", {"type": "string", "minLength": 1, "maxLength": 8}, _separator),
    "What separates the fields.",
)
_COUNT: Final = Key(
    "count",
    Kind(
        "number, or `[least, most]`",
        {"anyOf": [_PIECES, {"type": "array", "items": _PIECES, "minItems": 2, "maxItems": 2}]},
        _count,
    ),
    "How many pieces the answer has, if the fields do not name each one from 0 on.",
)
ANSWER_FIELD: Final = Table(
    "answer_field",
    AnswerField,
    "One of `fields`, found by exactly one of `index`, `key` and `pattern`.",
    _NAME,
    _TYPE,
    _UNIT,
    _MAP,
    _SCALE,
    _CONTROL,
    DECIMAL,
    Key("index", integer(0, 10_000), "Which piece it is, from 0."),
    Key("key", text(64)._replace(read=_key), "The text before it: `FRQ` in `FRQ,1000HZ`."),
    Key("pattern", pattern(1), "Its group is the value."),
)  # fmt: skip
_FIELDS: Final = Key(
    "fields",
    array(ANSWER_FIELD.link, least=1),
    "The pieces of the answer.",
    is_required=True,
)
PACKETS: Final = Table(
    "packets",
    Packets,
    "A trace that comes in several answers: the query is sent again until `until` is true.",
    Key("fields",
        Kind("list of [name, number of digits]",
             {"type": "array", "minItems": 1,
              "items": {"type": "array", "minItems": 2, "maxItems": 2,
                        "prefixItems": [TEXT_SCHEMA, {"type": "integer"}]}},
             _packet_fields),
        "The numbers in ASCII digits at the start of each answer. `size` in the first place may be "
        "the length in the block's header (`#9` and its nine digits). What `sent` and `total` say "
        "is compared with what has come.", is_required=True),
    Key("until", EXPRESSION._replace(read=None),
        "The answer was the last one: an expression over these fields, the preamble's fields and "
        "the parameters; `size` is the bytes of samples in the answer, if it is no field.",
        is_required=True),
)  # fmt: skip
PREAMBLE: Final[Table[dict[str, Any]]] = Table(
    "preamble",
    dict,
    "The query that is sent before the data of a waveform.",
    Key("query", Kind("SCPI or a list", {"anyOf": [SENDABLE, array(TEMPLATE).schema]}, _lines),
        "For several, `fields` counts through their answers, joined by the `separator`.",
        field="preamble_queries", is_required=True),
    Key("fields", _FIELDS.kind,
        "A field named `points` or `length` is the number of samples to expect.",
        is_required=True),
    _SEPARATOR._replace(field="preamble_separator"),
    _COUNT._replace(field="preamble_count"),
)  # fmt: skip
WAVEFORM: Final = Table(
    "waveform",
    WaveformAnswer,
    "A block of samples, and how to convert it to volts and seconds.",
    Key("setup", array(TEMPLATE, 100),
        "Sent before the data are queried; errors are checked after it."),
    Key("preamble", PREAMBLE.link, "Queried before the data."),
    Key("dtype", choice(SIZES),
        "Signed, unsigned or floating point, and the bytes of a sample; `m2e2`: a mantissa and an "
        "exponent of 16 bits each (`TRCL?` of an SR830).", is_required=True),
    Key("data", TEMPLATE, "The query for the block (default: the command's `scpi`)."),
    Key("byte_order", choice(("little", "big")), "Required if a sample has more than one byte."),
    Key("chunk_points", integer(1, 100_000_000),
        "The waveform is fetched in pieces of this many samples: the command's int parameters "
        "`first` and `last` are filled in for each."),
    Key("header", Kind("`block`, `none`", {"enum": ["block", "none"]}, _has_header),
        "`none`: the samples come without the header of a block (`#` and its length); `count` or "
        "`bytes` says how many.", field="has_header"),
    Key("count", EXPRESSION._replace(read=None),
        "How many points come: a number, or an expression over the preamble's fields and the "
        "parameters. Another number is an invalid answer."),
    Key("bytes", EXPRESSION._replace(read=None),
        "With `header: none`: how many bytes of samples come; as `count`, also over the fields of "
        "`packets`.", field="size"),
    Key("prefix", pattern(),
        "The text in front of the block or data, with upper and lower case; they begin where it "
        "first matches."),
    Key("length", choice(LENGTHS),
        "The number of bytes, in front of the samples instead of the header of a block."),
    Key("skip_bytes", integer(0, MOST_SKIPPED),
        "How many bytes of the data are something else before the samples."),
    Key("packets", PACKETS.link, "The trace comes in several answers."),
    Key("trailing_bytes", integer(0, 16), "How many bytes follow the block."),
    Key("values_per_point", integer(1, 8),
        "How many values are sent for each point; the first is kept, and counted as one."),
    Key("x_increment", EXPRESSION._replace(read=None),
        "The distance of two samples: an expression over the preamble's fields and the "
        "parameters."),
    Key("x_unit", text(32), "The unit of `x_increment`."),
    Key("y_unit", text(32), "The unit of the samples."),
    Key("scale", EXPRESSION._replace(read=None),
        "The value of a sample: an expression over its code `value`, the preamble's fields and the "
        "parameters."),
)  # fmt: skip
IMAGE: Final = Table(
    "image",
    ImageAnswer,
    "A picture of the screen.",
    Key("mime", Kind("image type", {"type": "string", "pattern": "^image/"}, _mime),
        "Like `image/png`.", is_required=True),
    Key("data", TEMPLATE, "The query for the picture.", is_required=True),
)  # fmt: skip
BIT: Final = Table(
    "bit",
    BitField,
    "One field of a status word.",
    _NAME,
    Key("mask", integer(1, 2**64 - 1), "Its bits, shifted down.", is_required=True),
    Key("map", _LABELS, "Number → label."),
)  # fmt: skip
BITS: Final = Table(
    "bits",
    BitsAnswer,
    "A status word.",
    Key("base", Kind("10 or 16", {"enum": [10, 16]}, _base), "How the number is written."),
    Key("fields", array(BIT.link, least=1), "What its bits mean.",
        is_required=True),
)  # fmt: skip


def _alone(inner: Table[Any]) -> Table[Any]:
    """``returns`` that has one key, under which everything stands."""
    key = Key(inner.name, inner.link, is_required=True)
    return Table(f"returns_{inner.name}", dict, inner.sentence, key)


def _typed(word: str) -> Key:
    """``type`` where it is the name of a kind of answer."""
    return Key("type", Kind(f"`{word}`", {"const": word}), is_required=True)


LIST: Final = "list"
WAVES: Final = "waveform beside type"
RETURNS: Final[Mapping[str, Table[Any]]] = {
    "type": Table(
        "returns_type", ScalarAnswer, "The answer is one value.",
        _TYPE, _UNIT, _MAP, _SCALE, _SENTINELS, _EXTRA_LINES, _CONTROL, DECIMAL,
    ),
    LIST: Table(
        "returns_list", ListAnswer,
        "The answer is a list of values, also inside a block or on several lines.",
        _typed("list"),
        Key("item", choice(AnswerType), "The type of each value.", field="type"),
        _SEPARATOR._replace(sentence="What separates the values of a line."),
        Key("lines",
            Kind("number, or `until_end`",
                 {"anyOf": [_PIECES, {"const": "until_end"}]}, _lines_due),
            "How many lines that are not empty the answer has; `until_end`: as many as come. "
            "Another number is an invalid answer."),
        _COUNT._replace(sentence="How many values the answer has (default: up to 50,000)."),
        _UNIT._replace(sentence="The unit of each value."),
        _MAP, _SCALE, _SENTINELS, _CONTROL, DECIMAL,
    ),
    "fields": Table(
        "returns_fields", FieldsAnswer, "The answer is several named values.",
        _FIELDS, _SEPARATOR,
        Key("primary", text(64, is_optional=True), "The field that is plotted and compared."),
        _SENTINELS, _COUNT, _EXTRA_LINES,
        DECIMAL._replace(sentence="The decimal mark of those fields that have none of their own."),
    ),
    "bits": _alone(BITS),
    WAVES: Table(
        "returns_waveform", WaveformAnswer,
        "A block of samples; the keys of [waveform](#waveform) stand beside `type`.",
        _typed("waveform"), *WAVEFORM.keys.values(),
    ),
    "waveform": _alone(WAVEFORM),
    "image": _alone(IMAGE),
}  # fmt: skip
"""By the key that names its kind, or by the value of ``type``."""
_KINDS: Final = ("type", "fields", "bits", "waveform", "image")
_TYPES: Final = {"list": LIST, "waveform": WAVES}
_RETURNS_KEYS: Final = frozenset(key for kind in RETURNS.values() for key in kind.keys)


def _scaled(
    fields: Fields, found: dict[str, Any], parameters: Mapping[str, Parameter]
) -> dict[str, Any]:
    """With ``scale`` of one value, which only a number has."""
    kind = found.get("type", AnswerType.FLOAT)
    if found.get("keeps_control") and kind is not AnswerType.STRING:
        message = f'{fields.owner}: "control" belongs to a string.'
        raise complaint(fields.mark_of("control"), message)
    scale = _expression(fields, "scale", {"value", *parameters})
    if scale is not None and (kind not in NUMBERS or fields.has("map")):
        message = f'{fields.owner}: "scale" belongs to a number.'
        raise complaint(fields.mark_of("scale"), message)
    return {**found, "scale": scale}


def _expression(fields: Fields, key: str, names: Collection[str]) -> str | None:
    node = fields.get(key)
    return None if node is None else expression_of(node, fields.name_of(key), names)


def _whole_count(found: Sequence[AnswerField]) -> tuple[int, int] | None:
    """What ``count`` is where nothing is said.

    Fields that name every piece from the first on are all that there is; of others nobody knows
    what stands between and behind them.
    """
    is_whole = {field.index for field in found} == set(range(len(found)))
    return (len(found), len(found)) if is_whole else None


def _answer_fields(fields: Fields, parameters: Mapping[str, Parameter]) -> tuple[AnswerField, ...]:
    """The entries of ``fields``, each found by one of index, key and pattern."""
    node = fields.need("fields")
    owner = fields.name_of("fields")
    nodes = list_of(node, owner, most=MOST_FIELDS)
    if not nodes:
        raise complaint(node.mark, f"{owner} is empty.")
    found: dict[str, AnswerField] = {}
    gathering = Gathering()
    for entry in nodes:
        with gathering.part():
            field = _answer_field(entry, owner, parameters)
            if field.name in found:
                raise complaint(entry.mark, f'{owner} has two fields called "{field.name}".')
            found[field.name] = field
    gathering.end()
    return tuple(found.values())


def _answer_field(node: Node, owner: str, parameters: Mapping[str, Parameter]) -> AnswerField:
    gathering = Gathering()
    fields = ANSWER_FIELD.begin(node, owner, gathering)
    with gathering.part():
        if sum(fields.has(key) for key in ("index", "key", "pattern")) != 1:
            message = f"{owner}: a field needs exactly one of index, key and pattern."
            raise complaint(fields.mark, message)
    found: dict[str, Any] = {}
    with gathering.part():
        found = _scaled(fields, ANSWER_FIELD.values(fields), parameters)
    gathering.end()
    return AnswerField(**found)


def _check_list(fields: Fields, found: Mapping[str, Any]) -> None:
    _, most = found.get("count") or (0, 0)
    if most > MOST_ITEMS:
        message = f'{fields.owner}: "count" is over {MOST_ITEMS}, the most values of a list.'
        raise complaint(fields.mark_of("count"), message, "Describe it as a waveform.")
    _check_separator(fields, found)


def _check_separator(fields: Fields, found: Mapping[str, Any]) -> None:
    """A comma is a decimal mark or a separator."""
    if found.get("decimal") == "," and found.get("separator", ",") == ",":
        message = f'{fields.owner}: the comma is both "decimal" and "separator".'
        raise complaint(fields.mark_of("decimal"), message, 'Say which separator it has: ";".')


def read_waveform(fields: Fields, parameters: Mapping[str, Parameter]) -> WaveformAnswer:
    """Set-up lines, preamble, data query, and how codes become values.

    Raises:
        Invalid: with the place of whatever breaks a rule.
    """
    preamble = _read_preamble(fields, parameters)
    names = {field.name for field in preamble.get("preamble_fields", ())} | set(parameters)
    if fields.has("chunk_points"):
        _check_stretch(fields, parameters)
    found = WAVEFORM.values(fields, parameters)
    if "byte_order" not in found and found["dtype"] not in ("i1", "u1"):
        message = f'{fields.owner} has no "byte_order" for {found["dtype"]}.'
        raise complaint(fields.mark, message)
    found.setdefault("data", "")
    packets = _read_packets(fields, names)
    of_packets = {name for name, _ in packets.fields} if packets is not None else set()
    _check_end(fields, found)
    return WaveformAnswer(
        **found,
        **preamble,
        packets=packets,
        count=_expression(fields, "count", names) or "",
        size=_expression(fields, "bytes", names | of_packets) or "",
        x_increment=_expression(fields, "x_increment", names) or "1",
        scale=_expression(fields, "scale", names | {"value"}) or "value",
    )


def _read_packets(fields: Fields, names: Collection[str]) -> Packets | None:
    node = fields.get("packets")
    if node is None:
        return None
    inner = PACKETS.fields(node, f"{fields.owner}.packets")
    found = PACKETS.values(inner)
    own = {name for name, _ in found["fields"]}
    for name in own & set(names):
        message = f'{inner.owner}: the field "{name}" has the name of something else.'
        raise complaint(inner.mark, message)
    inner.need("until")
    return Packets(**found, until=_expression(inner, "until", {"size", *names, *own}) or "")


def _check_end(fields: Fields, found: Mapping[str, Any]) -> None:
    """Where data end that have no header, exactly one key says."""
    has_own_length = found.get("has_header", True) or "length" in found
    ends = [key for key in ("count", "bytes") if fields.has(key)]
    if not has_own_length and len(ends) != 1:
        message = f'{fields.owner}: "header: none" needs exactly one of count and bytes.'
        raise complaint(fields.mark_of("header"), message, "Say how many points or bytes come.")
    if has_own_length and "bytes" in ends:
        message = f'{fields.owner}: "bytes" belongs to "header: none"; this answer says it itself.'
        raise complaint(fields.mark_of("bytes"), message)


def _check_stretch(fields: Fields, parameters: Mapping[str, Parameter]) -> None:
    """A capture in pieces says which piece by the parameters ``first`` and ``last``."""
    for name in ("first", "last"):
        parameter = parameters.get(name)
        if parameter is None or parameter.type is not ParameterType.INT:
            message = f'{fields.owner}: "chunk_points" needs an int parameter "{name}".'
            raise complaint(fields.mark_of("chunk_points"), message)


def _read_preamble(fields: Fields, parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    node = fields.get("preamble")
    if node is None:
        return {}
    inner = PREAMBLE.fields(node, f"{fields.owner}.preamble")
    found = PREAMBLE.values(inner, parameters)
    pieces = _answer_fields(inner, parameters)
    for field in pieces:
        if field.name in parameters or field.name == "value":
            message = f'{inner.owner}: the field "{field.name}" has the name of something else.'
            raise complaint(inner.mark, message)
    found.setdefault("preamble_count", _whole_count(pieces))
    return {**found, "preamble_fields": pieces}


def read_returns(node: Node, owner: str, parameters: Mapping[str, Parameter]) -> Returns:
    """What ``returns`` says, one of a few kinds.

    Raises:
        Invalid: with the place of whatever breaks a rule.
    """
    entries = map_of(node, owner).entries
    kinds = [kind for kind in _KINDS if kind in entries]
    if len(kinds) != 1:
        # A key that is misspelt says more than that one is missing.
        fields = Fields.of(node, owner, _RETURNS_KEYS)
        count = "none" if not kinds else " and ".join(kinds)
        message = f"{owner} must have exactly one of {', '.join(_KINDS)}; it has {count}."
        raise complaint(fields.mark, message)
    kind = kinds[0]
    if kind == "type":
        kind = next((known for word, known in _TYPES.items() if is_word(entries[kind], word)), kind)
    gathering = Gathering()
    fields = RETURNS[kind].begin(node, owner, gathering)
    found: list[Returns] = []
    with gathering.part():
        found.append(_read_kind(kind, fields, parameters))
    gathering.end()
    return found[0]


def _read_kind(kind: str, fields: Fields, parameters: Mapping[str, Parameter]) -> Returns:
    place = f"{fields.owner}.{kind}"
    match kind:
        case "type":
            return ScalarAnswer(**_scaled(fields, RETURNS[kind].values(fields), parameters))
        case "list":
            found = RETURNS[kind].values(fields)
            _check_list(fields, found)
            return ListAnswer(**_scaled(fields, found, parameters))
        case "fields":
            return _read_fields(fields, parameters)
        case "bits":
            return _read_bits(fields.need(kind), place)
        case "waveform":
            return read_waveform(WAVEFORM.fields(fields.need(kind), place), parameters)
        case "waveform beside type":
            return read_waveform(fields, parameters)
        case _:
            return IMAGE.read(fields.need(kind), place, parameters)


def is_number(returns: Returns | None) -> bool:
    """Whether an answer read so has one number to plot, compare and step by."""
    match returns:
        case ScalarAnswer(type=type_, map=labels):
            return type_ in NUMBERS and not labels
        case FieldsAnswer(fields=fields, primary=primary):
            return any(f.name == primary and f.type in NUMBERS and not f.map for f in fields)
        case _:
            return False


def _read_fields(fields: Fields, parameters: Mapping[str, Parameter]) -> FieldsAnswer:
    pieces = _answer_fields(fields, parameters)
    found = RETURNS["fields"].values(fields)
    primary = found.get("primary")
    if primary is not None and primary not in {field.name for field in pieces}:
        message = f'{fields.owner}: "primary" is "{primary}", which is not a field.'
        raise complaint(fields.mark_of("primary"), message)
    found.setdefault("count", _whole_count(pieces))
    decimal = found.get("decimal", ".")
    if any(f.pattern is None and "," in (decimal, f.decimal) for f in pieces):
        _check_separator(fields, {**found, "decimal": ","})
    if decimal == ",":
        pieces = tuple(replace(field, decimal=decimal) for field in pieces)
    return FieldsAnswer(fields=pieces, **found)


def _read_bits(node: Node, owner: str) -> BitsAnswer:
    gathering = Gathering()
    fields = BITS.begin(node, owner, gathering)
    values: dict[str, Any] = {}
    with gathering.part():
        values = BITS.values(fields)
    found: dict[str, BitField] = {}
    with gathering.part():
        entries = fields.need("fields")
        for entry in list_of(entries, fields.name_of("fields"), most=MOST_FIELDS):
            with gathering.part():
                bit = BIT.read(entry, owner)
                if bit.name in found:
                    raise complaint(entry.mark, f'{owner} has two fields called "{bit.name}".')
                _check_bit_labels(Fields(map_of(entry, owner), owner), bit)
                found[bit.name] = bit
        if not list_of(entries, owner):
            raise complaint(entries.mark, f"{fields.name_of('fields')} is empty.")
    gathering.end()
    return BitsAnswer(**values, fields=tuple(found.values()))


def _check_bit_labels(fields: Fields, bit: BitField) -> None:
    """Labels go by the number that the bits under ``mask`` make when shifted down."""
    most = bit.mask >> ((bit.mask & -bit.mask).bit_length() - 1)
    node = fields.mapping("map")
    for label, key in ({} if node is None else node.keys).items():
        if not label.isdecimal() or int(label) > most:
            message = f'{fields.name_of("map")}: "{label}" is not a number from 0 to {most}.'
            raise complaint(key.mark, message)
