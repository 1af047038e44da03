"""What each unit was set to last, as far as this daemon knows: by what it set and what it asked.

For two things that a result says besides: what a setter replaced (``previous``), and that a
measurement is one of an output that is off (``notes``). Both are told or not told at all, never
guessed. What a write may change besides what it says (``effects``) is forgotten when it begins,
and nothing is remembered of writes that were under way side by side, or did not end well; a line
that was opened anew and raw lines that may set something leave nothing known. What a person turns
at the front panel nobody tells; what was asked last is then what is known.

Lives on the event loop.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from edged.actions.action import OutputQuestion
from edged.commands.effects import (
    NOBODY_KNOWS,
    Effect,
    Key,
    KnownSetting,
    Reach,
    after,
    asked,
    couples_channels,
    effects_of,
    effects_of_lines,
    is_measuring,
    reach_of,
    selected_by,
    value_name,
)
from edged.instruments.instrument import Instrument
from edged.profiles.abort import Proof, is_selecting, means_same, proofs_of, select
from edged.profiles.model import (
    Command,
    ImageAnswer,
    Parameter,
    Profile,
    ScalarAnswer,
    WaveformAnswer,
)
from edged.profiles.raw import RawPart, value_choices
from edged.profiles.template import render_lines
from edged.record import record
from edged.scpi.words import works_switch
from edged.yaml.tree import Scalar

MOST_KNOWN: Final = 256
_NUMBER: Final = re.compile(r"[0-9]+")
LATELY_MS: Final = 3_600_000
"""How long a dry run names the caller that set an output which is on."""
MOST_CASES: Final = 64
"""Channels of one question for which it is kept what switches them off."""


@record(kw_only=False)
class Use:
    """Who does or did something, and when in Unix epoch milliseconds."""

    who: str
    at_ms: int


@record(frozen=False, kw_only=False)
class _Unit:
    """Of one unit; ``values`` hold while its line stays open.

    ``writers``: who last set something of an output, by the key of its switch.
    ``has_raw_couplings``: a raw line may have made one channel follow another.
    """

    meeting: object
    values: dict[Key, KnownSetting] = field(default_factory=dict)
    under_way: list[Writing] = field(default_factory=list)
    writers: dict[Key, Use] = field(default_factory=dict)
    has_raw_couplings: bool = False


@record(frozen=False, kw_only=False, eq=False)
class Writing:
    """One write under way; ``previous`` is what its parameter was before it.

    Attributes:
        after: what is known once it is carried out.
        is_alone: no other was under way at any time of it.
    """

    unit: _Unit
    effects: tuple[KnownSetting, ...]
    previous: dict[str, Scalar]
    after: dict[Key, KnownSetting]
    is_alone: bool

    def done(self, readback: Scalar | None = None) -> None:
        """The instrument has taken it, and may have said what it holds now."""
        if not self.over():
            return
        told = self.after.get(self.effects[0].key) if len(self.effects) == 1 else None
        is_number = isinstance(readback, int | float) and not isinstance(readback, bool)
        if told is not None and is_number:
            key, effect, unit = told.key, told.effect, told.unit
            self.after[key] = KnownSetting(key, repr(readback), effect, unit)
        if len(self.after) <= MOST_KNOWN:
            self.unit.values = self.after

    def over(self) -> bool:
        """However it ended: unless it is done, nobody knows what came of it.

        Returns:
            Whether this is its end, and nobody else wrote meanwhile.
        """
        if self not in self.unit.under_way:
            return False
        self.unit.under_way.remove(self)
        return self.is_alone


class Remembering:
    """What is remembered of one exchange, from when it is put on its line to its end.

    Args:
        begins: ``None`` where it writes nothing.
    """

    __slots__ = ("_begins", "writing")

    def __init__(self, begins: Callable[[], Writing | None]) -> None:
        self._begins = begins
        self.writing: Writing | None = None

    def begin(self) -> None:
        """It is put on its line."""
        self.writing = self._begins()

    def over(self) -> None:
        """It has ended, however that was."""
        if self.writing is not None:
            self.writing.over()


def _nothing() -> None:
    return


HeardOn = Callable[[Instrument, str], None]
"""The unit, and the output by the name that marks of what was told on have."""


NOTHING_REMEMBERED: Final = Remembering(_nothing)


@record(kw_only=False)
class _Switch:
    """What switches off what is measured; ``name`` is what it is called to people."""

    key: Key
    off: str
    name: str


@record(kw_only=False)
class _Question:
    """What a command of a profile has to do with settings and outputs.

    Attributes:
        profile: keeps its id from meaning another.
        sets: it sets how it measures; it sets no output.
        answers: what its answer is known as, but for the key; ``None`` where it measures, or
            answers in other words than the setter's.
        measures: its answer is something measured.
        switches: the commands that switch off what it is about, and no more than that.
        cases: what they work, by the values of the parameters ``names``.
    """

    profile: Profile
    sets: bool
    answers: KnownSetting | None
    measures: bool
    switches: tuple[Command, ...]
    names: tuple[str, ...]
    cases: dict[tuple[Scalar | None, ...], tuple[_Switch, ...]] = field(default_factory=dict)

    def switches_of(self, values: Mapping[str, Scalar]) -> tuple[_Switch, ...]:
        """What switches off what is measured with these values."""
        if not self.switches:
            return ()
        case = tuple(map(values.get, self.names))
        found = self.cases.get(case)
        if found is None:
            if len(self.cases) >= MOST_CASES:
                self.cases.clear()
            found = self.cases[case] = tuple(dict.fromkeys(_switches(self.switches, values)))
        return found


class Memory:
    """What is known of all units, by their ids.

    Args:
        heard_on: told of each output of the abort that was asked for and has answered that it is
            not off: whoever has switched it on.
    """

    def __init__(self, heard_on: HeardOn) -> None:
        self._heard_on = heard_on
        self._units: dict[str, _Unit] = {}
        # By the id of the profile, and the command's name.
        self._questions: dict[tuple[int, str], _Question] = {}
        self._reaches: dict[int, tuple[Profile, Reach]] = {}
        # What proves an abort, and the questions of that.
        self._proofs: dict[int, tuple[Profile, tuple[Proof, ...], frozenset[tuple[str, ...]]]] = {}

    def begin(self, instrument: Instrument, command: Command, lines: Sequence[str]) -> Writing:
        """A command that may set something is about to be sent; its end is to be told."""
        effects = effects_of(command, lines)
        unit = self._unit(instrument)
        previous: dict[str, Scalar] = {}
        if not unit.under_way:
            previous = _previous(command, effects, unit.values)
        return self._begin(instrument, unit, effects, previous)

    def begin_abort(self, instrument: Instrument, lines: Sequence[str]) -> Writing:
        """The lines of an abort are about to be sent; the same."""
        return self._begin(instrument, self._unit(instrument), effects_of_lines(lines), {})

    def begin_raw(self, instrument: Instrument, parts: Sequence[RawPart]) -> Writing | None:
        """A raw line is about to be sent; ``None`` where it only asks.

        Args:
            parts: its messages; none where there is no profile, so that nothing is remembered.
        """
        if all(part.is_harmless for part in parts):
            return None
        unit = self._unit(instrument)
        unit.has_raw_couplings |= any(couples_channels(part.text) for part in parts)
        return self._begin(instrument, unit, (NOBODY_KNOWS,), {})

    def learns_from(self, instrument: Instrument, command: Command, lines: Sequence[str]) -> bool:
        """Whether a question or its answer can change what is known, as the profile has it."""
        question = self._question(instrument, command)
        if question.sets or question.answers is not None or instrument.profile is None:
            return True
        return tuple(lines) in self._proofs_of(instrument.profile)[1]

    def begin_question(self, instrument: Instrument, command: Command) -> None:
        """A question is about to be sent that may set how it measures."""
        unit = self._units.get(instrument.id)
        if unit is not None and unit.values and self._question(instrument, command).sets:
            unit.values = _switches_among(unit.values)

    def heard(
        self, instrument: Instrument, command: Command, lines: Sequence[str], data: Any
    ) -> None:
        """What a question was answered by, in the caller's terms."""
        question = self._question(instrument, command)
        if question.sets:
            self.begin_question(instrument, command)
        elif question.answers is not None and data is not None:
            text = str(int(data)) if isinstance(data, bool) else str(data)
            key = asked(lines[-1])
            if key is not None:
                self._remember(instrument, replace(question.answers, key=key, text=text))

    def heard_answers(
        self, instrument: Instrument, questions: Sequence[OutputQuestion], answers: Sequence[str]
    ) -> None:
        """What an instrument answered when it was asked about its outputs.

        Args:
            answers: in the order of the questions; there may be fewer.
        """
        said: dict[Key, str] = {}
        for question, answer in zip(questions, answers, strict=False):
            *selecting, query = question.question
            setting = asked(query)
            selected = selected_by(select(tuple(selecting), query))
            for output in question.outputs or ((setting[1],) if setting is not None else ()):
                # One name may stand for several outputs: it is off if no answer says otherwise.
                if not (question.is_given_by(answer) and (selected, output) in said):
                    said[selected, output] = question.value(answer)
        for key, text in said.items():
            self._remember(instrument, KnownSetting(key, text, Effect.SWITCH))

    def heard_output(
        self, instrument: Instrument, lines: Sequence[str], answer: str | None
    ) -> bool:
        """What anybody's query was answered, if it is one by which an abort is proved.

        Returns:
            Whether it is such a query.
        """
        if instrument.profile is None or answer is None:
            return False
        proofs, questions = self._proofs_of(instrument.profile)
        asked = tuple(lines)
        if asked not in questions:
            return False
        mine = [proof for proof in proofs if proof.question == asked]
        others = {(p.selecting, name) for p in proofs if p not in mine for name in p.outputs}
        # Where several queries are about outputs of one name, a single answer shows none to be off.
        known = [
            proof
            for proof in mine
            if not proof.is_given_by(answer)
            or not any((proof.selecting, name) in others for name in proof.outputs)
        ]
        self.heard_answers(instrument, known, [answer] * len(known))
        return True

    def notes(
        self, instrument: Instrument, command: Command, values: Mapping[str, Scalar]
    ) -> list[str]:
        """That what was measured is off, where that is known."""
        unit = self._units.get(instrument.id)
        if unit is None or not unit.values or unit.meeting != instrument.meeting:
            return []
        question = self._question(instrument, command)
        switches = question.switches_of(values) if question.measures else ()
        return [f"{one.name} is off" for one in switches if _is_off(unit, one) is True]

    def measures_on(
        self, instrument: Instrument, command: Command, values: Mapping[str, Scalar]
    ) -> bool:
        """Whether a command measures something that is known to be on."""
        unit = self._units.get(instrument.id)
        if unit is None or not unit.values or unit.meeting != instrument.meeting:
            return False
        question = self._question(instrument, command)
        if not question.measures:
            return False
        off = {_is_off(unit, switch) for switch in question.switches_of(values)}
        return False in off and True not in off

    def outputs(
        self, instrument: Instrument, command: Command, values: Mapping[str, Scalar]
    ) -> list[str]:
        """Whether the outputs that a command is about are on, of those where that is known."""
        unit, profile = self._units.get(instrument.id), instrument.profile
        if unit is None or profile is None or unit.meeting != instrument.meeting:
            return []
        told = {
            switch.name: is_off
            for switch in self._question(instrument, command).switches_of(values)
            if (is_off := _is_off(unit, switch)) is not None
        }
        return [f"{name} is {'off' if is_off else 'on'}" for name, is_off in told.items()]

    def note_writer(
        self, instrument: Instrument, command: Command, values: Mapping[str, Scalar], use: Use
    ) -> None:
        """Somebody has set something of the outputs that a command is about."""
        if instrument.profile is None:
            return
        writers = (self._units.get(instrument.id) or self._unit(instrument)).writers
        for switch in self._question(instrument, command).switches_of(values):
            if len(writers) >= MOST_KNOWN:
                writers.clear()
            writers[switch.key] = use

    def set_by_others(
        self, instrument: Instrument, command: Command, values: Mapping[str, Scalar], use: Use
    ) -> list[tuple[str, Use]]:
        """The outputs that a command is about, are on and were set by somebody else lately."""
        unit = self._units.get(instrument.id)
        if unit is None or unit.meeting != instrument.meeting or not unit.writers:
            return []
        found: dict[str, Use] = {}
        for switch in self._question(instrument, command).switches_of(values):
            last = unit.writers.get(switch.key)
            if last is None or last.who == use.who or _is_off(unit, switch) is not False:
                continue
            if use.at_ms - last.at_ms < LATELY_MS:
                found[switch.name] = last
        return list(found.items())

    def is_off(self, instrument: Instrument, outputs: Collection[str]) -> bool:
        """Whether these are known to be off.

        Args:
            outputs: by the names that marks of what was told on have; of one that is no switch of
                the abort, all switches must be.
        """
        unit, profile = self._units.get(instrument.id), instrument.profile
        if unit is None or profile is None or unit.meeting != instrument.meeting:
            return False
        switches = list(_switched_off(profile.abort_lines))
        if {one.key[1] for one in switches} >= set(outputs):
            switches = [one for one in switches if one.key[1] in outputs]
        known = [unit.values.get(one.key) for one in switches]
        return bool(switches) and all(
            found is not None and means_same(found.text, one.text)
            for found, one in zip(known, switches, strict=True)
        )

    def _begin(
        self,
        instrument: Instrument,
        unit: _Unit,
        effects: tuple[KnownSetting, ...],
        previous: dict[str, Scalar],
    ) -> Writing:
        reach = self._reach(instrument)
        if reach is Reach.ITSELF and unit.has_raw_couplings:
            reach = Reach.ALL_NUMBERS
        known = after(unit.values, effects, reach)
        unit.values = known.copy()
        for one in effects:
            unit.values.pop(one.key, None)
        for other in unit.under_way:
            other.is_alone = False
        writing = Writing(unit, effects, previous, known, is_alone=not unit.under_way)
        unit.under_way.append(writing)
        return writing

    def _remember(self, instrument: Instrument, known: KnownSetting) -> None:
        unit = self._unit(instrument)
        if unit.under_way or len(unit.values) > MOST_KNOWN:
            return
        unit.values[known.key] = known
        if known.effect is Effect.SWITCH:
            self._look_whether_on(instrument, known.key, known.text)

    def _look_whether_on(self, instrument: Instrument, key: Key, text: str) -> None:
        lines = instrument.profile.abort_lines if instrument.profile is not None else ()
        off = next((one for one in _switched_off(lines) if one.key == key), None)
        if off is not None and not means_same(text, off.text):
            self._heard_on(instrument, key[1])

    def _unit(self, instrument: Instrument) -> _Unit:
        unit = self._units.get(instrument.id)
        if unit is None:
            unit = self._units[instrument.id] = _Unit(instrument.meeting)
        elif unit.meeting != instrument.meeting:
            unit.meeting = instrument.meeting
            unit.values = {}
            for writing in unit.under_way:
                writing.is_alone = False
        return unit

    def _reach(self, instrument: Instrument) -> Reach:
        profile = instrument.profile
        known = self._reaches.get(id(profile))
        if known is not None and known[0] is profile:
            return known[1]
        reach = reach_of(profile)
        if profile is None:
            return reach
        lines = (line for command in profile.commands.values() for line in command.scpi)
        if reach is Reach.ITSELF and any(map(couples_channels, lines)):
            reach = Reach.ALL_NUMBERS
        _make_room(self._reaches)
        self._reaches[id(profile)] = (profile, reach)
        return reach

    def _proofs_of(self, profile: Profile) -> tuple[tuple[Proof, ...], frozenset[tuple[str, ...]]]:
        known = self._proofs.get(id(profile))
        if known is None or known[0] is not profile:
            _make_room(self._proofs)
            proofs = proofs_of(profile, profile.abort)
            questions = frozenset(proof.question for proof in proofs)
            known = self._proofs[id(profile)] = profile, proofs, questions
        return known[1], known[2]

    def _question(self, instrument: Instrument, command: Command) -> _Question:
        profile = instrument.profile
        if profile is None:
            raise TypeError(f"{command.name} is a command of no profile")
        key = (id(profile), command.name)
        question = self._questions.get(key)
        if question is None or question.profile is not profile:
            _make_room(self._questions)
            question = self._questions[key] = _question(profile, command)
        return question


