"""The Korad wrapper over a scripted port: pace, framing, and what it does when nobody answers."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import serial

from edged.sdk.specs import SpecSource, read_specs
from edged.sdk.wrapper import NotConnected

PATH = Path(__file__).resolve().parents[3] / "sdk_wrappers" / "korad_ka3005p.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("korad_under_test", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


korad: Any = load()


class ScriptedPort:
    """Answers by what was written; time is what reading and pausing take."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        self.answers = {"*IDN?": b"TENMA 72-2550 V2.1", "STATUS?": b"\x10", **answers}
        self.written: list[tuple[float, str]] = []
        self.waiting = b""
        self.time = 0.0
        self.is_closed = False
        self.is_unplugged = False

    def supply(self) -> Any:
        return korad.Supply(self, "COM7", pause=self.pause, now=lambda: self.time)

    def pause(self, seconds: float) -> None:
        self.time += seconds

    def write(self, data: bytes) -> None:
        if self.is_unplugged:
            raise serial.SerialException("device reports readiness to read but returned no data")
        self.written.append((self.time, data.decode()))
        self.waiting += self.answers.get(data.decode(), b"")

    def read(self, count: int) -> bytes:
        part, self.waiting = self.waiting[:count], self.waiting[count:]
        self.time += 0.1 if len(part) < count else 0.001
        return part

    def flush(self) -> None: ...

    def reset_input_buffer(self) -> None:
        self.waiting = b""

    def close(self) -> None:
        self.is_closed = True


def wrapper_on(port: ScriptedPort) -> Any:
    return korad.Wrapper(port.supply)


def test_commands_are_bare_and_never_closer_than_the_supply_can_bear() -> None:
    port = ScriptedPort({"VSET1?": b"05.00", "ISET1?": b"1.000T"})
    wrapper = wrapper_on(port)
    assert wrapper.set_voltage(5) == 5.0
    assert wrapper.set_current(1) == 1.0
    assert wrapper.read_set_points() == {"volts": 5.0, "amps": 1.0}
    sent = [text for _, text in port.written]
    assert sent == ["*IDN?", "VSET1:05.00", "VSET1?", "ISET1:1.000", "ISET1?", "VSET1?", "ISET1?"]
    times = [time for time, _ in port.written]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) >= korad.PACE_S - 1e-9


def test_a_set_point_that_was_not_taken_is_an_error() -> None:
    wrapper = wrapper_on(ScriptedPort({"VSET1?": b"04.00"}))
    with pytest.raises(RuntimeError, match=r"VSET1:05.00 was sent, but VSET1\? answers 4"):
        wrapper.set_voltage(5)


def test_silence_closes_the_port_and_the_next_call_opens_it_anew() -> None:
    port = ScriptedPort({})
    wrapper = wrapper_on(port)
    with pytest.raises(NotConnected, match="COM7 did not answer VOUT1") as silent:
        wrapper.read_output()
    assert "Switch it on" in silent.value.remedy
    assert port.is_closed
    port.answers |= {"VOUT1?": b"05.00", "IOUT1?": b"0.500", "STATUS?": b"\x51"}
    assert wrapper.read_output()["is_on"] is True


def test_garbage_is_no_number() -> None:
    port = ScriptedPort({"VSET1?": b"\xff.\x0000", "ISET1?": b"1.000"})
    with pytest.raises(ValueError, match="which is not a number"):
        wrapper_on(port).read_set_points()
    assert port.is_closed, "what is left on the line must answer nothing else"


def test_another_instrument_at_the_port_is_left_alone() -> None:
    port = ScriptedPort({"*IDN?": b"RIGOL TECHNOLOGIES,DP832,1,1\n"})
    with pytest.raises(NotConnected, match="is not a supply of this family"):
        wrapper_on(port).output_on()
    assert [text for _, text in port.written] == ["*IDN?"]
    assert port.is_closed


def test_a_cable_that_is_pulled_is_told_as_such() -> None:
    port = ScriptedPort({})
    wrapper = wrapper_on(port)
    wrapper.identify()
    port.is_unplugged = True
    with pytest.raises(NotConnected, match="The connection to the supply failed"):
        wrapper.output_off()


def test_a_port_that_is_not_there_and_a_supply_that_is_not_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SDK_SETTING_PORT", "/dev/there-is-no-such-port")
    with pytest.raises(NotConnected, match="could not be opened") as absent:
        korad.Wrapper().identify()
    assert "dialout" in absent.value.remedy


def test_its_specifications_are_sound_and_its_limits_the_owners(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SDK_SETTING_MAX_VOLTS", "12")
    source = SpecSource(stem="korad_ka3005p", path=str(PATH))
    specs = {spec.name: spec for spec in read_specs(load().MCP_TOOL_SPECS, source)}
    assert specs["set_voltage"].check.schema["properties"]["volts"]["maximum"] == 12
    assert specs["output_on"].is_dangerous
    assert specs["output_off"].is_safe
    assert specs["output_off"].is_abort
