"""``abort`` of a profile and of a sweep: nodes → AbortStep."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from edged.profiles.complaints import complaint
from edged.profiles.fields import Fields, template_of
from edged.profiles.grammar_connection import check_query
from edged.profiles.model import AbortStep
from edged.profiles.patterns import pattern_of
from edged.yaml.tree import MapNode, Node, ScalarNode

__all__ = ["ABORT_KEYS", "UNASKABLE", "read_abort"]

ABORT_KEYS: Final = ("send", "ask", "expect")
UNASKABLE: Final = "none"
"""What ``ask`` says where the instrument has no answer for what the line did."""


def read_abort(fields: Fields, names: Collection[str]) -> tuple[AbortStep, ...]:
    """The entries, each a line or ``{send, ask, expect}``.

    Args:
        names: the parameters that may stand in the templates.

    Raises:
        Invalid: with the place of whatever breaks a rule.
    """
    owner = fields.name_of("abort")
    return tuple(_read_step(node, owner, names) for node in fields.items("abort", most=100))


def _read_step(node: Node, owner: str, names: Collection[str]) -> AbortStep:
    if not isinstance(node, MapNode):
        return AbortStep(send=template_of(node, owner, names))
    fields = Fields.of(node, owner, ABORT_KEYS)
    send = template_of(fields.need("send"), fields.name_of("send"), names)
    ask = fields.need("ask")
    if isinstance(ask, ScalarNode) and ask.text == UNASKABLE:
        if fields.has("expect"):
            message = f'{owner}: "expect" has no question whose answer it could fit.'
            raise complaint(fields.mark_of("expect"), message)
        return AbortStep(send=send, is_unaskable=True)
    question = template_of(ask, fields.name_of("ask"), names)
    return AbortStep(
        send=send,
        ask=check_query(ask, question, fields),
        expect=pattern_of(fields.need("expect"), fields.name_of("expect")),
    )
