"""A profile for a person with the manual at hand, and the library for whoever looks for a model.

Pure. ``checking_section`` puts beside each other what a manual says of a command in one line: what
is sent, within which limits, for which choice what goes out, how the answer is read.
``library_lines`` lists profiles by class and maker, with what was verified, on what and by whom.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from edged.profiles import model
from edged.profiles.abort import proofs_of
from edged.profiles.addressed import PLACEHOLDER, with_address
from edged.profiles.authoring.verification import Trial
from edged.profiles.headers import asked_in

MOST_CHOICES: Final = 40
"""Of one argument; more are counted."""
_TITLES: Final[Mapping[str, str]] = {
    "lcr_meter": "LCR meters",
    "lock_in": "Lock-in amplifiers",
    "other": "Others",
    "power_supply": "Power supplies",
    "smu": "Source-measure units",
    "switch": "Switches",
}
"""Of classes whose title is not their name with an s."""
ADVICE: Final = (
    "One line a command: tick what agrees. What the manual says otherwise is mended in the "
    "profile; what was tried on a real unit is taken off `unverified`."
)


def checking_section(profile: model.Profile) -> str:
    """What is to be held against the manual; it ends with a line end."""
    profile = with_address(profile, PLACEHOLDER)
    lines = ["\n## Against the manual\n"]
    if profile.is_imported:
        lines.append(
            "**Imported**: nobody has done this yet. When you have, and `match` has examples and "
            "`abort` switches everything off, write `status: reviewed`.\n"
        )
    lines += [f"{ADVICE}\n", "| | | |\n|---|---|---|"]
    lines += [f"| ☐ | {what} | {_cell(said)} |" for what, said in _facts(profile)]
    lines += [
        "\n| | command | sends | arguments | answer | besides |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_row(command) for command in profile.commands.values()]
    return "\n".join(lines) + "\n"


def _facts(profile: model.Profile) -> Iterator[tuple[str, str]]:
    connection = profile.connection
    named = connection.identify
    if named is not None:
        serial = f", its serial number by `{named.serial}`" if named.serial else ""
        yield "recognized by", f"`{named.ask}`, answered by `{named.expect}`{serial}"
    elif profile.match.idn:
        yield "recognized by", f"`{profile.match.idn}`"
        yield "real answers", _quoted(profile.match.examples) or "**none**"
    else:
        yield "recognized by", "**nothing**: INSTRUMENTS names it"
    if connection.probe is not None:
        yield "proved by", f"`{connection.probe.query}`, answered by `{connection.probe.expect}`"
    yield "talked to", _talked_to(connection)
    for wire in connection.by_wire:
        yield f"talked to by {wire}", _talked_to(connection.on_wire(wire))
    if connection.acknowledge:
        yield "acknowledges with", f"`{connection.acknowledge}`"
    errors = connection.errors
    detail = f", then `{errors.detail}`" if errors.detail else ""
    detail += f", an error like `{errors.pattern}`" if errors.pattern else ""
    detail += f", none like `{errors.none}`" if errors.none else ""
    yield (
        "errors",
        f"`{errors.query}` ({errors.kind.value}){detail}" if errors.query else "not asked",
    )
    heartbeat = "on" if connection.heartbeat else "off"
    yield "asked while idle", f"{heartbeat}. {connection.heartbeat_source}".strip()
    yield "switched off by", _quoted(profile.abort_lines) or "**nothing**"
    proofs = proofs_of(profile, profile.abort)
    if profile.abort:
        told = "; ".join(f"`{p.asked}` → `{p.expect or p.wanted}`" for p in proofs)
        yield "seen to be off by", told or "**nothing**"
    for name, why in profile.abort_excludes.items():
        yield f"`{name}` is not switched off", why
    watchdog = profile.watchdog
    if watchdog is not None:
        low, high = watchdog.range_s
        lines = _quoted((*watchdog.delay, *watchdog.enable))
        yield "timer inside", f"{lines}, {low:g} to {high:g} s"
        tripped = watchdog.tripped
        sign = f"bit {tripped.bit}" if tripped.bit is not None else f"`{tripped.expect}`"
        yield "it has switched off if", f"`{tripped.ask}` has {sign}"
        yield "it is stopped by", _quoted(watchdog.disable)
        yield "it is fed by", _quoted(watchdog.feeds) or "whatever is sent"
        if watchdog.clear:
            yield "a person clears it by", _quoted(watchdog.clear)
    if profile.acquisition is not None:
        shown = profile.acquisition
        yield "runs if", f"`{shown.ask}` answers `{shown.running}`, and not if `{shown.stopped}`"
    if profile.limited is not None:
        held = profile.limited
        asked = _quoted(profile.commands[held.command].scpi)
        yield "measurements are noted", f'"{held.note}" if {asked} answers `{held.when}`'
    if profile.settings:
        yield "read for recordings", _quoted(one.get for one in profile.settings.values())
    for sequence in profile.sequences.values():
        asked = _quoted(asked_in((*sequence.steps, *sequence.finally_steps)))
        if asked:
            yield f"`{sequence.name}` asks", asked


def _quoted(lines: Iterable[str]) -> str:
    return "; ".join(f"`{line}`" for line in dict.fromkeys(lines))


def _talked_to(connection: model.Connection) -> str:
    said = [
        f"lines end with {connection.write_termination!r}, answers with "
        f"{connection.read_termination!r}",
        f"{connection.timeout_ms} ms for an answer",
    ]
    if connection.baud_rate is not None:
        said.append(f"{connection.baud_rate} baud")
    frame = (
        ("data bits", connection.data_bits),
        ("parity", connection.parity),
        ("stop bits", connection.stop_bits),
        ("flow", connection.flow),
    )
    said += [f"{what} {value}" for what, value in frame if value is not None]
    if connection.encoding != "ascii":
        said.append(connection.encoding)
    for what, lines in (
        ("told at first", connection.on_connect),
        ("told at last", connection.on_release),
    ):
        if lines:
            said.append(f"{what}: {_quoted(lines)}")
    return ", ".join(said)


def _row(command: model.Command) -> str:
    marks = [
        mark
        for is_so, mark in (
            (command.is_dangerous, "dangerous"),
            (command.is_safe, "makes safe"),
            (command.changes is not None, f"changes: {command.changes}"),
            (command.requires_sweep, "only by a sweep"),
        )
        if is_so
    ]
    name = f"`{command.name}`" + (f" ({', '.join(marks)})" if marks else "")
    sends = "<br>".join(f"`{line}`" for line in _sent(command))
    arguments = "<br>".join(_argument(one) for one in command.parameters.values())
    cells = (name, sends, arguments, _answer(command.returns), "<br>".join(_besides(command)))
    return "| ☐ | " + " | ".join(map(_cell, cells)) + " |"


def _sent(command: model.Command) -> Iterator[str]:
    if isinstance(command.returns, model.WaveformAnswer):
        yield from (*command.returns.setup, *command.returns.preamble_queries)
    yield from command.scpi


def _argument(parameter: model.Parameter) -> str:
    said = [parameter.type.value]
    if parameter.map:
        pairs = [f"{label} → `{wire}`" for label, wire in parameter.map.items()]
        said = [_some(pairs)]
    elif parameter.options:
        said = [_some([f"`{option}`" for option in parameter.options])]
    if parameter.min is not None or parameter.max is not None:
        low = "…" if parameter.min is None else f"{parameter.min:g}"
        high = "…" if parameter.max is None else f"{parameter.max:g}"
        said.append(f"{low} to {high} {parameter.unit}".rstrip())
    elif parameter.unit:
        said.append(parameter.unit)
    if parameter.default is not None:
        said.append(f"else {parameter.default}")
    for other, bounds in parameter.by.items():
        said += [
            f"with {other} {value}: "
            + (_some(list(bound.options)) if bound.options else _range(bound.min, bound.max))
            for value, bound in bounds.items()
        ]
    return f"{parameter.name}: {', '.join(said)}"


def _range(low: float | None, high: float | None) -> str:
    return f"{'…' if low is None else f'{low:g}'} to {'…' if high is None else f'{high:g}'}"


def _some(told: Sequence[str]) -> str:
    more = len(told) - MOST_CHOICES
    return ", ".join(told[:MOST_CHOICES]) + (f" and {more} more" if more > 0 else "")


def _answer(returns: model.Returns | None) -> str:
    match returns:
        case model.ScalarAnswer(type=type_, unit=unit, map=labels, scale=scale):
            said = _labels(labels) or f"{type_.value} {unit}".strip()
            return f"{said}, scaled by `{scale}`" if scale else said
        case model.ListAnswer(type=type_, unit=unit):
            return f"list of {type_.value} {unit}".strip()
        case model.FieldsAnswer(fields=fields):
            return "<br>".join(_field(one) for one in fields)
        case model.BitsAnswer(fields=bits):
            return "<br>".join(
                f"{one.name} {one.mask:#x} {_labels(one.map)}".strip() for one in bits
            )
        case model.WaveformAnswer(dtype=dtype, y_unit=unit, x_unit=over):
            return f"{dtype} in {unit or 'numbers'} over {over}{_form(returns)}"
        case model.ImageAnswer(mime=mime):
            return mime
        case None:
            return ""


def _form(answer: model.WaveformAnswer) -> str:
    """What is unusual in the form of a waveform's bytes."""
    packets = answer.packets
    said = [
        told
        for is_so, told in (
            (not answer.has_header and not answer.length, "without a header"),
            (answer.count, f"`{answer.count}` points"),
            (answer.size, f"`{answer.size}` bytes"),
            (answer.prefix, f"behind `{answer.prefix}`"),
            (answer.length, f"behind a length as {answer.length}"),
            (answer.skip_bytes, f"without its first {answer.skip_bytes} bytes"),
            (packets, f"in packets until `{packets.until if packets else ''}`"),
        )
        if is_so
    ]
    return f" ({', '.join(said)})" if said else ""


