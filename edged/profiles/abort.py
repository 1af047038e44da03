"""What a profile can put out: the outputs that its abort switches off, and what lines tell them.

An output is what one line of ``abort`` makes safe: the header, and what stands beside the value
(``OUTP CH3`` of ``OUTP CH3,OFF``, ``AUXV 2`` of ``AUXV 2,0``). A line with the same header, the
same words beside and another value tells that output something. Pure.

How it can be seen that an abort was obeyed: the questions that a profile has for it. Pure.

An entry of ``abort`` may say itself what to ask. Where it does not, the profile is searched: a SCPI
setter and its query share a header, so what ``:OUTP CH1,OFF`` did, ``:OUTP? CH1`` tells; the answer
is compared with what the line said.

The order on the wire keeps two promises at once. Every line of an abort goes out before its first
question, because an output that is slow to answer must not keep the next one on. A question is
nevertheless about the channel that its own line was about: the selection that was in force there
(``INST:NSEL 1``, ``ADR 6``, ``CHAN 1``) is sent again right before it.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from edged.errors import EdgedError
from edged.patterns import found_in
from edged.profiles.model import AbortStep, Changes, Command, Parameter, Profile
from edged.profiles.raw import KeptByProfile, RawPart
from edged.profiles.template import placeholders, possible_values, render, render_lines
from edged.record import record
from edged.scpi.answer_text import TRUTH_WORDS, clean_text
from edged.scpi.line import Message, messages, split_compound
from edged.scpi.numbers import number_with_suffix
from edged.scpi.words import match_header, sets_level, works_switch
from edged.yaml.tree import Scalar

ANYTHING: Final = "*"
"""Stands for every output of a unit, where it is not known which one was told."""
TRUTHS: Final = {
    **{word.upper(): truth for word, truth in TRUTH_WORDS.items()},
    **{"1": True, "RUN": True, "0": False, "STOP": False},
}
"""Tektronix scopes take ``ACQuire:STATE STOP`` and tell it as 0."""
HARMLESS: Final = frozenset({"*CLS", "*WAI", "*OPC", "*ESE", "*SRE", "*SAV", "*PSC"})
"""Common commands (IEEE 488.2) that set no output, though no profile need know them."""
_SELECTS: Final = re.compile(r"(?:INST|SYST|FORM|TRIG|ACQ|DISP|PROG|\*)", re.IGNORECASE)
"""Headers of an abort that prepare, select, or end a measurement: nothing is put out there."""
_ADDRESSES: Final = re.compile(r":?ADD?R(?=\s|$)", re.IGNORECASE)
"""The header that chooses the unit of a shared port for what follows (TDK-Lambda Genesys)."""
_CHOOSES: Final = re.compile(
    rf":?(?:INST|CHAN(?:NEL)?(?=\s|$))|{_ADDRESSES.pattern}", re.IGNORECASE
)
"""The headers that choose the channel or the unit that what follows is about."""
_BARE_SWITCH: Final = re.compile(r"(OUT)([01])", re.IGNORECASE)
"""``OUT1`` and ``OUT0``: the value stands in the header."""
_ENDS_IN_NUMBER: Final = re.compile(
    r"([ \t]*[^\s;\"'#(,][^;\"'#(\r\n]*[ ,])([+-]?[0-9]+(?:\.[0-9]+)?)"
)
"""One message with a header, without quotes, blocks and lists, whose last argument is a number."""
ANY_NUMBER: Final = "7777777"
_CHANNELS: Final = re.compile(r"\(@([0-9]{1,3}):([0-9]{1,3})\)")
_MOST_CHANNELS: Final = 64


@record(kw_only=False)
class OutputSetting:
    """One message that sets something: which output, and to what."""

    output: str
    value: str


@lru_cache(maxsize=256)
def tellings(line: str) -> tuple[OutputSetting, ...]:
    """What a line sets, message by message; a channel list (``(@1:3)``) is so many outputs.

    A selection sets nothing.
    """
    found = _ENDS_IN_NUMBER.fullmatch(line)
    if found is None:
        return _tellings(line)
    # A ramp sets one thing to ever other numbers: the rest of its line is taken apart once.
    head, number = found.groups()
    settings: tuple[OutputSetting, ...] = ()
    for one in _tellings(head + ANY_NUMBER):
        value = number if one.value == ANY_NUMBER else one.value
        # A number without a header, or after another without a comma, is no value by itself.
        if ANY_NUMBER in one.output or ANY_NUMBER in value:
            return _tellings(line)
        settings += (OutputSetting(one.output, value),)
    return settings


@lru_cache(maxsize=256)
def _tellings(line: str) -> tuple[OutputSetting, ...]:
    return tuple(
        told
        for message in messages(line)
        if not is_selecting(message.text)
        for told in _told(message)
    )


def output_names(profile: Profile) -> tuple[str, ...]:
    """The outputs that the profile's abort makes safe, in its order."""
    return _made_safe(profile, "")[0]