@functools.lru_cache(maxsize=64)
def _switched_off(abort_lines: tuple[str, ...]) -> tuple[KnownSetting, ...]:
    """The switches that an abort works."""
    return tuple(one for one in effects_of_lines(abort_lines) if one.effect is Effect.SWITCH)


def _make_room(kept: dict[Any, Any]) -> None:
    """Profiles come and go; what is forgotten is found again."""
    if len(kept) >= MOST_KNOWN:
        kept.clear()


def _question(profile: Profile, command: Command) -> _Question:
    is_block = isinstance(command.returns, WaveformAnswer | ImageAnswer)
    sets = is_block or any("?" not in line and not is_selecting(line) for line in command.scpi)
    measures = command.is_query and bool(command.scpi) and is_measuring(command.scpi[-1])
    switches = _switching_off(profile, command)
    names = tuple({name: None for other in switches for name in other.parameters})
    answers = None if is_block else _answers(command)
    return _Question(profile, sets, answers, measures, switches, names)


def _switching_off(profile: Profile, command: Command) -> tuple[Command, ...]:
    """The commands that switch off what a command is about, and no more than that."""
    return tuple(
        other
        for other in profile.commands.values()
        if other.is_safe
        and any(map(works_switch, other.scpi))
        and other.parameters.keys() <= command.parameters.keys()
    )