def _field(one: model.AnswerField) -> str:
    found = one.pattern or one.key
    where = f" at `{found}`" if found else ""
    return f"{one.name}{where} {_labels(one.map) or one.unit}".strip()


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"`{wire}` → {label}" for wire, label in labels.items())


def _besides(command: model.Command) -> Iterator[str]:
    if command.precondition is not None:
        asked = command.precondition
        yield f"before: `{asked.query}` must fit `{asked.expect}`"
    if command.verify is not None:
        yield f"then `{command.verify.query}` within {command.verify.tolerance:g}"
    if command.complete is not None and command.complete.kind is not model.CompletionKind.NONE:
        until = f" until `{command.complete.until}`" if command.complete.until else ""
        where = f" at `{command.complete.pattern}`" if command.complete.pattern else ""
        yield f"done by `{command.complete.query or '*OPC?'}`{where}{until}"
    if command.sweep is not None:
        aborts = _quoted(step.send for step in command.sweep.abort)
        yield f"swept from `{command.sweep.setpoint}`" + (f", ended by {aborts}" if aborts else "")
    if command.errors is not None and command.errors.query:
        yield f"errors: `{command.errors.query}`"
    if command.acknowledge is not None:
        yield (
            f"acknowledged by `{command.acknowledge}`"
            if command.acknowledge
            else ("not acknowledged")
        )
    yield from (f"must hold: `{check}`" for check in command.checks)