@KeptByProfile
def _made_safe(profile: Profile, _of: str) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The outputs that the abort takes back, and what it tells each; asked at every write."""
    abort = profile.abort
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


@lru_cache(maxsize=256)
def is_selecting(line: str) -> bool:
    """Whether a line only chooses the channel or the unit that what follows is about."""
    return _CHOOSES.match(line) is not None


def select(selected: tuple[str, ...], line: str) -> tuple[str, ...]:
    """The selection in force after a line.

    Args:
        selected: the lines that made the selection in force before it.
    """
    for message in messages(line):
        if message.is_query or not is_selecting(message.text):
            continue
        addresses = tuple(filter(_ADDRESSES.match, selected))
        is_address = _ADDRESSES.match(message.text) is not None
        # The channel of one unit is not the channel of another.
        selected = (message.text,) if is_address else (*addresses, message.text)
    return selected


def told_by(profile: Profile, command: Command, lines: Sequence[str]) -> frozenset[str]:
    """The outputs that a command tells to put something out; ``ANYTHING`` where nobody knows.

    Args:
        lines: the command's own, rendered.
    """
    if command.is_safe or not command.is_write:
        return frozenset()
    if command.changes is Changes.ANY:
        return frozenset({ANYTHING})
    found: set[str] = set()
    is_named = False
    for step in profile.abort:
        if command.name in step.takes_back:
            is_named = True
            found.update(told.output for told in tellings(step.send))
    if is_named:
        return frozenset(found)
    known, safe = _made_safe(profile, "")
    for line in lines:
        for told in tellings(line):
            if told.output in known and not means_same(told.value, safe[told.output]):
                found.add(told.output)
    if not found and command.changes is Changes.OUTPUTS:
        return frozenset(known or {ANYTHING})
    if found or not command.is_dangerous or command.name in profile.abort_excludes:
        return frozenset(found)
    return frozenset({ANYTHING})


@KeptByProfile
def outputs_of(profile: Profile, name: str) -> frozenset[str]:
    """The outputs that a command can switch on, whatever its parameters are; levels apart."""
    return _outputs_told(profile, name, lambda line: not sets_level(line))


@KeptByProfile
def _outputs_set(profile: Profile, name: str) -> frozenset[str]:
    """The same with the levels that the abort takes back."""
    return _outputs_told(profile, name, lambda _line: True)


def _outputs_told(profile: Profile, name: str, counts: Callable[[str], bool]) -> frozenset[str]:
    command = profile.commands[name]
    choices = [_choices(one) or (_number(one),) for one in command.parameters.values()]
    found: set[str] = set()
    for case in itertools.islice(itertools.product(*choices), MOST_CASES):
        with contextlib.suppress(EdgedError):
            lines = render_lines(command, dict(zip(command.parameters, case, strict=True)))
            found |= told_by(profile, command, [line for line in lines if counts(line)])
    return frozenset(found - {ANYTHING})


def not_staying(
    profile: Profile | None, steps: Sequence[AbortStep], may_stay: Set[str]
) -> tuple[AbortStep, ...]:
    """The steps of an abort that are left where some commands' outputs may stay on.

    A step is left out if all that it takes back is what these commands set; one that takes back
    more, or of which nobody knows that (``*RST``), is not.

    Args:
        may_stay: the names of these commands.
    """
    if profile is None or not may_stay:
        return tuple(steps)
    names = may_stay & profile.commands.keys()
    outputs = frozenset[str]().union(*(_outputs_set(profile, name) for name in names))
    return tuple(step for step in steps if not _takes_back_only(step, names, outputs))


def _takes_back_only(step: AbortStep, names: Set[str], outputs: Set[str]) -> bool:
    if step.takes_back:
        return names >= set(step.takes_back)
    told = {told.output for told in tellings(step.send)}
    return bool(told) and outputs >= told


def _number(parameter: Parameter) -> Scalar:
    """A value of a parameter that has too many to try each; not the one that means "off"."""
    known = (parameter.max, parameter.min, parameter.default)
    return next((value for value in known if value), 1)


def told_raw(profile: Profile | None, parts: Sequence[RawPart]) -> frozenset[str]:
    """The outputs that a raw line sets; one that no profile knows may set any of them.

    An unknown query may switch something on, too, unless the profile has nothing to switch off.
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
        return profile is None or bool(output_names(profile))
    return any(may_set(message) or not message.is_formed for message in messages(part.text))


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
    if number is not None and another is not None:
        return number == another
    word, known = (one, another) if number is None else (other, number)
    # "+0" and "OFF": an integer of IEEE 488.2 (8.7.2) may have a sign.
    return known is not None and word in TRUTHS and TRUTHS[word] is bool(known)


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


