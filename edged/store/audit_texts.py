"""Rows on their way to the disk, and the texts that many of them share. Store thread only.

A client that polls sends the same call again and again: who asks, what is asked and what came of it
are the same texts each time. They are made once, kept in a small memory, and rows refer to them. No
text of a write is shared: its row says by itself what was sent.
"""

from __future__ import annotations

from typing import Final

from edged.store.audit_entry import Entry, is_flat, storable_id, storable_ms, texts_of
from edged.store.audit_row import SEPARATOR

__all__ = ["Familiar", "Shelf", "Stored", "Texts"]

MOST: Final = 1_024
"""Texts that are remembered; at most some 3 MB."""
SHARED_CHARS: Final = 1_000
"""Longer ones are each row's own."""
SHARED_FROM: Final = Entry._fields.index("phase")
SHARED_TO: Final = Entry._fields.index("is_weighty") + 1


class Texts:
    """The texts of a row. Two of them are the same only if they are one object.

    Attributes:
        values: those of ``TEXT_COLUMNS``.
        head, tail: what stands before and after the action's id where a row is hashed.
        is_shared: other rows may refer to them.
    """

    __slots__ = ("head", "is_shared", "tail", "values")

    def __init__(self, values: tuple[str, ...], *, is_weighty: bool) -> None:
        self.values = values
        self.head = values[0] + SEPARATOR
        self.tail = SEPARATOR + SEPARATOR.join(values[1:]) + SEPARATOR
        self.is_shared = not is_weighty and len(self.tail) <= SHARED_CHARS


class Familiar:
    """An entry that comes again and again, but for its time, action and duration.

    Attributes:
        entry: it, as it came first. The event loop's.
        texts: made of it by the store thread, the first time it is written.
    """

    __slots__ = ("entry", "texts")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.texts: Texts | None = None


Stored = tuple[int, str, Texts, float]
"""What is stored of an entry: time_ms, action's id, texts, duration_ms."""


class Shelf:
    """Remembers texts by what they were made of."""

    def __init__(self) -> None:
        self._texts: dict[tuple[object, ...], Texts] = {}

    def row(self, entry: Entry) -> Stored:
        """What is stored of an entry."""
        action_id = storable_id(entry.action_id)
        return (entry.time_ms, action_id, self.texts(entry), storable_ms(entry.duration_ms))

    def texts(self, entry: Entry) -> Texts:
        """The texts of an entry; what came before gets the same again."""
        key: tuple[object, ...] = entry[SHARED_FROM:SHARED_TO]
        if entry.arguments:
            if not is_flat(entry.arguments):
                return _make(entry)
            # By what they look like: 1, 1.0 and True are equal, and are not the same argument.
            key = (*key, repr(entry.arguments))
        texts = self._texts.get(key)
        if texts is None:
            texts = _make(entry)
            if texts.is_shared:
                self._remember(key, texts)
        return texts

    def _remember(self, key: tuple[object, ...], texts: Texts) -> None:
        if len(self._texts) >= MOST:
            self._texts.clear()
        self._texts[key] = texts


def _make(entry: Entry) -> Texts:
    return Texts(texts_of(entry), is_weighty=entry.is_weighty)