def trial_lines(trials: Sequence[Trial]) -> list[str]:
    """On which units a profile was tried, and by whom."""
    return [
        f"- {trial.on}, {_where(trial)}{_by(trial)}: {trial.passed} queries answered, "
        f"{trial.failed} failed"
        for trial in trials
    ]


def library_lines(
    profiles: Sequence[model.Profile], trials: Mapping[str, Sequence[Trial]], page: str
) -> Iterator[str]:
    """Profiles as tables, one a class, by maker and model.

    Args:
        profiles: whose rows are wanted.
        trials: what was tried, by key.
        page: where a profile is told in full; ``{}`` stands for its key.
    """
    by_class: dict[str, list[model.Profile]] = defaultdict(list)
    for profile in profiles:
        by_class[profile.instrument_class].append(profile)
    for kind in sorted(by_class, key=class_title):
        yield f"\n## {class_title(kind)}\n"
        yield "| maker | model | profile | status | verified | source |"
        yield "|---|---|---|---|---|---|"
        for one in sorted(by_class[kind], key=lambda p: (p.manufacturer.lower(), p.model, p.key)):
            cells = (
                one.manufacturer,
                one.model,
                f"[`{one.key}`]({page.format(one.key)})",
                one.status.value,
                _verified(one, trials.get(one.key, ())),
                one.source,
            )
            yield "| " + " | ".join(map(_cell, cells)) + " |"


def class_title(instrument_class: str) -> str:
    """What a reader of the library calls the units of a class: ``Source-measure units``."""
    plain = f"{instrument_class.replace('_', ' ').capitalize()}s"
    return _TITLES.get(instrument_class, plain)


def _verified(profile: model.Profile, trials: Sequence[Trial]) -> str:
    """What was, on what, by whom."""
    names = {*profile.commands, *profile.sequences}
    done = names - set(profile.unverified)
    said = [f"{len(done)} of {len(names)} by its author's word"] if done else []
    said += [f"{t.passed} queries on {_where(t)}{_by(t)}, {t.on}" for t in trials]
    return "; ".join(said) or "nothing on a real unit yet"


def _where(trial: Trial) -> str:
    if trial.is_simulated:
        return "its simulation"
    return f"{trial.model} {trial.serial} (firmware {trial.firmware})".strip()


def _by(trial: Trial) -> str:
    return f" by {trial.by}" if trial.by else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
