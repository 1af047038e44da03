"""What only profiles have under a key: names, SCPI, expressions, regular expressions."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from edged.errors import Invalid
from edged.patterns import MAX_PATTERN
from edged.profiles.addressed import ADDRESS, PLACEHOLDER
from edged.profiles.expr import compile_expression
from edged.profiles.template import placeholders
from edged.schema.fields import Fields, check_pattern, complaint, nearest, scalar_of, text_of
from edged.schema.tables import TEXT_SCHEMA, Key, Kind, Schema, Table, mapping, reference
from edged.yaml.tree import MapNode, Mark, Node, ScalarNode

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_MAX_NAME: Final = 48
_KEYWORDS: Final = frozenset({"and", "or", "not", "true", "false"})
_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_EMPTY_MESSAGE: Final = re.compile(r";\s*;")
SENDABLE: Final[Schema] = {"type": ["string", "number"], "minLength": 1}
SCALAR_SCHEMA: Final[Schema] = {"type": ["string", "number", "boolean"]}
NAME_PATTERN: Final = "^(?!.*__)[a-z][a-z0-9_]*$"


def check_name(mark: Mark, name: str, what: str) -> str:
    """The rule of all names: ``[a-z][a-z0-9_]*`` without ``__``, at most 48 characters.

    Raises:
        Invalid: another form.
    """
    if _NAME.fullmatch(name) and "__" not in name and len(name) <= _MAX_NAME:
        if name in _KEYWORDS:
            raise complaint(mark, f'{what} "{name}" is a word of the expression language.')
        return name
    if "__" in name:
        message = f'{what} "{name}" holds "__", which parts the pieces of tool names.'
    elif len(name) > _MAX_NAME:
        message = f'{what} "{name}" has {len(name)} characters, over {_MAX_NAME}.'
    else:
        message = f'{what} "{name}" must be lower case letters, digits and "_" (a letter first).'
    better = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:_MAX_NAME]
    is_better = _NAME.fullmatch(better) is not None and better != name
    raise complaint(mark, message, f'Call it "{better}".' if is_better else "")


def template_of(node: Node, owner: str, names: Collection[str]) -> str:
    """A SCPI template whose placeholders are all in ``names``.

    Raises:
        Invalid: not a template, empty, or with a name that is not there.
    """
    text = text_of(node, owner)
    if not text.strip():
        raise complaint(node.mark, f"{owner} is empty.")
    if _EMPTY_MESSAGE.search(_QUOTED.sub("Q", text)):
        message = f'{owner}: "{text}" has an empty command between two ";".'
        raise complaint(node.mark, message, "Take one of them out.")
    if "address" not in names:
        text = text.replace(PLACEHOLDER, ADDRESS)
    try:
        found = placeholders(text)
    except Invalid as error:
        raise complaint(node.mark, f"{owner}: {error.message}") from None
    for placeholder in found:
        if placeholder.name not in names:
            name = placeholder.name
            message = f"{owner}: the template names {{{name}}}, which is not a parameter."
            raise complaint(node.mark, message, nearest(placeholder.name, names))
    return text


def expression_of(node: Node, owner: str, names: Collection[str]) -> str:
    """An expression whose names are all in ``names``; a bare number is one too.

    Raises:
        Invalid: not an expression, or with a name that is not there.
    """
    scalar_of(node, owner)
    assert isinstance(node, ScalarNode)  # noqa: S101 - scalar_of has seen to it
    text = node.text.replace(PLACEHOLDER, ADDRESS)
    try:
        compiled = compile_expression(text)
    except Invalid as error:
        raise complaint(node.mark, f"{owner}: {error.message}") from None
    for name in sorted(compiled.names):
        if name not in names:
            message = (
                f'{owner}: the expression "{node.text}" names {name}, which is not known here.'
            )
            raise complaint(node.mark, message, nearest(name, names))
    return text


def pattern_of(node: Node, owner: str, *, groups: int | None = None) -> str:
    """A regular expression that is safe to search; raises as ``check_pattern``."""
    text = text_of(node, owner, most=MAX_PATTERN).replace(PLACEHOLDER, ADDRESS)
    return check_pattern(node, owner, text, groups)


def pattern(groups: int | None = None) -> Kind:
    """A regular expression that is safe to search."""
    return Kind(
        "regular expression" if groups is None else f"regular expression, {groups} group",
        TEXT_SCHEMA,
        lambda fields, key, node, _: pattern_of(node, fields.name_of(key), groups=groups),
    )


def known_name_of(
    fields: Fields, key: str, node: Node, names: Collection[str], what: str = "no command"
) -> str:
    """One of the names that are known here.

    Raises:
        Invalid: another one; ``what`` says what it is not.
    """
    owner = fields.name_of(key)
    name = text_of(node, owner, most=64)
    if name not in names:
        message = f'{owner} names "{name}", which is {what}.'
        raise complaint(node.mark, message, nearest(name, names))
    return name


def query_of(fields: Fields, key: str, node: Node, names: Collection[str]) -> str:
    """A template that asks: one with a ``?``, or one that stands under ``ask``.

    Raises:
        Invalid: not a template over these names, or one that asks nothing.
    """
    if isinstance(node, MapNode):
        inner = QUESTION.fields(node, fields.name_of(key))
        return question_of(inner, "ask", inner.need("ask"), names)
    template = template_of(node, fields.name_of(key), names)
    if "?" not in template:
        message = f'{fields.owner}: "{template}" is not a query (it has no "?").'
        remedy = f'If the instrument answers it, write {{ask: "{template}"}} in its place.'
        raise complaint(node.mark, message, remedy)
    return template


def question_of(fields: Fields, key: str, node: Node, names: Collection[str]) -> str:
    """A template that asks because its key says so, ``?`` or not.

    Raises:
        Invalid: not a template over these names.
    """
    return template_of(node, fields.name_of(key), names)


TEMPLATE: Final = Kind(
    "SCPI",
    SENDABLE,
    lambda fields, key, node, names: template_of(node, fields.name_of(key), names),
)
QUESTION: Final[Table[dict[str, str]]] = Table(
    "question",
    dict,
    "Can be written instead of any query: a query without `?`, such as `{ask: \"VERSION\"}`.",
    Key("ask", TEMPLATE, "The query, with or without `?`.", is_required=True),
    other=SENDABLE,
)  # fmt: skip
QUERY: Final = Kind("query or [question](#question)", reference("question"), query_of)
PLAIN_QUERY: Final = QUERY._replace(
    word="query or [question](#question), without parameters",
    read=lambda fields, key, node, _: query_of(fields, key, node, ()),
)
PLAIN_QUESTION: Final = Kind(
    "question without parameters",
    SENDABLE,
    lambda fields, key, node, _: question_of(fields, key, node, ()),
)
EXPRESSION: Final = Kind(
    "expression",
    SCALAR_SCHEMA,
    lambda fields, key, node, names: expression_of(node, fields.name_of(key), names),
)
PATTERN: Final = pattern()
NAMED: Final = Kind("name", TEXT_SCHEMA)
"""The name of something else in the profile; its chapter knows what there is."""


def by_name(word: str, entry: Schema, *, least: int = 0) -> Kind:
    """A mapping from names, as commands and parameters have them."""
    kind = mapping(word, entry, least=least)
    return kind._replace(schema={**kind.schema, "propertyNames": {"pattern": NAME_PATTERN}})
