"""What a careful reader would say about a profile that the loader takes.

The loader refuses what cannot work; lint finds what works and should not be shipped: a source that
nobody can switch off, a danger that is not marked, a limit whose unit must be guessed. Findings are
values; printing and exit statuses are the command line's.

Whether a profile's templates switch something on; how lint knows danger that nobody marked.

The words themselves are in ``scpi.words``; here are the parameters that may stand for them.

What lint finds, as values with a place.

Lint of ``abort``: whatever can be put out is taken back, and whatever can be asked is asked.

What a command puts out is known by four signs: its mark (``is_dangerous``), a line that works an
output switch, a line that sets how much is put out, and that it can be swept. The first two must
find their own line in ``abort``, with the same header and the same words beside the value, for
every channel. A level behind a switch is taken back by the switch.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final, Literal

from edged.errors import EdgedError
from edged.patterns import found_in
from edged.profiles.abort import (
    is_switching_off,
    output_names,
    proofs_of,
    tellings,
    undecided,
    unproved_outputs,
)
from edged.profiles.addressed import ADDRESS, PLACEHOLDER, names_address
from edged.profiles.expr import names_in
from edged.profiles.format.commands import templates_of
from edged.profiles.headers import questions, step_questions
from edged.profiles.library import ProfileLibrary
from edged.profiles.match import find_profile
from edged.profiles.model import (
    AbortStep,
    BitsAnswer,
    Changes,
    Command,
    CommandStep,
    Connection,
    Parameter,
    ParameterType,
    Profile,
    RowStep,
    ScalarAnswer,
    Sequence,
    walk,
)
from edged.profiles.naming import SHORT_LENGTH, sequence_tool_name, tool_name
from edged.profiles.raw import identify, question_by_heart
from edged.profiles.template import (
    Optional,
    Text,
    parse_template,
    placeholders,
    possible_values,
    render,
)
from edged.record import record
from edged.schema.fields import nearest
from edged.scpi.kinds import AnswerType
from edged.scpi.words import (
    asks_idn,
    is_on,
    is_recalling,
    sets_auxiliary_level,
    sets_level,
    side_effect,
    switches_on,
    why_not_on_connect,
    why_not_on_release,
    works_switch,
)
from edged.yaml.tree import Mark, Scalar


def is_energising(template: str, parameters: Mapping[str, Parameter]) -> bool:
    """Whether a line may switch something on, with the values that its parameters can have."""
    return switches_on(template, lambda name: _can_be_on(parameters.get(name)))


def _can_be_on(parameter: Parameter | None) -> bool:
    """Whether one of the values that may stand there means "on"."""
    if parameter is None:
        return False
    if parameter.type is ParameterType.BOOL:
        return True
    if parameter.type is ParameterType.ENUM:
        words = [str(parameter.map.get(label, label)) for label in parameter.options]
        return any(map(is_on, words))
    return False


def is_output_command(command: Command) -> bool:
    """Whether a command does nothing but work output switches, on or off."""
    return not command.is_query and all(map(works_switch, command.scpi))


Severity = Literal["error", "warning"]


@record
class Finding:
    """One thing to mend; ``error`` must not be shipped, ``warning`` wants a second look."""

    path: str
    line: int
    column: int
    severity: Severity
    message: str
    suggestion: str = ""

    @property
    def sentence(self) -> str:
        """All of it, as a compiler writes it."""
        text = f"{self.path}:{self.line}:{self.column}: {self.severity}: {self.message}"
        return f"{text} {self.suggestion}".strip()


@record(kw_only=False)
class LintPlace:
    """Makes findings of one profile, by dotted path."""

    profile: Profile

    def error(self, path: str, message: str, suggestion: str = "") -> Finding:
        """What must be mended; ``path`` is dotted, and the nearest place around it is taken."""
        return self._finding(path, "error", message, suggestion)

    def warning(self, path: str, message: str, suggestion: str = "") -> Finding:
        """What wants a second look."""
        return self._finding(path, "warning", message, suggestion)

    def _finding(self, path: str, severity: Severity, message: str, suggestion: str) -> Finding:
        while path and path not in self.profile.marks:
            path = path.rpartition(".")[0]
        start = Mark(path=self.profile.source_path, line=1, column=1)
        mark = self.profile.marks.get(path, start)
        return Finding(
            path=mark.path,
            line=mark.line,
            column=mark.column,
            severity=severity,
            message=message.replace(ADDRESS, PLACEHOLDER),
            suggestion=suggestion,
        )


MOST_CASES: Final = 64
"""Combinations of a command's arguments that are looked at; channels come to fewer."""
SWITCHED: Final = frozenset(
    {
        "power_supply", "smu", "source_meter", "function_generator", "signal_generator",
        "electronic_load", "calibrator", "current_source", "voltage_source", "amplifier",
    }
)  # fmt: skip
"""Classes whose levels all stand behind their output switches."""
_SELECTS: Final = re.compile(r":?INST", re.IGNORECASE)
REMEDY: Final = (
    "Add to abort the line that takes it back, or name the command under abort_excludes with the "
    "reason why that is not needed."
)


