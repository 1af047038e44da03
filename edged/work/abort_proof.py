"""How it can be seen that an abort was obeyed: the questions that a profile has for it. Pure.

A SCPI setter and its query share a header: what ``:OUTP CH1,OFF`` did, ``:OUTP? CH1`` tells. So for
each line of an abort the profile's settings and queries are searched for the question that asks for
just that, and its answer is compared with what the line said.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from edged.errors import EdgedError
from edged.profiles.bounds import possible_values
from edged.profiles.model import Parameter, Profile, Scalar
from edged.profiles.render import placeholders, render
from edged.profiles.suffixes import number_with_suffix

__all__ = ["Proof", "proofs_of"]

MOST_QUESTIONS: Final = 8
"""An abort is no time for a long conversation."""
MOST_CASES: Final = 64
"""Renderings tried of one query template (channels); a profile with more is not searched."""
TRUTHS: Final = {"ON": True, "1": True, "RUN": True, "OFF": False, "0": False, "STOP": False}
"""Tektronix scopes take ``ACQuire:STATE STOP`` and tell it as 0."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A question, and what its answer must be."""

    query: str
    wanted: str

    def is_given_by(self, answer: str) -> bool:
        """Whether an answer says that the line was obeyed: the same truth, number or word.

        Some answers repeat the header, as IEEE 488.2 (8.2) allows, and have more behind what was
        asked: ``C1:OUTP OFF,LOAD,HZ`` (Siglent).
        """
        found, wanted = answer.strip().strip('"').upper(), self.wanted.strip().upper()
        header = self.query.partition("?")[0].upper()
        if found.startswith(f"{header} "):
            found = found.removeprefix(header).partition(",")[0].strip()
        if found == wanted:
            return True
        if wanted in TRUTHS and found in TRUTHS:
            return TRUTHS[wanted] is TRUTHS[found]
        one, other = number_with_suffix(found), number_with_suffix(wanted)
        return one is not None and one == other


def proofs_of(profile: Profile, lines: Sequence[str]) -> tuple[Proof, ...]:
    """The questions for what these lines set; none where the profile has none."""
    headers = {line.strip().partition(" ")[0].upper() for line in lines}
    questions = list(dict.fromkeys(_questions(profile, headers)))
    found: list[Proof] = []
    for line in lines:
        header, _, told = line.strip().partition(" ")
        for question in questions:
            asked, _, about = question.partition(" ")
            if asked.upper() != f"{header.upper()}?":
                continue
            value = _beside(told.strip(), about.strip())
            if value is not None:
                found.append(Proof(question, value))
                break
    return tuple(dict.fromkeys(found))[:MOST_QUESTIONS]


def _questions(profile: Profile, headers: Set[str]) -> Iterator[str]:
    """Every query of the profile that may stand under these headers, with every channel."""
    for setting in profile.settings.values():
        if not _may_ask(setting.get, headers):
            continue
        names = list(setting.for_values)
        for values in itertools.product(*setting.for_values.values()):
            parameters = _parameters(profile, setting.set_command)
            yield from _rendered(setting.get, parameters, dict(zip(names, values, strict=True)))
    for command in profile.commands.values():
        if not command.is_query or command.is_dangerous or len(command.scpi) != 1:
            continue
        template = command.scpi[0]
        if not _may_ask(template, headers):
            continue
        names = [hole.name for hole in placeholders(template)]
        choices = [_choices(command.parameters.get(name)) for name in names]
        cases = itertools.islice(itertools.product(*choices), MOST_CASES)
        for case in cases:
            chosen = dict(zip(names, case, strict=True))
            yield from _rendered(template, command.parameters, chosen)


def _may_ask(template: str, headers: Set[str]) -> bool:
    fixed = template.strip().upper().partition(" ")[0].partition("{")[0]
    return any(f"{header}?".startswith(fixed) for header in headers)


def _choices(parameter: Parameter | None) -> tuple[Scalar, ...]:
    return tuple(possible_values(parameter) or ()) if parameter is not None else ()


def _parameters(profile: Profile, command: str | None) -> Mapping[str, Parameter]:
    known = profile.commands.get(command or "")
    return known.parameters if known is not None else {}


def _rendered(
    template: str, parameters: Mapping[str, Parameter], values: Mapping[str, Scalar]
) -> Iterator[str]:
    try:
        yield render(template, parameters, values).strip()
    except EdgedError:
        return


def _beside(told: str, about: str) -> str | None:
    """What a line set beside what its question names: ``CH1,OFF`` and ``CH1`` give ``OFF``."""
    if not told:
        return None
    if not about:
        return None if "," in told else told
    parts, named = [p.strip() for p in told.split(",")], [p.strip() for p in about.split(",")]
    if [p.upper() for p in parts[: len(named)]] == [p.upper() for p in named]:
        rest = parts[len(named) :]
    elif [p.upper() for p in parts[-len(named) :]] == [p.upper() for p in named]:
        # ``OFF,(@1)``: the channel list stands behind.
        rest = parts[: -len(named)]
    else:
        return None
    return rest[0] if len(rest) == 1 else None
