"""Every command of every shipped profile, with the arguments that bound it, for a real engine.

``cases`` makes the calls that must work, ``refusals`` those that must not reach the instrument.
What a command needs to find before it can work (an output that is on, a chosen function) is in
``PREPARATIONS``, as raw SCPI: from the facts, not from the profile.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from edged.errors import Invalid
from edged.profiles.arguments import ParameterCheck, compile_parameters
from edged.profiles.model import Bound, Command, Parameter, ParameterType, Profile, Sequence
from edged.profiles.template import effective_bound, optional_names, possible_values, resolution
from edged.yaml.tree import Scalar
from edged_sim.models import model_names
from tests.bench.engine import Engine
from tests.bench.shipped import shipped_library

PROFILES = shipped_library().profiles
SIMULATED = {key: profile for key, profile in PROFILES.items() if profile.sim in model_names()}

Arguments = dict[str, Scalar]

TRIES = 3
"""Some simulations lose what comes too soon after a write, as the real ones do. On a busy machine
two messages that were sent apart reach them together; what works is not lost three times."""
LOSSES = frozenset({"timeout", "verify_failed"})
"""What the loss of a message looks like: of a question, of what sets something."""
SILENT = "did not answer in time"
LOST: Mapping[str, Any] = {"is_error": True, "error": {"code": "timeout"}}

RIGOL_DG: Mapping[str, tuple[str, ...]] = {
    "set_offset": (":SOUR{channel}:APPL:DC 1000,1,0",),
    "set_pulse_width": (":SOUR{channel}:FREQ 1e-6",),
    "trigger_burst": (":SOUR{channel}:BURS:TRIG:SOUR MAN",),
}
RIGOL_DS: Mapping[str, tuple[str, ...]] = {
    "capture_waveform": (":CHAN{channel}:DISP ON",),
    "capture_memory": (
        ":CHAN1:DISP OFF",
        ":CHAN{channel}:DISP ON",
        ":ACQ:MDEP 24000000",
        ":STOP",
    ),
    "set_memory_depth": (":CHAN2:DISP ON", ":CHAN3:DISP ON", ":CHAN4:DISP ON"),
    "set_vertical_offset": (":CHAN{channel}:PROB 1000", ":CHAN{channel}:SCAL 10000"),
    "set_edge_trigger": (":CHAN{channel}:PROB 1000", ":CHAN{channel}:SCAL 10000"),
}
SIGLENT_SDS: Mapping[str, tuple[str, ...]] = {
    "set_edge_trigger": ("C{channel}:VDIV 10V",),
    "capture_waveform": ("MSIZ 14K",),
}
ENA: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    ("set_format", "capture_trace", "measure_extreme"), (":CALC1:PAR:COUN 4",)
)
TRIGGERED: Mapping[str, tuple[str, ...]] = {
    "fetch": ("INIT",),
    "trigger": ("TRIG:SOUR BUS", "INIT"),
}
"""Of meters that speak as the 34461A does."""

PREPARATIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "ami_430": dict.fromkeys(("set_ramp_rate", "get_ramp_rate"), ("CONF:RAMP:RATE:SEG 10",)),
    "keysight_34461a": TRIGGERED,
    "keysight_34401a": TRIGGERED,
    "keysight_34410a": TRIGGERED,
    "keysight_33220a": {
        "set_amplitude": ("OUTP:LOAD INF",),
        "set_offset": ("OUTP:LOAD INF", "VOLT 0.02"),
        "trigger_burst": ("TRIG:SOUR BUS", "BURS:STAT ON"),
    },
    "keysight_33522b": {
        "set_amplitude": ("OUTP{channel}:LOAD INF",),
        "set_offset": ("OUTP{channel}:LOAD INF", "SOUR{channel}:VOLT 0.002"),
        "trigger_burst": ("TRIG1:SOUR BUS", "SOUR1:BURS:STAT ON"),
    },
    "keysight_34970a": {"read_scan": ("ROUT:SCAN (@101:103)",)},
    "keysight_34972a": {"read_scan": ("ROUT:SCAN (@101:103)",)},
    "keysight_e5061a": ENA,
    "keysight_e5062a": ENA,
    "keysight_e3632a": {"set_voltage": ("VOLT:RANG HIGH",)},
    "keysight_e3633a": {"set_voltage": ("VOLT:RANG HIGH",)},
    "keysight_e3634a": {"set_voltage": ("VOLT:RANG HIGH",)},
    "keysight_e3646a": {"set_voltage": ("INST:NSEL {channel};:VOLT:RANG HIGH",)},
    "keysight_e3647a": {"set_voltage": ("INST:NSEL {channel};:VOLT:RANG HIGH",)},
    "keysight_e3648a": {"set_voltage": ("INST:NSEL {channel};:VOLT:RANG HIGH",)},
    "keysight_e3649a": {"set_voltage": ("INST:NSEL {channel};:VOLT:RANG HIGH",)},
    "keysight_34465a": TRIGGERED,
    "keithley_2400": {
        "measure": (":OUTP ON",),
        "measure_resistance": (":OUTP ON",),
        "measure_series": (":OUTP ON",),
    },
    "keithley_2401": {
        "measure": (":OUTP ON",),
        "measure_resistance": (":OUTP ON",),
        "measure_series": (":OUTP ON",),
    },
    "keithley_2410": {
        "measure": (":OUTP ON",),
        "measure_resistance": (":OUTP ON",),
        "measure_series": (":OUTP ON",),
    },
    "keithley_2420": {
        "measure": (":OUTP ON",),
        "measure_resistance": (":OUTP ON",),
        "measure_series": (":OUTP ON",),
    },
    "keithley_2450": {
        "get_buffer": (":OUTP ON", ":SENS:CURR:NPLC 0.01", ":SENS:COUN 1000", ":READ?"),
        "set_current": (":SOUR:CURR:VLIM 1",),
        "set_voltage": (":SOUR:VOLT:ILIM 0.001",),
    },
    "keithley_6517b": dict.fromkeys(
        ("measure_current", "measure_voltage", "measure_resistance"),
        (":SYST:ZCH OFF", ":OUTP ON"),
    ),
    "keithley_7001": {
        **dict.fromkeys(
            (
                "are_channels_closed",
                "close_channel",
                "close_channels",
                "connect_channel",
                "connect_channels",
                "is_channel_closed",
                "is_channel_open",
                "open_channel",
                "open_channels",
            ),
            (":DIAG:CARD {slot},C7011",),
        ),
        **dict.fromkeys(
            (
                "close_crosspoint",
                "connect_crosspoint",
                "connect_rows",
                "is_crosspoint_closed",
                "is_crosspoint_open",
                "open_crosspoint",
            ),
            (":DIAG:CARD {slot},C7012",),
        ),
    },
    "keithley_dmm6500": {
        "get_buffer": (":SENS:VOLT:NPLC 0.0005", ":SENS:COUN 1000", ":READ?"),
        "get_statistics": (":READ?",),
        "read_many": (":SENS:VOLT:NPLC 0.0005",),
    },
    "oxford_itc503": {
        **dict.fromkeys(
            (
                "set_setpoint",
                "set_automatic",
                "set_sensor",
                "set_automatic_pid",
                "set_proportional_band",
                "set_integral_time",
                "set_derivative_time",
            ),
            ("C3",),
        ),
        "set_gas_flow": ("C3", "A0"),
    },
    "rigol_dg1022z": RIGOL_DG,
    "rigol_dg1032z": RIGOL_DG,
    "rigol_dg1062z": RIGOL_DG,
    "rigol_ds1054z": RIGOL_DS,
    "rigol_ds1104z": RIGOL_DS,
    "siglent_sdm3055": TRIGGERED,
    "siglent_sdm3065x": TRIGGERED,
    "siglent_sds1104xe": SIGLENT_SDS,
    "siglent_sds1202xe": SIGLENT_SDS,
    "srs_sr830": {
        "set_harmonic": ("FREQ 1",),
        "read_buffer": ("DIAG:STOR 16383",),
        "read_buffer_text": ("DIAG:STOR 16383",),
    },
    "siglent_sdg2042x": {"set_offset": ("C{channel}:BSWV WVTP,DC",)},
    "yokogawa_gs200": {
        **dict.fromkeys(
            ("set_voltage", "ramp_voltage"), (":OUTP OFF", ":SOUR:FUNC VOLT", ":SOUR:RANG 30")
        ),
        **dict.fromkeys(
            ("set_voltage_autorange", "set_voltage_range", "get_voltage"),
            (":OUTP OFF", ":SOUR:FUNC VOLT"),
        ),
        **dict.fromkeys(
            ("set_current", "ramp_current"), (":OUTP OFF", ":SOUR:FUNC CURR", ":SOUR:RANG 0.2")
        ),
        **dict.fromkeys(
            ("set_current_autorange", "set_current_range", "get_current"),
            (":OUTP OFF", ":SOUR:FUNC CURR"),
        ),
        "measure_current": (":OUTP OFF", ":SOUR:FUNC VOLT", ":SOUR:RANG 10", ":SENS 1", ":OUTP ON"),
        "measure_voltage": (":OUTP OFF", ":SOUR:FUNC CURR", ":SENS 1", ":OUTP ON"),
    },
}
"""Profile → command → what is sent before it; the call's arguments stand in braces."""