def lint_abort(profile: Profile, _library: ProfileLibrary, place: LintPlace) -> Iterator[Finding]:
    """See the module."""
    taken_back = {name for step in profile.abort for name in step.takes_back}
    for command in profile.commands.values():
        if command.is_safe or command.name in {*profile.abort_excludes, *taken_back}:
            continue
        path = f"commands.{command.name}"
        for line in _not_taken_back(profile, command):
            message = f'{command.name} sends "{line}", and abort does not take that back.'
            yield place.error(path, message, REMEDY)
            break
        else:
            yield from _loose_level(profile, command, place)
    yield from _unasked(profile, place)


def _not_taken_back(profile: Profile, command: Command) -> Iterator[str]:
    """Lines that put something out for some channel, with no line of abort for it."""
    known = set(output_names(profile))
    switches = [line for line in command.scpi if is_energising(line, command.parameters)]
    if switches:
        for template in switches:
            for line in _renderings(template, command):
                if not any(told.output in known for told in tellings(line)):
                    yield line
    elif command.changes is Changes.OUTPUTS:
        # Whichever output it switches on, abort switches off each that there is.
        if not known:
            yield command.scpi[-1]
    elif command.is_dangerous and not any(map(sets_level, command.scpi)):
        for lines in _cases(command):
            if not any(told.output in known for line in lines for told in tellings(line)):
                yield lines[-1]


def _loose_level(profile: Profile, command: Command, place: LintPlace) -> Iterator[Finding]:
    """A level that nothing of abort takes back: neither itself, nor a switch behind which it is."""
    levels = [line for line in command.scpi if sets_level(line)]
    if not command.is_write or not (levels or command.sweep):
        return
    sweep, is_auxiliary = command.sweep, any(map(sets_auxiliary_level, levels))
    own = sweep.abort if sweep is not None else ()
    is_swept = bool(own) or (sweep is not None and profile.instrument_class not in SWITCHED)
    if is_swept and not is_auxiliary and _is_taken_back(profile, command, own):
        return
    loose = next(_loose_lines(profile, command, levels or command.scpi[-1:]), "")
    if loose:
        message = f'{command.name} sets a level by "{loose}", and abort does not take that back.'
        yield place.error(f"commands.{command.name}", message, REMEDY)


def _loose_lines(profile: Profile, command: Command, levels: Collection[str]) -> Iterator[str]:
    """The lines that set a level and that neither abort nor one of its switches takes back."""
    known = set(output_names(profile))
    roots = {_root(name) for name in known if works_switch(name + " ")}
    off = _switched_off(profile) if profile.instrument_class in SWITCHED else frozenset()
    for lines in _cases(command):
        selected: frozenset[str] = frozenset()
        for template, line in zip(command.scpi, lines, strict=True):
            if _SELECTS.match(line):
                selected = _numbers(line)
            if template not in levels:
                continue
            is_auxiliary = sets_auxiliary_level(line)
            for told in tellings(line):
                channel = _numbers(told.output) or selected
                is_switched = off is None or bool(off and channel <= off)
                is_loose = told.output not in known and _root(told.output) not in roots
                if is_loose and (is_auxiliary or not is_switched):
                    yield line


def _switched_off(profile: Profile) -> frozenset[str] | None:
    """The numbers of the channels whose switches abort works; ``None``: one works for all."""
    found: frozenset[str] = frozenset()
    selected: frozenset[str] = frozenset()
    for line in profile.abort_lines:
        if _SELECTS.match(line):
            selected = _numbers(line)
        elif works_switch(line):
            for told in tellings(line):
                numbers = _numbers(told.output) or selected
                if not numbers:
                    return None
                found |= numbers
    return found