def said_by(query: str, answer: str) -> str:
    """The value that an answer gives of the one setting that was queried.

    A response may repeat the header and what stands beside the value, in its long form, too
    (IEEE 488.2, 8.2), and have named details behind the value: ``C1:OUTP OFF,LOAD,HZ`` (Siglent).
    A list of values (``0,1``) is left as it is: its first one speaks of one output alone.
    """
    found = answer.strip()
    asked = next((message for message in messages(query) if message.is_query), None)
    header, _, rest = found.partition(" ")
    nodes = [node for node in header.split(":") if node]
    if asked is not None and rest and match_header((*asked.path, *asked.nodes), nodes) is not None:
        found = rest.strip()
        beside = ",".join(asked.arguments)
        if beside and found.upper().startswith(f"{beside.upper()},"):
            found = found[len(beside) + 1 :]
    value, *details = (piece.strip() for piece in found.split(","))
    has_names = bool(details) and details[0].isalpha() and details[0].upper() not in TRUTHS
    return (value if has_names else found).strip('"').upper()


@record(kw_only=False)
class Proof:
    """A question, and what its answer must be.

    Attributes:
        wanted: the same truth, number or word; or, for people, what the line said.
        expect: a pattern instead, where the profile gives one.
        outputs: which outputs such an answer shows to be off.
        selecting: the lines that make the selection under which the question is meant.
    """

    query: str
    wanted: str
    expect: str = ""
    outputs: tuple[str, ...] = ()
    selecting: tuple[str, ...] = ()

    @property
    def question(self) -> tuple[str, ...]:
        """The lines that ask it: the last one is the query, those before it select."""
        return (*self.selecting, self.query)

    @property
    def selects(self) -> bool:
        """Whether asking it selects something."""
        return bool(self.selecting) or any(map(is_selecting, split_compound(self.query)))

    @property
    def asked(self) -> str:
        """The question for people."""
        return "; ".join(self.question)

    def is_given_by(self, answer: str) -> bool:
        """Whether an answer says that the line was obeyed."""
        if self.expect:
            return found_in(answer.strip(), self.expect) is not None
        return means_same(said_by(self.query, answer), self.wanted)

    def value(self, answer: str) -> str:
        """What an answer says of the outputs, in the words of the line that switches them off."""
        if self.is_given_by(answer):
            return self.wanted
        said = said_by(self.query, answer)
        return "ON" if means_same(said, self.wanted) else said

    def why_not(self, answer: str) -> str:
        """Why an answer is no proof, for people."""
        wanted = f"what fits {self.expect!r}" if self.expect else repr(self.wanted)
        return f"{self.asked} answers {clean_text(answer)!r}, not {wanted}."

    def to_json(self) -> dict[str, Any]:
        """For the journal; see ``from_json``."""
        return {
            "query": self.query,
            "wanted": self.wanted,
            "expect": self.expect,
            "selecting": list(self.selecting),
        }

    @classmethod
    def from_json(cls, stored: object) -> Proof | None:
        """What ``to_json`` gave, now or before it knew selections; ``None`` for anything else."""
        if not isinstance(stored, dict):
            return None
        query, wanted, expect = (stored.get(name) for name in ("query", "wanted", "expect"))
        if not (isinstance(query, str) and isinstance(wanted, str) and isinstance(expect, str)):
            return None
        lines = stored.get("selecting", [])
        if not (query and isinstance(lines, list) and all(isinstance(line, str) for line in lines)):
            return None
        return cls(query, wanted, expect, selecting=tuple(lines))