def _is_off(unit: _Unit, switch: _Switch) -> bool | None:
    """``None`` where nobody knows."""
    known = unit.values.get(switch.key)
    return None if known is None else means_same(known.text, switch.off)


def _answers(command: Command) -> KnownSetting | None:
    answer = command.returns
    if len(command.scpi) != 1 or command.is_write or not isinstance(answer, ScalarAnswer):
        return None
    # What is scaled or has a label is not what the setter's line says.
    if answer.map or answer.scale or is_measuring(command.scpi[0]):
        return None
    is_switch = works_switch(command.scpi[0].replace("?", "", 1))
    return KnownSetting(("", ""), "", Effect.SWITCH if is_switch else Effect.NUMBER, answer.unit)


def _switches(commands: Sequence[Command], values: Mapping[str, Scalar]) -> Iterator[_Switch]:
    """What these work; of one channel's where there is such a one, and else of all together."""
    for off in commands:
        if not off.parameters.keys() <= values.keys():
            continue
        lines = render_lines(off, {name: values[name] for name in off.parameters})
        told = [one for one in effects_of_lines(lines) if one.effect is Effect.SWITCH]
        if len(told) == 1 or "channel" not in values:
            yield from (_Switch(one.key, one.text, _name(one.key, values)) for one in told)