def _numbers(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[0-9]+", text))


def _root(output: str) -> str:
    """``BIAS`` of ``BIAS:STAT``: a level of the same tree stands behind its switch."""
    header = output.partition(" ")[0]
    return next((node for node in header.split(":") if not node.startswith("SOUR")), header)


def _is_taken_back(profile: Profile, command: Command, abort: tuple[AbortStep, ...]) -> bool:
    """Whether the profile's abort has what a sweep's own abort does, for every channel."""
    if not abort:
        return bool(output_names(profile))
    lines = {line for step in abort for line in _renderings(step.send, command)}
    return lines <= set(profile.abort_lines) and any(map(is_switching_off, lines))


def _unasked(profile: Profile, place: LintPlace) -> Iterator[Finding]:
    """What could be asked, and is not."""
    unproved = set(unproved_outputs(profile))
    sweeps = {
        f"commands.{name}.sweep.abort": command.sweep.abort
        for name, command in profile.commands.items()
        if command.sweep is not None
    }
    for path, steps in {"abort": profile.abort, **sweeps}.items():
        for index in undecided(profile, steps):
            message = (
                f'The question whether "{steps[index].send}" was obeyed depends on a selection '
                "that edged cannot repeat, so it is not asked."
            )
            remedy = (
                "Select its channel in an entry before it, by INST, CHAN or ADR, or ask a query "
                "that names the channel."
            )
            yield place.warning(f"{path}.{index}", message, remedy)
    for index, step in enumerate(profile.abort):
        path = f"abort.{index}"
        outputs = {told.output for told in tellings(step.send)}
        if step.is_unaskable:
            plain = proofs_of(replace(profile, abort=()), (AbortStep(send=step.send),))
            if plain:
                message = f'abort says that no query exists for "{step.send}", but the profile '
                yield place.warning(path, f'{message}has "{plain[0].query}".')
        elif (step.takes_back or is_switching_off(step.send)) and outputs <= unproved:
            message = f'Nothing asks whether "{step.send}" was obeyed.'
            remedy = (
                "Add the query as a command, or write {send, ask, expect}; ask: none where the "
                "instrument cannot tell."
            )
            yield place.warning(path, message, remedy)


def _cases(command: Command) -> Iterator[tuple[str, ...]]:
    """All lines of the command, for every channel."""
    return zip(*(list(_renderings(line, command)) for line in command.scpi), strict=False)


def _renderings(template: str, command: Command) -> Iterator[str]:
    """The line for every channel; a number that is no channel stands at its largest."""
    parameters = command.parameters
    choices = [_choices(parameter) for parameter in parameters.values()]
    for case in itertools.islice(itertools.product(*choices), MOST_CASES):
        try:
            yield render(template, parameters, dict(zip(parameters, case, strict=True))).strip()
        except EdgedError:
            continue


def _choices(parameter: Parameter) -> list[Scalar]:
    known = list(possible_values(parameter) or ())
    if known:
        return known
    if parameter.max is not None:
        return [parameter.max]
    return [1 if parameter.min is None else parameter.min]


MOST_ESSENTIAL: Final = 8
LONGEST_TOOL_NAME: Final = 64
_SOURCE_CLASSES: Final = frozenset(
    {
        "power_supply", "smu", "source_meter", "function_generator", "signal_generator",
        "electronic_load", "calibrator", "current_source", "voltage_source", "amplifier",
        "temperature_controller", "lcr_meter",
    }
)  # fmt: skip
_CLASSES: Final = _SOURCE_CLASSES | {
    "multimeter", "oscilloscope", "lock_in", "spectrum_analyzer", "network_analyzer",
    "logic_analyzer", "frequency_counter", "power_meter", "switch", "data_logger",
    "electrometer", "thermometer", "other",
}  # fmt: skip


def lint_profile(profile: Profile, library: ProfileLibrary) -> tuple[Finding, ...]:
    """Everything that lint has to say, in the order of the file.

    Args:
        profile: as the loader made it, its family merged in.
        library: the profiles that stand beside it; it may be among them.
    """
    place = LintPlace(profile)
    found = [
        replace(finding, severity="warning")
        if profile.is_imported and rule in OF_A_REVIEW
        else finding
        for rule in RULES
        for finding in rule(profile, library, place)
    ]
    if profile.is_imported:
        message = "The profile is imported: nobody has compared it with the manual."
        remedy = (
            "When you have, write status: reviewed; what is a warning until then must be mended."
        )
        found.append(place.warning("status", message, remedy))
    return tuple(sorted(found, key=lambda f: (f.path, f.line, f.column, f.message)))


def _lint_examples(
    profile: Profile, library: ProfileLibrary, place: LintPlace
) -> Iterator[Finding]:
    """Real answers match this profile and no other, and its pattern none of the others'."""
    if not profile.match.idn:
        yield from _lint_naming(profile, place)
        return
    if not profile.match.examples:
        yield place.error("match", "There is no example of an *IDN? answer.", "Add match.examples.")
    # An imported one never goes before a reviewed one, so that it takes nothing from it.
    others = [
        other
        for key, other in library.profiles.items()
        if key != profile.key and (profile.is_imported or not other.is_imported)
    ]
    for index, example in enumerate(profile.match.examples):
        path = f"match.examples.{index}"
        if found_in(example, profile.match.idn) is None:
            yield place.error(path, f'The pattern does not match the example "{example}".')
        for key in sorted(p.key for p in others if find_profile(example, None, [p]).profile):
            yield place.error(path, f'The example "{example}" is matched by {key} too.')
    for other in others:
        for example in other.match.examples:
            if found_in(example, profile.match.idn):
                message = f'The pattern also matches "{example}", an example of {other.key}.'
                yield place.error("match.idn", message, r"Anchor the model number with \b.")


def _lint_naming(profile: Profile, place: LintPlace) -> Iterator[Finding]:
    """A unit that is asked nothing at all is identified by INSTRUMENTS alone."""
    connection = profile.connection
    if connection.identify is None and connection.probe is None:
        message = "It is never asked who it is: another instrument in its place is not noticed."
        yield place.warning("never_ask_idn", message, "Give identify, or connection.probe.")
    if not connection.never_ask_idn:
        return
    asked = [(one.path, one.template) for one in (*questions(profile), *step_questions(profile))]
    for command in profile.commands.values():
        asked += [(f"commands.{command.name}", line) for line in templates_of(command)]
    for path in dict.fromkeys(path for path, line in asked if asks_idn(line)):
        message = f"{path} asks *IDN?, which is never sent to an instrument with never_ask_idn."
        yield place.error(path, message, "Leave never_ask_idn out, or ask something else there.")


def _lint_safety(profile: Profile, _library: ProfileLibrary, place: LintPlace) -> Iterator[Finding]:
    """Whatever gives energy can be stopped: by an abort, and by a safe command."""
    dangerous = [c.name for c in profile.commands.values() if c.is_dangerous]
    if not dangerous and profile.instrument_class not in _SOURCE_CLASSES:
        return
    why = f"has {dangerous[0]}" if dangerous else f"is a {profile.instrument_class}"
    if not profile.abort:
        message = f"{profile.key} {why} but no abort."
        yield place.error("profile_key", message, "Add the SCPI that switches all outputs off.")
    if not any(command.is_safe for command in profile.commands.values()):
        message = f"{profile.key} {why} but no safe command."
        yield place.error("profile_key", message, "Mark the one that switches off is_safe: true.")
    for sequence in profile.sequences.values():
        if sequence.is_dangerous and not _ends_safe(sequence, profile):
            message = f"{sequence.name} is dangerous and no step of its finally makes it safe."
            yield place.error(f"sequences.{sequence.name}", message)


def _ends_safe(sequence: Sequence, profile: Profile) -> bool:
    return any(
        isinstance(step, CommandStep) and profile.commands[step.command].is_safe
        for step in walk(sequence.finally_steps)
    )


def _lint_danger(profile: Profile, _library: ProfileLibrary, place: LintPlace) -> Iterator[Finding]:
    """Words that switch something on need the mark, and a safe command holds none."""
    for command in profile.commands.values():
        path = f"commands.{command.name}.scpi"
        lines = [line for line in templates_of(command) if line in _sent_lines(command)]
        energising = [line for line in lines if is_energising(line, command.parameters)]
        if energising and command.is_safe:
            yield place.error(path, f'{command.name} is safe, but "{energising[0]}" switches on.')
        elif energising and not command.is_dangerous:
            message = f'{command.name} is not dangerous, but "{energising[0]}" switches on.'
            yield place.error(path, message, "Mark it is_dangerous: true.")
        elif command.changes is Changes.OUTPUTS and not command.is_dangerous:
            message = f"{command.name} is not dangerous, but it may switch an output on."
            yield place.error(path, message, "Mark it is_dangerous: true.")
        elif not command.is_dangerous and any(is_recalling(line) for line in lines):
            message = f"{command.name} recalls a state, in which an output may be on."
            yield place.error(path, message, "Mark it is_dangerous: true.")
        if command.is_safe and (level := _level_set(command)):
            message = f'{command.name} is safe, but "{level}" sets a level that the caller chooses.'
            yield place.error(path, message, "Leave is_safe out: a safe command is never refused.")


def _level_set(command: Command) -> str:
    """A line that sets a level to what a number among the parameters says; empty for none."""
    for line in command.scpi:
        for part in filter(sets_level, line.split(";")):
            arguments = part.strip().partition(" ")[2].split(",")
            # In "VOLT 5,(@1)" the channel list stands behind the value.
            value = arguments[0] if arguments[-1].startswith("(@") else arguments[-1]
            kinds = {command.parameters[hole.name].type for hole in placeholders(value)}
            if kinds & {ParameterType.FLOAT, ParameterType.INT}:
                return line
    return ""


def _lint_changes(
    profile: Profile, _library: ProfileLibrary, place: LintPlace
) -> Iterator[Finding]:
    """A command that loads values that nobody typed, or a query that acts, must say so."""
    for command in profile.commands.values():
        path = f"commands.{command.name}"
        header = next(filter(None, map(side_effect, _sent_lines(command))), "")
        if header and f"{path}.changes" not in profile.marks:
            message = f"{command.name} sends {header}, and does not say what it changes."
            remedy = (
                "Say changes: any if it can load values that nobody typed, outputs if it may "
                "switch one on, settings if it does neither."
            )
            yield place.error(f"{path}.scpi", message, remedy)


def _lint_asked(profile: Profile, _library: ProfileLibrary, place: LintPlace) -> Iterator[Finding]:
    """A query that acts is asked by the commands that say so, and by nothing else."""
    steps = {(one.path, one.template) for one in step_questions(profile)}
    own = {(one.path, one.template) for one in questions(profile)}
    sent = [
        (f"commands.{command.name}", line)
        for command in profile.commands.values()
        for line in templates_of(command)
    ]
    for path, line in dict.fromkeys((*sent, *own, *steps)):
        acting, is_command = _asked_alike(profile, path, line)
        if acting is not None:
            message = (
                f'{path} asks "{line}", and {acting.name} changes {acting.changes} by the same '
                "query."
            )
            remedy = "Ask what changes nothing; a step runs the command, a command says changes."
            yield place.error(path, message, remedy)
        elif (path, line) in steps and not is_command:
            message = f'{path} asks "{line}", and no command does, so nothing says what it changes.'
            remedy = "Make it a command, with changes if it does more than ask."
            yield place.error(path, message, remedy)
        elif (path, line) in own and "?" in side_effect(line):
            yield place.error(path, f'{path} asks "{line}", which acts.', "Ask something else.")


def _asked_alike(profile: Profile, path: str, line: str) -> tuple[Command | None, bool]:
    """The command of another place that acts by the same query; and whether a command asks it."""
    pieces = (
        piece
        for part in parse_template(line)
        for piece in (part.parts if isinstance(part, Optional) else (part,))
    )
    filled = "".join(piece.text if isinstance(piece, Text) else "1" for piece in pieces)
    asked = [part for part in identify(profile, filled) if part.is_query]
    matches = [match for part in asked for match in (*part.matches, *part.beside)]
    own = profile.commands.get(path.removeprefix("commands."))
    acting = (m.command for m in matches if m.changes is not None)
    is_declared = own is not None and own.changes is not None and line in own.scpi
    other = next((one for one in acting if one is not own and not is_declared), None)
    return other, any(match.command.is_query for match in matches)


def _sent_lines(command: Command) -> tuple[str, ...]:
    """What goes out when the command runs; a sweep's abort is no part of it."""
    abort = [step.send for step in command.sweep.abort] if command.sweep else []
    return tuple(
        line for line in templates_of(command) if line not in abort or line in command.scpi
    )


_AROUND_A_CONNECTION: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("before", why_not_on_connect),
    ("on_connect", why_not_on_connect),
    ("on_release", why_not_on_release),
)