MAIN_SOURCE = "keithley_2400"
"""The source on the main node, which electronic loads and meters are on, too."""

FEW = 8
"""A parameter with so many values at most is a channel or a choice."""

REGISTERED_S = 10.0
"""How long the slowest may take until it has its profile."""

EXCUSED: Mapping[tuple[str, str, str], str] = {
    ("keysight_n6700", "set_voltage", "voltage at its max"): "no module there goes so far",
    ("keysight_n6700", "set_current", "current at its max"): "no module there goes so far",
    ("keysight_n6700", "set_ovp_level", "level at its max"): "no module there goes so far",
    ("rigol_ds1054z", "capture_memory", "last at its max"): "24 million points take minutes",
    ("rigol_ds1104z", "capture_memory", "last at its max"): "24 million points take minutes",
    ("ami_430", "ramp_to_current", "minimum"): "a magnet takes its time",
    ("lakeshore_335", "warm_to", "minimum"): "a cryostat takes its time",
    ("keysight_b2901a", "fetch", "minimum"): "nothing was measured before",
    ("lauda_integral", "measure_external", "minimum"): "it has no external sensor",
}
"""Profile, command or sequence, and label of calls that the matrix leaves out, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call."""

    command: str
    arguments: Arguments
    label: str


@dataclass(slots=True)
class MatrixBench:
    """An engine with one instrument of each profile; names are the profiles' keys."""

    engine: Engine
    ids: dict[str, str]
    ready: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By profile: the command whose call worked last, and the preparation it needed."""

    @classmethod
    def of(cls, engine: Engine) -> MatrixBench:
        """Raises AssertionError where an instrument was not taken for what it is."""
        listed = engine.tool("list_instruments")["result"]
        deadline = time.monotonic() + REGISTERED_S
        while any(not entry["profile_name"] for entry in listed) and time.monotonic() < deadline:
            listed = engine.tool("list_instruments")["result"]
        ids = {entry["alias"]: entry["id"] for entry in listed}
        known = {entry["alias"]: entry["profile_name"] for entry in listed}
        assert known == {key: key for key in SIMULATED}
        return cls(engine, ids)

    def prepare(self, profile: Profile, case: Case) -> None:
        """Reset an instrument and bring it to where the call can work."""
        reset = ("*RST",) if profile.connection.asks_idn else ()
        for line in (*reset, *profile.connection.on_connect, *preparation(profile, case)):
            answer = self.engine.tool(
                "send_scpi", instrument_id=self.ids[profile.key], scpi_command=line
            )
            assert not answer["is_error"], (profile.key, case, line, answer)
            assert answer["result"]["error"] is None, (profile.key, case, line, answer)

    def run(self, profile: Profile, case: Case) -> Any:
        """The call's answer."""
        return self.engine.tool(
            "execute_command",
            instrument_id=self.ids[profile.key],
            command_name=case.command,
            parameters=case.arguments,
        )

    def is_prepared(self, profile: Profile, case: Case) -> bool:
        """Prepare it; False where that was lost on the way."""
        try:
            self.prepare(profile, case)
        except AssertionError as lost:
            if SILENT not in str(lost):
                raise
            return False
        return True

    def fault_of(self, profile: Profile, case: Case) -> str:
        """Nothing, or what went wrong with a call that must work after its preparations.

        After another call of the command it usually works without them.
        """
        if (profile.key, case.command, case.label) in EXCUSED:
            return ""
        wanted = (case.command, *preparation(profile, case))
        for _ in range(TRIES):
            is_ready = self.ready.pop(profile.key, ()) == wanted
            works = is_ready or self.is_prepared(profile, case)
            answer = self.run(profile, case) if works else LOST
            if not answer["is_error"] and answer["result"]["success"]:
                self.ready[profile.key] = wanted
                return ""
            said = answer.get("error") or answer["result"].get("error")
            if not is_ready and said.get("code") not in LOSSES:
                break
        return f"{profile.key}.{case.command} {case.label} {case.arguments}: {said}"

    def run_sequence(self, key: str, name: str, arguments: Arguments) -> Any:
        """The answer of a sequence; run again where a message of it was lost (``TRIES``)."""
        answer: Any = LOST
        for _ in range(TRIES):
            answer = self.engine.tool(
                "execute_sequence",
                instrument_id=self.ids[key],
                sequence_name=name,
                parameters=arguments,
            )
            if not answer["is_error"] or SILENT not in answer["error"]["message"]:
                break
        return answer

    def call(self, key: str, command: str, **arguments: Scalar) -> Any:
        """The answer of a command, by its name."""
        return self.run(SIMULATED[key], Case(command=command, arguments=arguments, label=""))

    def state(self, key: str) -> dict[str, Any]:
        """What the simulation says of itself."""
        state: dict[str, Any] = self.engine.sim("state")["instruments"][key]["state"]
        return state

    def mark(self) -> int:
        """A place in the bench's byte log."""
        last: int = self.engine.sim("log", since=2**53)["last"]
        return last

    def received(self, key: str, since: int) -> list[str]:
        """What reached an instrument since then."""
        page = self.engine.sim("log", instrument=key, since=since)
        text = "".join(e["text"] for e in page["entries"] if e["direction"] == "in")
        return [line for line in text.splitlines() if line]


