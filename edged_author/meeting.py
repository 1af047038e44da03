"""What is asked of an instrument that nobody has written a profile for. Pure.

Questions, ``*CLS``, and one command that no instrument has (``EDGED:NONE``) go out, and nothing
else: whether an instrument acknowledges what it is told shows in what it answers to those two. What
cannot be known so is said, in a sentence for whoever writes the profile.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import Final

from edged.errors import Failed
from edged.profiles.match import is_refusal, says_name
from edged.profiles.model import Connection
from edged.scpi.answer_text import clean_text
from edged.scpi.blocks import find_block_head
from edged.scpi.errors import parse_error
from edged.scpi.kinds import ErrorKind
from edged_author.drafting import MetInstrument, literal, read_headers
from edged_author.probing import (
    NAME_QUESTION,
    Heard,
    Say,
    Talk,
    find_terminations,
    find_unasked,
)

UNKNOWN_COMMAND: Final = "EDGED:NONE"
CLEAR: Final = "*CLS"
OTHER_NAME_QUESTIONS: Final = ("ID?", "VER?")
"""What instruments older than IEEE 488.2 are asked for their names by; nothing changes by them."""
ERROR_QUERIES: Final = ("SYST:ERR?", "ERR?")
MOST_ERRORS: Final = 32
"""Asked for at most; queues are shorter."""
HEADERS: Final = "SYST:HELP:HEAD?"
WITHIN_S: Final = 1.0
ACKNOWLEDGED_WITHIN_S: Final = 0.5
LONGEST_ACKNOWLEDGEMENT: Final = 60
"""Characters; of a longer one the beginning tells enough."""


def meet(connection: Connection, question: str = "") -> Talk[MetInstrument]:
    """Learn what can be learnt without changing anything.

    Args:
        connection: how it is spoken to, as far as that is known.
        question: what its owner says that it answers; then ``*IDN?`` is never asked.
    """
    met = yield from _name(connection, question)
    if not met.was_heard:
        return replace(met, unknown=(*met.unknown, _SILENT))
    if question:
        return replace(met, unknown=(*met.unknown, _NOTHING_ELSE.format(question=question)))
    if met.is_name:
        met = yield from _acknowledgement(met)
    else:
        met = _unknown(met, f"{CLEAR} means something only to what knows {NAME_QUESTION}")
    met = yield from _error_query(met)
    if met.is_name:
        heard = yield Say(HEADERS, connection=met.connection, within_s=WITHIN_S)
        met = replace(met, headers=_headers(heard))
        yield from _emptied(met)
    return met


_NOTHING_ELSE: Final = (
    "Only {question} was sent, because other lines may have another meaning to it: whether it "
    "reports errors and acknowledges writes is in its manual (connection.errors and "
    "connection.acknowledge)."
)
_SILENT: Final = (
    "It did not answer at all, so line ends, errors and acknowledgements are guesses. Give a "
    "question from its manual that changes nothing: --ask VERSION; `edged probe` tries more."
)


def _name(connection: Connection, question: str) -> Talk[MetInstrument]:
    """Line ends and name; of several questions the first that is answered by a name."""
    unasked = yield from find_unasked(connection)
    questions = (question,) if question else (NAME_QUESTION, *OTHER_NAME_QUESTIONS)
    met = MetInstrument(connection=connection, question="", unknown=unasked)
    refused = ""
    for asked in questions:
        if not met.was_heard:
            patience = {} if asked == questions[0] else {"first_within_s": WITHIN_S}
            found = yield from find_terminations(asked, connection, **patience)
            if found is None:
                continue
            met = replace(met, connection=found.connection, was_heard=True)
            met = replace(met, unknown=(*met.unknown, *found.doubts))
            answer = found.answer
        else:
            heard = yield Say(asked, connection=met.connection, within_s=WITHIN_S)
            answer = heard.answer_to(asked)
        if question or says_name(answer):
            return replace(met, question=asked, idn=answer)
        refused = refused or answer
    tried = ", ".join(questions)
    said = f'; {questions[0]} is answered by "{clean_text(refused)}"' if refused else ""
    unknown = (
        f"It identifies itself to none of {tried}{said}, and would be set aside where "
        "INSTRUMENTS does not name its profile. Give a question from its manual that changes "
        "nothing, by --ask, so that edged can tell whether it is there."
    )
    return replace(met, unknown=(*met.unknown, unknown))


def _acknowledgement(met: MetInstrument) -> Talk[MetInstrument]:
    """Whether what it is told is answered; three lines tell, or nothing can."""
    said: list[Heard] = []
    for line in (CLEAR, CLEAR, UNKNOWN_COMMAND):
        heard = yield Say(
            line, connection=met.connection, within_s=ACKNOWLEDGED_WITHIN_S, asks=False
        )
        said.append(heard)
    if not all(heard.was_said for heard in said):
        return _unknown(met, "it could not be asked for over this connection")
    if any(heard.was_lost for heard in said):
        return _unknown(met, f"it ended the connection at {CLEAR} or {UNKNOWN_COMMAND}")
    first, second, none = (heard.lines() for heard in said)
    if not first and not second:
        return met
    if first != second:
        return _unknown(met, f"two {CLEAR} were not answered alike")
    if first == none or any(is_refusal(line) for line in first):
        shown = clean_text(first[0])
        return _unknown(met, f'"{shown}" is how it answers {CLEAR}, and what it does not know')
    if len(first) > 1 or first[0] == CLEAR:
        return _unknown(met, f"it answers {CLEAR} by {len(first)} lines, or by an echo")
    # Blanks around an answer are dropped before it is compared.
    text = first[0].strip()
    is_long = len(text) > LONGEST_ACKNOWLEDGEMENT
    end = "" if is_long else "$"
    return replace(met, acknowledge=f"^{literal(text[:LONGEST_ACKNOWLEDGEMENT])}{end}")


def _unknown(met: MetInstrument, why: str) -> MetInstrument:
    sentence = (
        f"It could not be found out whether it acknowledges lines: {why}. If its manual says "
        "so, write connection.acknowledge."
    )
    return replace(met, unknown=(*met.unknown, sentence))


def _error_query(met: MetInstrument) -> Talk[MetInstrument]:
    """The question that is answered with the number of an error; empties the queue."""
    for query in ERROR_QUERIES:
        entry = yield from _entry(met, query)
        if entry is None:
            continue
        found = replace(met, error_query=query)
        if entry:
            yield from _emptied(found)
        return found
    if met.is_name:
        return met
    sentence = f"It answers none of {', '.join(ERROR_QUERIES)} with an error's number."
    return replace(met, unknown=(*met.unknown, sentence))


def _entry(met: MetInstrument, query: str) -> Talk[int | None]:
    """The number of the oldest error; ``None`` where the answer is no entry of a queue."""
    heard = yield Say(query, connection=met.connection, within_s=WITHIN_S)
    line = heard.answer_to(query)
    error = parse_error(ErrorKind.QUEUE, line)
    # A bare number may be the answer to another question, such as a reading.
    is_entry = error.code is not None and re.search(r"\d\s*[, ]\s*\S", line) is not None
    return error.code if is_entry else None


def _emptied(met: MetInstrument) -> Talk[None]:
    """Read out of the queue what these questions have put there."""
    if not met.error_query:
        return
    for _ in range(MOST_ERRORS):
        entry = yield from _entry(met, met.error_query)
        if not entry:
            return


def _headers(heard: Heard) -> tuple[str, ...]:
    data = heard.data.lstrip()
    if data[:1] == b"#":
        with contextlib.suppress(Failed):
            head = find_block_head(data)
            return read_headers(data[head.start :].decode("ascii", "replace")) if head else ()
    return ()