def _lint_connection(
    profile: Profile, _library: ProfileLibrary, place: LintPlace
) -> Iterator[Finding]:
    """Connecting and letting go change no output, but that the last words may switch it off."""
    connection = profile.connection
    if connection.on_connect_serial is not None and "on_connect" in connection.serial:
        message = "on_connect_serial and serial: {on_connect} are the same."
        yield place.error("connection.on_connect_serial", message, "Keep one of them.")
    own = {name: getattr(connection, name) for name, _ in _AROUND_A_CONNECTION}
    for wire, settings in {"": own, **connection.by_wire}.items():
        within = f"connection.{wire}" if wire else "connection"
        for name, why_not in _AROUND_A_CONNECTION:
            for index, line in enumerate(settings.get(name, ())):
                why = why_not(line)
                if why:
                    message = f'{name} sends "{line}", which {why}.'
                    suggestion = "Only headers and the answer interface belong here."
                    yield place.error(f"{within}.{name}.{index}", message, suggestion)
    for index, line in enumerate(profile.abort_lines):
        if is_energising(line, {}):
            yield place.error(f"abort.{index}", f'The abort sends "{line}", which switches on.')


def _lint_sharing(
    profile: Profile, _library: ProfileLibrary, place: LintPlace
) -> Iterator[Finding]:
    """Of units that share a port each line reaches the one that is meant."""
    connection = profile.connection
    talks = {
        f"connection.{wire}" if wire else "connection": connection.on_wire(wire)
        for wire in ("", *connection.by_wire)
    }
    shared = {path: talk for path, talk in talks.items() if talk.shared}
    for path, talk in shared.items():
        if not names_address(profile):
            message = "Its units share a port, and no line has {address}: all of them would answer."
            yield place.error(path, message, 'Write before: ["ADR {address}"], or as it has it.')
        if not talk.asks_idn and talk.identify is None and talk.probe is None:
            message = "Its units share a port, and nothing tells which of them has answered."
            suggestion = "Add identify or probe: without it, answers are refused while one is late."
            yield place.warning(path, message, suggestion)
        stems = [line.partition(ADDRESS)[0].strip() for line in talk.before if ADDRESS in line]
        for command in profile.commands.values():
            for line in _sent_lines(command):
                if any(stem and line.upper().startswith(stem.upper()) for stem in stems):
                    message = f'{command.name} sends "{line}", which may address another unit.'
                    suggestion = "Leave it out: edged addresses each unit by itself."
                    yield place.error(f"commands.{command.name}", message, suggestion)
        if names_address(profile) and not stems:
            yield from _unaddressed(profile, talk, path, place)