def instruments_flag() -> str:
    """``--instruments`` for one of each; the first source drives the main load of 10 ohms."""
    keys = sorted(SIMULATED, key=lambda key: (key != MAIN_SOURCE, key))
    return ",".join(f"{key}={SIMULATED[key].sim}" for key in keys)


def preparation(profile: Profile, case: Case) -> tuple[str, ...]:
    """What is sent before the call, after a reset."""
    lines = PREPARATIONS.get(profile.key, {}).get(case.command, ())
    values = _check(profile.commands[case.command]).validate(case.arguments) if lines else {}
    return tuple(line.format(**values) for line in lines)


def smallest(command: Command | Sequence) -> Case:
    """The call with every argument at its minimum."""
    found = _valid(command, {}, "minimum")
    assert found is not None, f"{command.name} has no valid arguments"
    return found


def cases(command: Command) -> Iterator[Case]:
    """Minimum, defaults, and each argument at both ends, also where others narrow it."""
    yield smallest(command)
    check = _check(command)
    needed = {p.name for p in command.parameters.values() if p.default is None}
    least = smallest(command).arguments
    defaults = {name: value for name, value in least.items() if name in needed}
    if defaults != least and _is_valid(check, defaults):
        yield Case(command=command.name, arguments=defaults, label="defaults")
    for fixed, label in _ends(command):
        found = _valid(command, fixed, label)
        if found is not None:
            yield found