def _name(key: Key, values: Mapping[str, Scalar]) -> str:
    selected, output = key
    kind = "input" if "INP" in output.partition(" ")[0] else "output"
    numbers = _NUMBER.findall(f"{selected} {output}")
    if "channel" in values:
        numbers = [number for number in numbers if number == str(values["channel"])]
    return f"{kind} {numbers[-1]}" if numbers else f"the {kind}"


def _previous(
    command: Command, effects: Sequence[KnownSetting], known: Mapping[Key, KnownSetting]
) -> dict[str, Scalar]:
    """What a setter replaces, as its parameters have it; of each line of its own that sets one."""
    setting = list(itertools.filterfalse(is_selecting, command.scpi))
    if len(setting) != len(effects):
        return {}
    found: dict[str, Scalar] = {}
    for template, told in zip(setting, effects, strict=True):
        name = value_name(template)
        if name and told.text and told.key in known:
            found.update(_replaced(name, command.parameters[name], known[told.key]))
    return found


def _replaced(name: str, parameter: Parameter, known: KnownSetting) -> dict[str, Scalar]:
    # A line may be two commands': volts by one, amperes by the other.
    if known.unit and parameter.unit and known.unit != parameter.unit:
        return {}
    choices = value_choices(parameter, known.text)
    return {name: choices[0]} if len(choices) == 1 else {}


def _switches_among(values: Mapping[Key, KnownSetting]) -> dict[Key, KnownSetting]:
    return {key: known for key, known in values.items() if known.effect is Effect.SWITCH}