def _unaddressed(
    profile: Profile, talk: Connection, path: str, place: LintPlace
) -> Iterator[Finding]:
    """Where no line addresses the unit, a line without its address reaches all of them."""
    asked = () if talk.identify is None else (("identify.ask", talk.identify.ask),)
    probed = () if talk.probe is None else ((f"{path}.probe.query", talk.probe.query),)
    lines = [
        *((f"abort.{index}", line) for index, line in enumerate(profile.abort_lines)),
        *asked,
        *probed,
        (f"{path}.errors.query", talk.errors.query),
        *((f"{path}.{name}", line) for name in _SAID for line in getattr(talk, name)),
    ]
    for command in profile.commands.values():
        lines += [(f"commands.{command.name}", line) for line in templates_of(command)]
    for where, line in lines:
        if line and ADDRESS not in line:
            message = f'"{line}" has no {{address}}: every unit of the port would take it.'
            suggestion = "Write the address into it, or before: the line that addresses the unit."
            yield place.error(where, message, suggestion)


_SAID: Final = ("on_connect", "on_release", "before")


def _lint_heartbeat(
    profile: Profile, _library: ProfileLibrary, place: LintPlace
) -> Iterator[Finding]:
    """Nobody is asked by itself unless somebody has looked up that it is harmless."""
    connection = profile.connection
    if connection.heartbeat and not connection.heartbeat_source:
        asked = question_by_heart(connection)
        if not asked:
            return
        message = f"{asked} is sent on an idle line, and no source says that this is harmless."
        suggestion = (
            "Say heartbeat: false (some units leave local for it), or the source in "
            "heartbeat_source."
        )
        yield place.warning("connection", message, suggestion)


