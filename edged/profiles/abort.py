"""What a profile can put out: the outputs that its abort switches off, and what lines tell them.

An output is what one line of ``abort`` makes safe: the header, and what stands beside the value
(``OUTP CH3`` of ``OUTP CH3,OFF``, ``AUXV 2`` of ``AUXV 2,0``). A line with the same header, the
same words beside and another value tells that output something. Pure.

How it can be seen that an abort was obeyed: the questions that a profile has for it. Pure.

An entry of ``abort`` may say itself what to ask. Where it does not, the profile is searched: a SCPI
setter and its query share a header, so what ``:OUTP CH1,OFF`` did, ``:OUTP? CH1`` tells; the answer
is compared with what the line said.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from edged.errors import EdgedError
from edged.patterns import found_in
from edged.profiles.model import AbortStep, Changes, Command, Parameter, Profile, Scalar
from edged.profiles.raw import KeptByProfile, RawPart
from edged.profiles.template import placeholders, possible_values, render, render_lines
from edged.scpi.answer_text import clean_text
from edged.scpi.line import Message, messages
from edged.scpi.numbers import number_with_suffix
from edged.scpi.words import sets_level, works_switch

__all__ = [
    "ANYTHING",
    "HARMLESS",
    "AbortVerdict",
    "OutputSetting",
    "Proof",
    "asked_about",
    "is_switching_off",
    "judge",
    "may_set",
    "means_same",
    "output_names",
    "outputs_of",
    "proofs_of",
    "questions_of",
    "selecting_lines",
    "switch_proofs",
    "tellings",
    "told_by",
    "told_raw",
    "unproved_outputs",
]

ANYTHING: Final = "*"
"""Stands for every output of a unit, where it is not known which one was told."""
TRUTHS: Final = {"ON": True, "1": True, "RUN": True, "OFF": False, "0": False, "STOP": False}
"""Tektronix scopes take ``ACQuire:STATE STOP`` and tell it as 0."""
HARMLESS: Final = frozenset({"*CLS", "*WAI", "*OPC", "*ESE", "*SRE", "*SAV", "*PSC"})
"""Common commands (IEEE 488.2) that set no output, though no profile need know them."""
_SELECTS: Final = re.compile(r"(?:INST|SYST|FORM|TRIG|ACQ|DISP|PROG|\*)", re.IGNORECASE)
"""Headers of an abort that prepare, select, or end a measurement: nothing is put out there."""
_CHOOSES: Final = re.compile(r":?INST", re.IGNORECASE)
"""SCPI's header for choosing the channel that what follows is about."""
_BARE_SWITCH: Final = re.compile(r"(OUT)([01])", re.IGNORECASE)
"""``OUT1`` and ``OUT0``: the value stands in the header."""
_CHANNELS: Final = re.compile(r"\(@([0-9]{1,3}):([0-9]{1,3})\)")
_MOST_CHANNELS: Final = 64


@dataclass(frozen=True, slots=True)
class OutputSetting:
    """One message that sets something: which output, and to what."""

    output: str
    value: str


def tellings(line: str) -> tuple[OutputSetting, ...]:
    """What a line sets, message by message; a channel list (``(@1:3)``) is so many outputs."""
    return tuple(told for message in messages(line) for told in _told(message))


def output_names(profile: Profile) -> tuple[str, ...]:
    """The outputs that the profile's abort makes safe, in its order."""
    return _made_safe(profile.abort)[0]