@record
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


def judge(proofs: Sequence[Proof], answers: Sequence[str]) -> AbortVerdict:
    """What answers show: an output is off once every question about it was answered so.

    Args:
        answers: in the order of the proofs; there are fewer where the last ones were not answered.
    """
    asked: list[dict[str, Any]] = []
    errors: list[str] = []
    off = {output for proof in proofs for output in proof.outputs}
    for proof, answer in zip(proofs, answers, strict=False):
        is_so = proof.is_given_by(answer)
        asked.append(
            {"query": proof.asked, "answer": clean_text(answer), "is_as_wanted": is_so},
        )
        if not is_so:
            off.difference_update(proof.outputs)
            errors.append(proof.why_not(answer))
    for proof in proofs[len(answers) :]:
        off.difference_update(proof.outputs)
    return AbortVerdict(
        asked=tuple(asked), off=frozenset(off), error=" ".join(dict.fromkeys(errors))
    )


@record(kw_only=False)
class _Entry:
    """One entry of an abort, the selection in force at it, and the questions about its line."""

    step: AbortStep
    selecting: tuple[str, ...]
    proofs: tuple[Proof, ...]


def proofs_of(profile: Profile, steps: Sequence[AbortStep]) -> tuple[Proof, ...]:
    """The questions for what these entries set; none where the profile has none.

    What an entry of the profile's own abort says of a line holds for a sweep's abort too.
    Each entry has its own question, with the selection that was in force when its line was sent.
    A question that may be about another channel than its line was (``undecided``) is left out. An
    output whose name stands for several channels counts as proved only where each of them is.
    """
    entries = _entries(profile, steps)
    undecided_ones = _undecided(entries)
    found = dict.fromkeys(
        proof
        for index, entry in enumerate(entries)
        if index not in undecided_ones
        for proof in entry.proofs
    )
    kept = tuple(found)[:MOST_QUESTIONS]
    proved = {(proof.selecting, output) for proof in kept for output in proof.outputs}
    doubtful = {
        told.output
        for index, entry in enumerate(entries)
        for told in tellings(entry.step.send)
        if index in undecided_ones or (entry.selecting, told.output) not in proved
    }
    return tuple(
        replace(proof, outputs=tuple(one for one in proof.outputs if one not in doubtful))
        for proof in kept
    )


def undecided(profile: Profile, steps: Sequence[AbortStep]) -> tuple[int, ...]:
    """The entries whose question depends on a selection that only their place in the abort tells.

    All lines of an abort go out before its first question, so that no slow answer keeps another
    output on; the selection is then repeated before each question. That cannot be done where an
    entry stands before the first selection, where the same line is sent again after a line that may
    select something and is not known to, or where such a line with another value comes later.
    """
    return tuple(sorted(_undecided(_entries(profile, steps))))


def _undecided(entries: Sequence[_Entry]) -> frozenset[int]:
    found: set[int] = set()
    choosing = _choosing(entries)
    for index, entry in enumerate(entries):
        later = entries[index + 1 :]
        selects_later = any(len(one.selecting) > len(entry.selecting) for one in later)
        chooses_later = any(_headers_of(one.step.send) & choosing for one in later)
        depends = any(not is_selecting(proof.query) for proof in entry.proofs)
        if depends and (
            selects_later
            or chooses_later
            or _is_sent_elsewhere(entry, later)
            or _is_asked_elsewhere(entry, entries)
        ):
            found.add(index)
    return frozenset(found)