def _lint_questions(
    profile: Profile, _library: ProfileLibrary, place: LintPlace
) -> Iterator[Finding]:
    """Where all others have one, a question without its mark is a slip of the pen."""
    if not profile.connection.asks_idn:
        return
    asked = [(f"abort.{index}.ask", step.ask) for index, step in enumerate(profile.abort)]
    if profile.acquisition is not None:
        asked.append(("acquisition.ask", profile.acquisition.ask))
    if profile.watchdog is not None:
        asked.append(("watchdog.tripped.ask", profile.watchdog.tripped.ask))
    for path, question in asked:
        if question and "?" not in question:
            yield place.warning(path, f'"{question}" asks without a "?", unlike SCPI.')


def _lint_watchdog(
    profile: Profile, _library: ProfileLibrary, place: LintPlace
) -> Iterator[Finding]:
    """The timer is stopped once every output is known to be off, and no sooner."""
    unproved = unproved_outputs(profile) if profile.watchdog is not None else ()
    if unproved:
        message = f"No query says whether {unproved[0]} is off, so the watchdog is never stopped."
        yield place.error("watchdog", message, "Give its entry of abort a question.")


def _lint_limits(profile: Profile, _library: ProfileLibrary, place: LintPlace) -> Iterator[Finding]:
    """A profile whose curves report a limit must report it for single measurements, too."""
    if profile.limited is not None:
        return
    for sequence in profile.sequences.values():
        steps = list(walk(sequence.steps))
        rows = [step.columns.get("limited") for step in steps if isinstance(step, RowStep)]
        needed = {name for column in rows if column is not None for name in names_in(column)}
        telling = {
            step.command
            for step in steps
            if isinstance(step, CommandStep)
            and step.save_as is not None
            and _tells_state(profile.commands[step.command])
            and any(name == step.save_as or name.startswith(f"{step.save_as}_") for name in needed)
        }
        if telling:
            message = (
                f"{sequence.name} says whether its limit was reached, and single measurements do "
                "not."
            )
            suggestion = f"Name {', '.join(sorted(telling))} under limited."
            yield place.warning(f"sequences.{sequence.name}", message, suggestion)


