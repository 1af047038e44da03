"""Field tables: each key of the profile format once, with what may stand there and what it means.

From one table come the reading of a mapping (``values``, ``read``), its JSON Schema (``schema.py``)
and its rows in docs/profiles.md (docs/reference.py). What a row cannot say, since it holds between
keys, is a plain function in the chapter of the table; a key whose goodness depends on other keys
has a ``Kind`` without ``read`` and is read there too.

A key that is left out is left out of ``values``: its default is the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from edged.errors import Invalid
from edged.schema.fields import (
    MAX_TEXT,
    Fields,
    Gathering,
    choice_of,
    complaint,
    each_of,
    list_of,
    map_of,
    number_of,
    one_of,
    text_of,
    truth_of,
    whole_number_of,
)
from edged.yaml.tree import Node, ScalarNode

Schema = dict[str, Any]
Reader = Callable[[Fields, str, Node, Collection[str]], Any]
"""The mapping, the key, what stands under it, and the names that templates there may use."""
M = TypeVar("M")


class Kind(NamedTuple):
    """What may stand under a key.

    Attributes:
        word: what the documentation calls it.
        schema: the JSON Schema of it.
        read: makes the model's value of it; ``None`` where the chapter does, by other keys too.
    """

    word: str
    schema: Schema
    read: Reader | None = None


class Key(NamedTuple):
    """One key of a mapping.

    Attributes:
        sentence: what it means, in docs/profiles.md and beside the key in an editor.
        field: what the model calls it, where that is another name.
        is_own: of a profile: says which instrument this is, so that no member inherits it.
        default: of the configuration: its value where nothing sets it, or a function that makes
            it for a machine.
        default_text: what the documentation shows for that; empty: ``default`` as YAML.
        is_secret: its value is never shown.
    """

    name: str
    kind: Kind
    sentence: str = ""
    field: str = ""
    is_required: bool = False
    is_own: bool = False
    default: Any = None
    default_text: str = ""
    is_secret: bool = False


class Table(Generic[M]):
    """The keys of one mapping of the format, and what is made of it.

    Attributes:
        name: under ``$defs`` of the JSON Schema, and in the documentation.
        model: what ``read`` makes; its defaults stand for what is left out.
        sentence: what such a mapping is.
        keys: by name, in the order in which they are read.
        is_merged: a member of a family merges its entries into the inherited ones, so that it
            may leave out any key, and ``null`` takes the whole away.
        other: the JSON Schema of what may stand in place of the mapping.
        needs_one: keys of which one at least must be given; the chapter checks it.
    """

    def __init__(
        self,
        name: str,
        model: Callable[..., M],
        sentence: str,
        *keys: Key,
        is_merged: bool = False,
        other: Schema | None = None,
        needs_one: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.model = model
        self.sentence = sentence
        self.keys: Mapping[str, Key] = {key.name: key for key in keys}
        self.is_merged = is_merged
        self.other = other
        self.needs_one = needs_one

    @property
    def required(self) -> list[Key]:
        """The keys that must be given."""
        return [key for key in self.keys.values() if key.is_required]

    def fields(self, node: Node, owner: str) -> Fields:
        """The mapping; raises Invalid for an unknown key, or for what is no mapping."""
        return Fields.of(node, owner, self.keys)

    def begin(self, node: Node, owner: str, gathering: Gathering) -> Fields:
        """The mapping, its unknown keys kept as complaints; raises Invalid for what is none."""
        return Fields.begin(node, owner, self.keys, gathering)

    def value(self, fields: Fields, name: str, names: Collection[str] = ()) -> Any:
        """What one key says; ``None`` where it is left out and may be.

        Raises:
            Invalid: it is missing, or breaks a rule.
        """
        key = self.keys[name]
        node = fields.need(name) if key.is_required else fields.get(name)
        if node is None or key.kind.read is None:
            return None
        return key.kind.read(fields, name, node, names)

    def values(
        self, fields: Fields, names: Collection[str] = (), gathering: Gathering | None = None
    ) -> dict[str, Any]:
        """What the keys say that need no other ones, by the model's field.

        Args:
            fields: the mapping.
            names: what templates and expressions may use.
            gathering: keeps what would be raised; the other keys are given all the same.

        Raises:
            Invalid: keys that are required are missing, or values break rules; all of them.
        """
        found: dict[str, Any] = {}
        is_kept = gathering is not None
        entries = fields.node.entries
        for name, key in self.keys.items():
            read = key.kind.read
            if read is None:
                continue
            try:
                node = entries.get(name)
                if node is not None:
                    found[key.field or name] = read(fields, name, node, names)
                elif key.is_required:
                    fields.need(name)
            except Invalid as error:
                gathering = gathering or Gathering()
                gathering.add(error)
        if gathering is not None and not is_kept:
            gathering.end()
        return found

    def read(self, node: Node, owner: str, names: Collection[str] = ()) -> M:
        """The model of a mapping whose keys need no other ones.

        Raises:
            Invalid: with the place of whatever breaks a rule.
        """
        return self.model(**self.read_values(node, owner, names))

    def read_values(self, node: Node, owner: str, names: Collection[str] = ()) -> dict[str, Any]:
        """What ``read`` makes its model of.

        Raises:
            Invalid: all that is wrong, unknown keys among it.
        """
        gathering = Gathering()
        found: dict[str, Any] = {}
        with gathering.part():
            fields = self.begin(node, owner, gathering)
            found = self.values(fields, names)
        gathering.end()
        return found

    @property
    def link(self) -> Kind:
        """Such a mapping under a key of another one, whose chapter reads it."""
        return Kind(f"[{self.name}](#{self.name})", reference(self.name))

    @property
    def inside(self) -> Kind:
        """Such a mapping under a key of another one."""
        return self.checked(lambda _fields, _found: None)

    def checked(self, check: Callable[[Fields, M], None]) -> Kind:
        """The same, where ``check`` raises what is wrong between the keys."""

        def read(fields: Fields, key: str, node: Node, names: Collection[str]) -> M:
            owner = fields.path_of(key)
            found = self.read(node, owner, names)
            check(Fields(map_of(node, owner), owner), found)
            return found

        return self.link._replace(read=read)


# A plain scalar that looks like a number is text all the same where text belongs (model: 2450).
TEXT_SCHEMA: Final[Schema] = {"type": ["string", "number"]}


def reference(name: str) -> Schema:
    """What stands under ``$defs``."""
    return {"$ref": f"#/$defs/{name}"}


def is_word(node: Node, word: str) -> bool:
    """Whether the node is this word and nothing else."""
    return isinstance(node, ScalarNode) and node.text == word


def text(most: int = MAX_TEXT, *, is_optional: bool = False) -> Kind:
    """One text without control characters; where ``is_optional``, an empty one is none."""

    def read(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str | None:
        found = text_of(node, fields.name_of(key), most=most)
        return found or None if is_optional else found

    return Kind("text", TEXT_SCHEMA, read)


def integer(low: int, high: int) -> Kind:
    """A whole number within bounds."""
    return Kind(
        f"{low:,}..{high:,}",
        {"type": "integer", "minimum": low, "maximum": high},
        lambda fields, key, node, _: whole_number_of(node, fields.name_of(key), low, high),
    )


def number(low: float | None = None, high: float | None = None) -> Kind:
    """A number, not under ``low`` and not over ``high``."""
    bounds = {"minimum": low, "maximum": high}
    word = "" if low is None else f" from {low:g} " + ("on" if high is None else f"to {high:g}")
    return Kind(
        f"number{word}",
        {"type": "number", **{name: one for name, one in bounds.items() if one is not None}},
        lambda fields, key, node, _: number_of(node, fields.name_of(key), low, high),
    )


def positive(high: float | None = None, remedy: str = "") -> Kind:
    """A number over 0, and not over ``high``; ``remedy`` is said to who writes another one."""
    most = "" if high is None else f", {high:,} at most"
    schema: Schema = {"type": "number", "exclusiveMinimum": 0}

    def read(fields: Fields, key: str, node: Node, _names: Collection[str]) -> float:
        value = number_of(node, fields.name_of(key))
        if not 0 < value <= (value if high is None else high):
            message = f"{fields.name_of(key)} is {value}; it must be over 0{most}."
            raise complaint(node.mark, message, remedy)
        return value

    return Kind(
        f"number over 0{most}", schema if high is None else {**schema, "maximum": high}, read
    )


def choice(words: Iterable[str]) -> Kind:
    """One of a few words; of an enumeration its member."""
    known = list(words)
    return Kind(
        ", ".join(f"`{word}`" for word in known),
        {"enum": [str(word) for word in known]},
        lambda fields, key, node, _: choice_of(node, fields.name_of(key), known),
    )


def array(kind: Kind, most: int = 1_000, *, least: int = 0, empty: str = "") -> Kind:
    """A list of these; ``empty`` says why it may not be empty."""
    schema: Schema = {"type": "array", "items": kind.schema}
    if least or empty:
        schema["minItems"] = least or 1
    inner = kind.read
    if inner is None:
        return Kind(f"list of {kind.word}", schema)

    def read(fields: Fields, key: str, node: Node, names: Collection[str]) -> Any:
        nodes = list_of(node, fields.name_of(key), most=most)
        if empty and not nodes:
            raise complaint(fields.mark_of(key), f"{fields.name_of(key)} is empty: {empty}.")
        return each_of(nodes, lambda item: inner(fields, key, item, names))

    return Kind(f"list of {kind.word}", schema, read)


def made(kind: Kind, make: Callable[[Any], Any]) -> Kind:
    """The same, of which something else is made."""
    read = kind.read
    assert read is not None  # noqa: S101 - of a kind that reads
    return kind._replace(read=lambda fields, key, node, names: make(read(fields, key, node, names)))


def entries(word: str, kind: Kind, most: int = 1_000) -> Kind:
    """A mapping whose keys are the file's own, from names to values of one kind."""
    inner = kind.read
    assert inner is not None  # noqa: S101 - of a kind that reads

    def read(fields: Fields, key: str, node: Node, names: Collection[str]) -> dict[str, Any]:
        found = map_of(node, fields.name_of(key), most=most).entries
        within = Fields(map_of(node, fields.owner), fields.path_of(key))
        values = each_of(found, lambda name: inner(within, name, found[name], names))
        return dict(zip(found, values, strict=True))

    return mapping(f"{word} → {kind.word}", kind.schema, read)


def mapping(word: str, entry: Schema, read: Reader | None = None, *, least: int = 0) -> Kind:
    """A mapping whose keys are the file's own."""
    schema: Schema = {"type": "object", "additionalProperties": entry}
    if least:
        schema["minProperties"] = least
    return Kind(word, schema, read)


TRUTH: Final = Kind(
    one_of(("`true`", "`false`")),
    {"type": "boolean"},
    lambda fields, key, node, _: truth_of(node, fields.name_of(key)),
)
POSITIVE: Final = Kind("number over 0", {"type": "number", "exclusiveMinimum": 0})
