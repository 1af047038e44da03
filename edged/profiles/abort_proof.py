"""How it can be seen that an abort was obeyed: the questions that a profile has for it. Pure.

An entry of ``abort`` may say itself what to ask. Where it does not, the profile is searched: a SCPI
setter and its query share a header, so what ``:OUTP CH1,OFF`` did, ``:OUTP? CH1`` tells; the answer
is compared with what the line said.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from edged.errors import EdgedError
from edged.profiles.answers import clean_text
from edged.profiles.bounds import possible_values
from edged.profiles.model import AbortStep, Parameter, Profile, Scalar
from edged.profiles.outputs import means_same, output_names, tellings
from edged.profiles.patterns import found_in
from edged.profiles.render import placeholders, render

__all__ = ["Proof", "Verdict", "judge", "proofs_of", "questions_of", "unproved_outputs"]

MOST_QUESTIONS: Final = 16
"""An abort is no time for a long conversation."""
MOST_CASES: Final = 64
"""Renderings tried of one query template (channels); a profile with more is not searched."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A question, and what its answer must be.

    Attributes:
        wanted: the same truth, number or word; or, for people, what the line said.
        expect: a pattern instead, where the profile gives one.
        outputs: which outputs such an answer shows to be off.
    """

    query: str
    wanted: str
    expect: str = ""
    outputs: tuple[str, ...] = ()

    def is_given_by(self, answer: str) -> bool:
        """Whether an answer says that the line was obeyed.

        Some answers repeat the header, as IEEE 488.2 (8.2) allows, and have more behind what was
        asked: ``C1:OUTP OFF,LOAD,HZ`` (Siglent).
        """
        if self.expect:
            return found_in(answer.strip(), self.expect) is not None
        found = answer.strip().strip('"').upper()
        header = self.query.partition("?")[0].upper()
        if found.startswith(f"{header} "):
            found = found.removeprefix(header).partition(",")[0].strip()
        return means_same(found, self.wanted)

    def why_not(self, answer: str) -> str:
        """What to tell of an answer that does not say so."""
        wanted = f"what fits {self.expect!r}" if self.expect else repr(self.wanted)
        return f"{self.query} answers {clean_text(answer)!r}, not {wanted}."

    def to_json(self) -> dict[str, str]:
        """For the journal; see ``from_json``."""
        return {"query": self.query, "wanted": self.wanted, "expect": self.expect}

    @classmethod
    def from_json(cls, stored: object) -> Proof | None:
        """What ``to_json`` gave; ``None`` for anything else."""
        if not isinstance(stored, dict):
            return None
        query, wanted, expect = (stored.get(name) for name in ("query", "wanted", "expect"))
        if not (isinstance(query, str) and isinstance(wanted, str) and isinstance(expect, str)):
            return None
        return cls(query, wanted, expect) if query else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the answers to all proofs of an abort show.

    Attributes:
        asked: {query, answer, is_as_wanted} of each question.
        off: the outputs that are shown to be off.
        error: what speaks against its having been obeyed; empty when nothing does.
    """

    asked: tuple[dict[str, Any], ...] = ()
    off: frozenset[str] = frozenset()
    error: str = ""


def questions_of(proofs: Sequence[Proof]) -> tuple[str, ...]:
    """What to ask for these proofs; an answer may serve several."""
    return tuple(dict.fromkeys(proof.query for proof in proofs))


def judge(proofs: Sequence[Proof], answers: Mapping[str, str]) -> Verdict:
    """What answers show; a question that was not answered shows nothing."""
    asked: dict[str, dict[str, Any]] = {}
    off: set[str] = set()
    errors: list[str] = []
    for proof in proofs:
        if proof.query not in answers:
            continue
        answer = answers[proof.query]
        is_so = proof.is_given_by(answer)
        told = asked.setdefault(
            proof.query,
            {"query": proof.query, "answer": clean_text(answer), "is_as_wanted": True},
        )
        if is_so:
            off.update(proof.outputs)
        else:
            told["is_as_wanted"] = False
            errors.append(proof.why_not(answer))
    return Verdict(
        asked=tuple(asked.values()),
        off=frozenset(off) - _contradicted(proofs, answers),
        error=" ".join(dict.fromkeys(errors)),
    )


def _contradicted(proofs: Sequence[Proof], answers: Mapping[str, str]) -> frozenset[str]:
    """Outputs of which some answer says that they are not off, whatever others say."""
    return frozenset(
        output
        for proof in proofs
        if proof.query in answers and not proof.is_given_by(answers[proof.query])
        for output in proof.outputs
    )


def proofs_of(profile: Profile, steps: Sequence[AbortStep]) -> tuple[Proof, ...]:
    """The questions for what these entries set; none where the profile has none.

    What an entry of the profile's own abort says of a line holds for a sweep's abort too.
    """
    said = {step.send: step for step in profile.abort if step.ask or step.is_unaskable}
    steps = [step if step.ask else said.get(step.send, step) for step in steps]
    headers = {step.send.strip().partition(" ")[0].upper() for step in steps if not step.ask}
    questions = list(dict.fromkeys(_questions(profile, headers)))
    found: list[Proof] = []
    for step in steps:
        outputs = tuple(told.output for told in tellings(step.send))
        if step.ask:
            found.append(Proof(step.ask, _value_of(step.send), step.expect, outputs))
        elif not step.is_unaskable:
            found += _derived(step.send, questions, outputs)
    kept = set(questions_of(found)[:MOST_QUESTIONS])
    return tuple(proof for proof in dict.fromkeys(found) if proof.query in kept)


def unproved_outputs(profile: Profile) -> tuple[str, ...]:
    """The outputs that the profile's abort switches off and of which nobody can ask."""
    proved = {output for proof in proofs_of(profile, profile.abort) for output in proof.outputs}
    return tuple(name for name in output_names(profile) if name not in proved)


def _value_of(line: str) -> str:
    return next((told.value for told in tellings(line)), "")


def _derived(line: str, questions: Sequence[str], outputs: tuple[str, ...]) -> Iterator[Proof]:
    header, _, told = line.strip().partition(" ")
    for question in questions:
        asked, _, about = question.partition(" ")
        if asked.upper() != f"{header.upper()}?":
            continue
        value = _beside(told.strip(), about.strip())
        if value is not None:
            yield Proof(question, value, "", outputs)
            return


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