def _tells_state(command: Command) -> bool:
    """Whether the answer is a state and no measured number."""
    match command.returns:
        case BitsAnswer():
            return True
        case ScalarAnswer(type=kind):
            return kind in {AnswerType.BOOL, AnswerType.STRING}
        case _:
            return False


def _lint_sweeps(profile: Profile, _library: ProfileLibrary, place: LintPlace) -> Iterator[Finding]:
    """What can be swept can be looked at and stopped."""
    for command in profile.commands.values():
        if command.sweep is None:
            continue
        path = f"commands.{command.name}.sweep"
        if command.sweep.readback is None:
            message = f"{command.name} can be swept but has no readback."
            yield place.warning(path, message, "Name the query that measures it.")
        if not command.sweep.abort and not profile.abort:
            yield place.error(path, f"{command.name} can be swept but nothing aborts it.")
        swept = command.parameters[command.sweep.parameter]
        read = profile.commands.get(command.sweep.readback or "")
        unit = getattr(read.returns, "unit", "") if read is not None else ""
        if unit and swept.unit and unit != swept.unit:
            message = (
                f"{command.name} sweeps {swept.name} in {swept.unit}, and its readback "
                f"{command.sweep.readback} answers in {unit}."
            )
            yield place.warning(path, message, "A sweep measures by it the value that it sets.")
        if swept.min is None or swept.max is None:
            message = f"{command.name} sweeps {swept.name}, which has no min and max."
            yield place.error(path, message)