def _ends(command: Command) -> Iterator[tuple[Arguments, str]]:
    """Each argument at both ends, beside each value of another one that narrows it."""
    least = smallest(command).arguments
    for parameter in command.parameters.values():
        for others in _narrowings(parameter):
            bound = effective_bound(parameter, {**least, **others})
            for end in ("min", "max"):
                fixed = {**others, parameter.name: _end(parameter, bound, end)}
                yield fixed, f"{parameter.name} at its {end}"


def everywhere(command: Command) -> Iterator[Case]:
    """The call for each channel and each choice, every number at its largest."""
    few = {name: _few(parameter) for name, parameter in command.parameters.items()}
    for choice in itertools.product(*few.values()):
        fixed: Arguments = {n: v for n, v in zip(few, choice, strict=True) if v is not None}
        for name, parameter in command.parameters.items():
            if name not in fixed:
                fixed[name] = _end(parameter, effective_bound(parameter, fixed), "max")
        found = _valid(command, fixed, "everywhere")
        if found is not None:
            yield found


def _few(parameter: Parameter) -> list[Scalar | None]:
    """Its values where there are few of them, else nothing in particular."""
    values = possible_values(parameter)
    return list(values) if 0 < len(values) <= FEW else [None]


def refusals(command: Command) -> Iterator[Case]:
    """One step outside of every bound, a wrong label, something unknown, something missing."""
    least = smallest(command).arguments

    def case(arguments: Arguments, label: str) -> Case:
        return Case(command=command.name, arguments=arguments, label=label)

    yield case({**least, "no_such_parameter": 1}, "unknown argument")
    for fixed, label in _ends(command):
        if _valid(command, fixed, label) is None:
            yield case({**least, **fixed}, f"{label}, which the checks forbid")
    optional = optional_names(command.scpi)
    for parameter in command.parameters.values():
        if parameter.default is None and parameter.name not in optional:
            without = {n: v for n, v in least.items() if n != parameter.name}
            yield case(without, f"without {parameter.name}")
        if parameter.type is ParameterType.ENUM:
            yield case({**least, parameter.name: "no such label"}, "unknown label")
        if parameter.type not in (ParameterType.FLOAT, ParameterType.INT):
            continue
        step = resolution(command, parameter.name)
        for others in _narrowings(parameter):
            bound = effective_bound(parameter, {**least, **others})
            for limit, sign in ((bound.min, -1), (bound.max, 1)):
                if limit is not None:
                    outside = limit + sign * (step or max(abs(limit), 1.0) * 1e-6)
                    arguments = {**least, **others, parameter.name: outside}
                    yield case(arguments, f"{parameter.name} outside {limit}")