@lru_cache(maxsize=64)
def _made_safe(abort: tuple[AbortStep, ...]) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The outputs that an abort takes back, and what it tells each; asked at every write."""
    found = (
        told.output
        for step in abort
        if step.takes_back or is_switching_off(step.send)
        for told in tellings(step.send)
    )
    safe = {told.output: told.value for step in abort for told in tellings(step.send)}
    return tuple(dict.fromkeys(found)), safe


def is_switching_off(line: str) -> bool:
    """Whether a line of an abort takes an output back, and does more than end a measurement."""
    if works_switch(line):
        return True
    return any(told.value and _SELECTS.match(told.output) is None for told in tellings(line))


def told_by(profile: Profile, command: Command, lines: Sequence[str]) -> frozenset[str]:
    """The outputs that a command tells to put something out; ``ANYTHING`` where nobody knows.

    Args:
        lines: the command's own, rendered.
    """
    if command.is_safe or not command.is_write:
        return frozenset()
    if command.changes is Changes.ANY:
        return frozenset({ANYTHING})
    named = [step for step in profile.abort if command.name in step.takes_back]
    if named:
        return frozenset(told.output for step in named for told in tellings(step.send))
    known, safe = _made_safe(profile.abort)
    found = frozenset(
        told.output
        for line in lines
        for told in tellings(line)
        if told.output in known and not means_same(told.value, safe[told.output])
    )
    if not found and command.changes is Changes.OUTPUTS:
        return frozenset(known or {ANYTHING})
    if found or not command.is_dangerous or command.name in profile.abort_excludes:
        return found
    return frozenset({ANYTHING})


@KeptByProfile
def outputs_of(profile: Profile, name: str) -> frozenset[str]:
    """The outputs that a command can switch on, whatever its parameters are; levels apart."""
    command = profile.commands[name]
    choices = [_choices(one) or (_number(one),) for one in command.parameters.values()]
    found: set[str] = set()
    for case in itertools.islice(itertools.product(*choices), MOST_CASES):
        with contextlib.suppress(EdgedError):
            lines = render_lines(command, dict(zip(command.parameters, case, strict=True)))
            switching = [line for line in lines if not sets_level(line)]
            found |= told_by(profile, command, switching)
    return frozenset(found - {ANYTHING})


def _number(parameter: Parameter) -> Scalar:
    """A value of a parameter that has too many to try each; not the one that means "off"."""
    known = (parameter.max, parameter.min, parameter.default)
    return next((value for value in known if value), 1)


def told_raw(profile: Profile | None, parts: Sequence[RawPart]) -> frozenset[str]:
    """The outputs that a raw line sets; one that no profile knows may set any of them.

    An unknown query may switch something on, too. Of an instrument with nothing to switch off, and
    of one without a profile, queries are left out: nobody could ever ask about the mark.
    """
    found: frozenset[str] = frozenset()
    for part in parts:
        if not part.is_unknown:
            found |= _told_by_part(profile, part)
        elif _may_set(profile, part):
            found |= {ANYTHING}
    return found


def _may_set(profile: Profile | None, part: RawPart) -> bool:
    if part.is_query:
        return profile is not None and bool(output_names(profile))
    return any(map(may_set, messages(part.text))) or not part.text.isascii()


def _told_by_part(profile: Profile | None, part: RawPart) -> frozenset[str]:
    if profile is None:
        return frozenset()
    try:
        return frozenset().union(
            *(
                told_by(profile, match.command, render_lines(match.command, values))
                for match in part.matches
                for values in match.readings
            )
        )
    except EdgedError:
        # Another line of the command has what this one does not say.
        return frozenset({ANYTHING})


def may_set(message: Message) -> bool:
    """Whether a message that no profile knows could set something; a question sets nothing."""
    header = ":".join(message.nodes).upper()
    return bool(header) and not message.is_query and header not in HARMLESS


def means_same(one: str, other: str) -> bool:
    """Whether two words of the wire are the same truth, number or word."""
    one, other = one.strip().strip('"').upper(), other.strip().strip('"').upper()
    if one == other:
        return True
    if one in TRUTHS and other in TRUTHS:
        return TRUTHS[one] is TRUTHS[other]
    number, another = number_with_suffix(one), number_with_suffix(other)
    return number is not None and number == another


def _told(message: Message) -> Iterator[OutputSetting]:
    header = ":".join((*message.path, *message.nodes)).upper()
    if message.is_query or not header:
        return
    bare = _BARE_SWITCH.fullmatch(header)
    if bare is not None:
        yield OutputSetting(bare.group(1).upper(), bare.group(2))
        return
    arguments = message.arguments
    if not arguments:
        yield OutputSetting(header, "")
        return
    value, beside = arguments[-1], arguments[:-1]
    if beside and value.startswith("(@"):
        # "OFF,(@1)": the channel list stands behind.
        value, beside = arguments[0], arguments[1:]
    for channel in _channels(beside):
        yield OutputSetting(f"{header} {','.join(channel)}".strip(), value)


def _channels(beside: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    found = _CHANNELS.fullmatch(beside[-1]) if beside else None
    if found is None:
        yield tuple(word.upper() for word in beside)
        return
    first, last = int(found.group(1)), int(found.group(2))
    for number in range(first, min(last, first + _MOST_CHANNELS) + 1):
        yield (*(word.upper() for word in beside[:-1]), f"(@{number})")


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
class AbortVerdict:
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


def judge(proofs: Sequence[Proof], answers: Mapping[str, str]) -> AbortVerdict:
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
    return AbortVerdict(
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


def switch_proofs(steps: Sequence[AbortStep], proofs: Sequence[Proof]) -> tuple[Proof, ...]:
    """Of an abort's proofs those that tell of a switch; all of them where it works none.

    Where there is a switch, a level that was left set says nothing.
    """
    switches = {told.output for s in steps if works_switch(s.send) for told in tellings(s.send)}
    return tuple(p for p in proofs if switches & {*p.outputs}) or tuple(proofs)


def selecting_lines(steps: Sequence[AbortStep]) -> tuple[str, ...]:
    """What an abort chooses a channel by: its questions may be answered of the chosen one alone."""
    return tuple(dict.fromkeys(step.send for step in steps if _CHOOSES.match(step.send)))


def asked_about(proof: Proof) -> str:
    """``OUTP CH1`` for ``:OUTP? CH1``: what was asked about, as the instrument names it."""
    if proof.outputs:
        return " ".join(proof.outputs)
    return " ".join(proof.query.replace("?", "", 1).strip(" :").split())


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
        if command.is_write or len(command.scpi) != 1:
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
    parts = [part.strip().upper() for part in told.split(",")]
    named = [part.strip().upper() for part in about.split(",")]
    count = len(named)
    if parts[:count] == named:
        rest = told.split(",")[count:]
    elif named[0].startswith("(@") and parts[-count:] == named:
        # ``OFF,(@1)``: only a channel list stands behind, or ``2,0`` would set channel 0 to 2.
        rest = told.split(",")[:-count]
    else:
        return None
    return rest[0].strip() if len(rest) == 1 else None