def _lint_parameters(
    profile: Profile, _library: ProfileLibrary, place: LintPlace
) -> Iterator[Finding]:
    """Limits have units, numbers have limits, and what is declared is used."""
    for command in profile.commands.values():
        used = {p.name for template in templates_of(command) for p in placeholders(template)}
        for parameter in command.parameters.values():
            path = f"commands.{command.name}.parameters.{parameter.name}"
            yield from _lint_parameter(parameter, f"{command.name}.{parameter.name}", path, place)
            if parameter.name not in used:
                message = f"{command.name} has the parameter {parameter.name}, which nothing uses."
                yield place.error(path, message, nearest(parameter.name, used))
    for sequence in profile.sequences.values():
        for parameter in sequence.parameters.values():
            path = f"sequences.{sequence.name}.parameters.{parameter.name}"
            yield from _lint_parameter(parameter, f"{sequence.name}.{parameter.name}", path, place)


def _lint_parameter(
    parameter: Parameter, owner: str, path: str, place: LintPlace
) -> Iterator[Finding]:
    if parameter.type is not ParameterType.FLOAT:
        return
    has_unit = parameter.unit or f"{path}.unit" in place.profile.marks
    if not has_unit and (parameter.min is not None or parameter.max is not None):
        message = f"{owner} has limits but no unit."
        yield place.error(path, message, 'Say unit: "" for a number without one.')
    if parameter.min is None or parameter.max is None:
        yield place.warning(path, f"{owner} is not limited on both sides.")


def _lint_names(profile: Profile, _library: ProfileLibrary, place: LintPlace) -> Iterator[Finding]:
    """Tool names that the strictest clients take, with a suffix of the usual length."""
    suffix = "x" * SHORT_LENGTH
    for name in profile.commands:
        full = tool_name(profile.key, suffix, name)
        if len(full) > LONGEST_TOOL_NAME:
            yield place.error(f"commands.{name}", _too_long(name, len(full)))
    for name in profile.sequences:
        full = sequence_tool_name(profile.key, suffix, name)
        if len(full) > LONGEST_TOOL_NAME:
            yield place.error(f"sequences.{name}", _too_long(name, len(full)))


def _too_long(name: str, length: int) -> str:
    return f"The tool of {name} has a name of {length} characters, over {LONGEST_TOOL_NAME}."


def _lint_manners(
    profile: Profile, _library: ProfileLibrary, place: LintPlace
) -> Iterator[Finding]:
    """What an agent needs: descriptions, few essentials, a known class, verified writes named."""
    essential = [c.name for c in profile.commands.values() if c.is_essential]
    essential += [s.name for s in profile.sequences.values() if s.is_essential]
    if len(essential) > MOST_ESSENTIAL:
        message = f"{len(essential)} commands are essential, over {MOST_ESSENTIAL}."
        yield place.error(f"commands.{essential[MOST_ESSENTIAL]}", message)
    if profile.instrument_class not in _CLASSES:
        message = f'The instrument_class "{profile.instrument_class}" is not a usual one.'
        suggestion = nearest(profile.instrument_class, _CLASSES)
        yield place.warning("instrument_class", message, suggestion)
    for command in profile.commands.values():
        if not command.description:
            yield place.warning(f"commands.{command.name}", f"{command.name} is not described.")
        if is_output_command(command) and not command.is_safe and not command.is_dangerous:
            message = f"{command.name} works an output and is marked neither safe nor dangerous."
            yield place.warning(f"commands.{command.name}", message)
    for sequence in profile.sequences.values():
        if not sequence.description:
            yield place.warning(f"sequences.{sequence.name}", f"{sequence.name} is not described.")


Rule = Callable[[Profile, ProfileLibrary, LintPlace], Iterator[Finding]]

RULES: Final[tuple[Rule, ...]] = (
    _lint_examples,
    _lint_safety,
    _lint_danger,
    _lint_changes,
    _lint_asked,
    _lint_connection,
    _lint_sharing,
    _lint_heartbeat,
    _lint_questions,
    lint_abort,
    _lint_watchdog,
    _lint_limits,
    _lint_sweeps,
    _lint_parameters,
    _lint_names,
    _lint_manners,
)
OF_A_REVIEW: Final = frozenset(
    {_lint_examples, _lint_safety, _lint_changes, _lint_asked, lint_abort}
)
"""What only the manual or the real instrument tells; of an imported profile a second look."""
