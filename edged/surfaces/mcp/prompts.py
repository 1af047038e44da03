"""The prompts: what people ask of a bench, written so that a model does it well.

Each names only tools and resources of this endpoint. Source: MCP ``server/prompts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from edged.errors import Invalid
from edged.record import record

MOST_CHARACTERS: Final = 2_000
"""Of one argument: it goes into the text as it is."""


@record
class PromptArgument:
    """One blank to fill in.

    Attributes:
        default: stands there where nothing was given; ``None``: it must be.
    """

    name: str
    description: str
    default: str | None = None


@record
class Prompt:
    """One prompt.

    Attributes:
        text: what the model is asked, with ``{argument}`` for each blank.
    """

    name: str
    title: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()
    text: str

    def listed(self, *, has_title: bool) -> dict[str, Any]:
        """Its entry in prompts/list."""
        entry: dict[str, Any] = {"name": self.name}
        if has_title:
            entry["title"] = self.title
        entry["description"] = self.description
        entry["arguments"] = [
            {"name": a.name, "description": a.description, "required": a.default is None}
            for a in self.arguments
        ]
        return entry

    def filled_in(self, given: Mapping[str, Any]) -> str:
        """Its text with these arguments.

        Raises:
            Invalid: one is missing, unknown, no text or too long.
        """
        known = {argument.name: argument for argument in self.arguments}
        for name, value in given.items():
            if name not in known:
                raise Invalid(f"The prompt {self.name} has no argument {name[:64]!r}.")
            if not isinstance(value, str) or len(value) > MOST_CHARACTERS:
                raise Invalid(f"{name} is a text of at most {MOST_CHARACTERS} characters.")
        missing = [name for name, a in known.items() if a.default is None and not given.get(name)]
        if missing:
            raise Invalid(f"The prompt {self.name} needs {', '.join(missing)}.")
        values = {name: given.get(name) or a.default for name, a in known.items()}
        return self.text.format_map(values)


INSTRUMENT: Final = "Alias or id of the instrument, as list_instruments shows it."
CAREFUL: Final = (
    "Before anything is switched on say what it will do and wait for a yes. Leave outputs off at "
    "the end, read back that they are, and say so."
)

_ALL: Final = (
    Prompt(
        name="check_bench",
        title="Check the bench",
        description="Say what is on the bench, what answers, what is on and what is wrong.",
        text=(
            "Check this lab bench without changing anything. Call list_instruments and "
            "bench__check. Then tell me in a short table, one row an instrument: alias, model, "
            "whether it answers, which outputs are on, and what is wrong. Below it say what runs "
            "(sweeps, streams, sequences), what is locked out, and what I should do first."
        ),
    ),
    Prompt(
        name="iv_curve",
        title="Measure an IV curve",
        description="Sweep a source over a voltage range and plot current against voltage.",
        arguments=(
            PromptArgument(name="instrument", description=INSTRUMENT),
            PromptArgument(name="start_v", description="First voltage in V.", default="0"),
            PromptArgument(name="stop_v", description="Last voltage in V."),
            PromptArgument(name="current_limit_a", description="Current limit in A."),
            PromptArgument(name="points", description="How many points.", default="21"),
        ),
        text=(
            "Measure an IV curve with {instrument}: from {start_v} V to {stop_v} V in {points} "
            "points, current limit {current_limit_a} A. Look with get_capabilities whether it has "
            "the sequence iv_curve and prefer that, by execute_sequence with detach true; else "
            "start_sweep with points and a measured current. Try the call with dry_run first and "
            "tell me what would be sent. While it runs, watch it with bench__runs; then draw it "
            "with bench__plot. Say at which points the current limit was reached: there the curve "
            "shows the limit and not the device. " + CAREFUL
        ),
    ),
    Prompt(
        name="overnight_log",
        title="Log a value overnight",
        description="Record a reading again and again for hours, and find it in the morning.",
        arguments=(
            PromptArgument(name="instrument", description=INSTRUMENT),
            PromptArgument(name="command", description="The reading, such as measure_voltage."),
            PromptArgument(name="interval_s", description="Seconds between two.", default="10"),
            PromptArgument(name="hours", description="For how many hours.", default="12"),
        ),
        text=(
            "Record {command} of {instrument} every {interval_s} s for {hours} hours with "
            "start_stream and detach true: without it the stream ends with us. Look first with "
            "bench__check that the instrument answers, and with one execute_command that the "
            "reading is plausible. Tell me the stream_id: with it bench__runs gives the data and "
            "bench__plot the picture tomorrow, and bench__stop_run ends it."
        ),
    ),
    Prompt(
        name="bode_plot",
        title="Measure a Bode plot",
        description="Sweep a generator's frequency and plot gain and phase of what is between.",
        arguments=(
            PromptArgument(name="generator", description=INSTRUMENT),
            PromptArgument(name="meter", description="The lock-in or oscilloscope that measures."),
            PromptArgument(name="start_hz", description="First frequency in Hz.", default="10"),
            PromptArgument(name="stop_hz", description="Last frequency in Hz.", default="100000"),
            PromptArgument(name="amplitude", description="With its unit.", default="1 Vpp"),
        ),
        text=(
            "Measure the response between {generator} and {meter} from {start_hz} Hz to "
            "{stop_hz} Hz at {amplitude}. Set {meter}'s reference to external where it is a "
            "lock-in; set the amplitude, and {start_hz} Hz: the first row is taken at the "
            "generator's present frequency. Then make one start_sweep over the generator's "
            "frequency with points (count 41, spacing log), a dwell_ms of at least five periods "
            "and five time constants of {meter}, and measure amplitude and phase of {meter}. "
            "Try it with dry_run first. Draw it with bench__plot: log_x, gain and phase. Name "
            "the corner frequency and the slope, and say where {meter} was overloaded or not "
            "settled. " + CAREFUL
        ),
    ),
    Prompt(
        name="write_experiment",
        title="Write an experiment",
        description="Plan a measurement or test over several instruments, check it, run it.",
        arguments=(
            PromptArgument(name="task", description="What to measure or test, in your words."),
        ),
        text=(
            "Write an experiment plan for this task: {task}\n"
            "Read edged://experiments/grammar, then list_instruments, and get_capabilities of each "
            "unit that you need. Give every source a limit, ramp what must not jump, and end with "
            "finally steps that ramp down and switch off. Send the plan to bench__check_experiment "
            "and apply the remedies until ok is true. Show me the plan as YAML, and say what it "
            "sets, how many points it has and how long it takes. Start it with "
            "bench__start_experiment only when I have said yes. Follow it with bench__control_run; "
            "ask me each question of the run, and answer none yourself. At the end give me the "
            "verdict and a picture from bench__plot."
        ),
    ),
    Prompt(
        name="write_profile",
        title="Write an instrument's profile",
        description="Write the YAML profile of an instrument that has none yet.",
        arguments=(
            PromptArgument(name="instrument", description=INSTRUMENT),
            PromptArgument(
                name="manual",
                description="The programming manual: pages pasted here, or where they can be read.",
                default="I will paste the pages that you ask for.",
            ),
        ),
        text=(
            "Write a profile for {instrument}. The manual: {manual}\n"
            "Read its *IDN? with send_scpi. Take list_profiles and get_capabilities of a similar "
            "instrument as the example of form and naming. Use only commands that the manual "
            "names; give each its page in source, its unit, and the limits of this very model. "
            "Every output that a command can switch on belongs into abort. Mark what you could not "
            "check as unverified. Ask each question of the profile once by send_scpi and compare "
            "the answer with what the profile says; set nothing before I have said yes: send_scpi "
            "checks no limits unless RAW_SCPI is known. The owner puts the file into the bench's "
            "profile directory: give it as one YAML block."
        ),
    ),
)

PROMPTS: Final[Mapping[str, Prompt]] = MappingProxyType({prompt.name: prompt for prompt in _ALL})