def _narrowings(parameter: Parameter) -> list[Arguments]:
    """Nothing, and every value of another parameter that narrows this one."""
    found: list[Arguments] = [{}]
    found += [{other: value} for other, values in parameter.by.items() for value in values]
    return found


def _end(parameter: Parameter, bound: Bound, end: str) -> Scalar:
    if parameter.type is ParameterType.BOOL:
        return end == "max"
    if bound.options:
        return bound.options[0 if end == "min" else -1]
    if parameter.type is ParameterType.STRING:
        return "A"
    value = bound.min if end == "min" else bound.max
    if value is None:
        value = 0 if end == "min" else 1
    return int(value) if parameter.type is ParameterType.INT else value


def _valid(command: Command | Sequence, fixed: Arguments, label: str) -> Case | None:
    """A valid call with ``fixed`` in it, the others where it fits; None: the checks forbid it."""
    check = _check(command)
    for place in ("min", "default", "max", "zero"):
        arguments = dict(fixed)
        for parameter in command.parameters.values():
            if parameter.name not in arguments:
                arguments[parameter.name] = _placed(parameter, arguments, place)
        if _is_valid(check, arguments):
            return Case(command=command.name, arguments=arguments, label=label)
    return None


def _placed(parameter: Parameter, others: Arguments, place: str) -> Scalar:
    if place == "default" and parameter.default is not None:
        return parameter.default
    bound = effective_bound(parameter, others)
    if place == "zero" and parameter.type is ParameterType.FLOAT and (bound.min or 0) <= 0:
        return 0
    return _end(parameter, bound, "max" if place == "max" else "min")


def _check(called: Command | Sequence) -> ParameterCheck:
    optional = optional_names(called.scpi) if isinstance(called, Command) else frozenset()
    return compile_parameters(called.name, called.parameters, called.checks, optional)


def _is_valid(check: ParameterCheck, arguments: Arguments) -> bool:
    try:
        check.validate(arguments)
    except Invalid:
        return False
    return True


def switches(state: Any) -> list[bool]:
    """Every ``is_on`` that a simulation tells of."""
    if not isinstance(state, dict):
        return []
    inner = [switch for value in state.values() for switch in switches(value)]
    return [*inner, *([state["is_on"]] if "is_on" in state else [])]