def _choosing(entries: Sequence[_Entry]) -> frozenset[str]:
    """The headers that may choose a channel though nobody knows them to: ``PORT 1``, ``PORT 2``.

    Each has one argument, which is another one in another line, and nothing asks about it.
    """
    said: dict[str, set[str]] = {}
    for entry in entries:
        for message in _settings_in(entry.step.send):
            if len(message.arguments) == 1:
                said.setdefault(_header(message), set()).add(message.arguments[0].strip().upper())
    asked = {
        header
        for entry in entries
        for proof in entry.proofs
        for header in map(_header, messages(proof.query))
    }
    return frozenset(
        header
        for header, values in said.items()
        if header not in asked
        and any(not means_same(one, other) for one, other in itertools.combinations(values, 2))
    )


def _settings_in(line: str) -> Iterator[Message]:
    """The messages of a line that set something and are not known to select."""
    return (
        message for message in messages(line) if may_set(message) and not is_selecting(message.text)
    )


def _headers_of(line: str) -> set[str]:
    return set(map(_header, _settings_in(line)))


def _header(message: Message) -> str:
    return ":".join((*message.path, *message.nodes)).upper()


def _is_asked_elsewhere(entry: _Entry, entries: Sequence[_Entry]) -> bool:
    """Whether another line has the same question, and one of the two says more than one thing."""
    questions = {proof.question for proof in entry.proofs}
    return any(
        other.step.send != entry.step.send
        and max(len(_headers_of(one.step.send)) for one in (entry, other)) > 1
        and any(proof.question in questions for proof in other.proofs)
        for other in entries
        if other is not entry
    )


def _is_sent_elsewhere(entry: _Entry, later: Sequence[_Entry]) -> bool:
    """Whether a line goes out again after one that may select something and is not known to."""
    may_be_elsewhere = False
    for other in later:
        if other.step.send == entry.step.send and other.selecting == entry.selecting:
            if may_be_elsewhere:
                return True
        elif not other.proofs and not is_selecting(other.step.send):
            header = other.step.send.strip().partition(" ")[0].upper()
            may_be_elsewhere |= header not in HARMLESS
    return False


def _entries(profile: Profile, steps: Sequence[AbortStep]) -> tuple[_Entry, ...]:
    steps = [step if step.ask else _as_said(profile, step) for step in steps]
    headers = {step.send.strip().partition(" ")[0].upper() for step in steps if not step.ask}
    questions = list(dict.fromkeys(_questions(profile, headers)))
    found: list[_Entry] = []
    selected: tuple[str, ...] = ()
    for step in steps:
        selected = select(selected, step.send)
        outputs = tuple(told.output for told in tellings(step.send))
        proofs: tuple[Proof, ...] = ()
        if step.ask:
            wanted = _value_of(step.send, step.ask)
            proofs = (Proof(step.ask, wanted, step.expect, outputs, selected),)
        elif not (step.is_unaskable or is_selecting(step.send)):
            proofs = tuple(_derived(step.send, questions, outputs, selected))
        found.append(_Entry(step, selected, proofs))
    return tuple(found)


def _as_said(profile: Profile, step: AbortStep) -> AbortStep:
    """The entry as the profile's own abort has it, where that says one thing about the line."""
    said = {
        (own.ask, own.expect): own
        for own in profile.abort
        if own.send == step.send and (own.ask or own.is_unaskable)
    }
    return next(iter(said.values())) if len(said) == 1 else step


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


def asked_about(proof: Proof) -> str:
    """``OUTP CH1`` for ``:OUTP? CH1``: what was asked about, as the instrument names it."""
    name = " ".join(proof.outputs) or " ".join(proof.query.replace("?", "", 1).strip(" :").split())
    return f"{name} ({'; '.join(proof.selecting)})" if proof.selecting else name


def _value_of(line: str, query: str) -> str:
    """The value that a line gives to what is asked about, where it says more than one thing."""
    asked = {_header(message) for message in messages(query) if message.is_query}
    told = tellings(line)
    about = (one.value for one in told if one.output.partition(" ")[0] in asked)
    return next(about, told[0].value if told else "")


def _derived(
    line: str, questions: Sequence[str], outputs: tuple[str, ...], selecting: tuple[str, ...]
) -> Iterator[Proof]:
    header, _, told = line.strip().partition(" ")
    for question in questions:
        asked, _, about = question.partition(" ")
        if asked.upper() != f"{header.upper()}?":
            continue
        value = _beside(told.strip(), about.strip())
        if value is not None:
            yield Proof(question, value, "", outputs, selecting)
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
