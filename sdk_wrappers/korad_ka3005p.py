"""Korad KA3005P bench supplies and their family: Tenma 72-2540/2550, Velleman, RND 320, Stamos.

One channel on a USB serial port, 9600 8N1. The protocol has no line ends at all: commands go out
bare, and an answer is over when its few characters are there, or when the line falls silent.
Setters never answer, so whatever is set here is asked back. Some units (Tenma 72-2550) let a stale
byte follow the answer to ``ISET1?``; it is dropped before the next command.

Settings, in SDK_SETTINGS under this file's name: ``port`` (else the one unit at USB 0416:5011 is
taken), ``max_volts`` and ``max_amps`` (30 and 5 unless set: raise them for a KA6003P, lower them to
protect what is connected). Another supply: a file beside this one, ``korad_left.py``, with the line
``from korad_ka3005p import *``, and settings of its own.

Nobody has tried this on hardware yet.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeVar

import serial
from serial.tools import list_ports

from edged.sdk.wrapper import NotConnected, setting

__all__ = ["MCP_TOOL_SPECS", "Supply", "Wrapper"]

USB_ID = (0x0416, 0x5011)
USB_IDS = ["0416:5011"]
FAMILY = re.compile(r"KORAD|TENMA|VELLEMAN|RND|S-LS", re.IGNORECASE)
PACE_S = 0.08
"""Between two commands: what comes sooner is lost."""
SILENCE_S = 0.1
ANSWER_S = 1.0
OUTPUT_BIT, CV_BIT = 0x40, 0x01
"""Of the status byte; the others mean different things in different firmware."""

MAX_VOLTS = float(setting("max_volts", "30"))
MAX_AMPS = float(setting("max_amps", "5"))

Result = TypeVar("Result")
VOLTS = {"type": "float", "unit": "V"}
AMPS = {"type": "float", "unit": "A"}

MCP_TOOL_SPECS = [
    {
        "name": "identify",
        "description": "What the supply says it is, and at which port.",
        "method": "identify",
        "is_query": True,
        "returns": {"fields": {"identity": {"type": "string"}, "port": {"type": "string"}}},
    },
    {
        "name": "read_output",
        "description": "Measure the output's voltage and current, and whether it is on and in "
        "constant voltage (CV) or constant current (CC).",
        "method": "read_output",
        "is_query": True,
        "is_essential": True,
        "returns": {
            "fields": {
                "volts": VOLTS,
                "amps": AMPS,
                "is_on": {"type": "bool"},
                "mode": {"type": "string"},
            }
        },
    },
    {
        "name": "read_set_points",
        "description": "The voltage and the current limit that are set.",
        "method": "read_set_points",
        "is_query": True,
        "returns": {"fields": {"volts": VOLTS, "amps": AMPS}},
    },
    {
        "name": "set_voltage",
        "description": "Set the voltage, and ask it back. With the output on it changes at once.",
        "method": "set_voltage",
        "parameters": {
            "volts": {
                "type": "float",
                "min": 0,
                "max": MAX_VOLTS,
                "unit": "V",
                "step": 0.01,
                "description": "The new set-point.",
            }
        },
        "returns": VOLTS,
    },
    {
        "name": "set_current",
        "description": "Set the current limit, and ask it back.",
        "method": "set_current",
        "parameters": {
            "amps": {
                "type": "float",
                "min": 0,
                "max": MAX_AMPS,
                "unit": "A",
                "step": 0.001,
                "description": "The new limit.",
            }
        },
        "returns": AMPS,
    },
    {
        "name": "output_on",
        "description": "Switch the output on; refused while a set-point is over the owner's "
        "limits, as the front panel or a memory may have left it.",
        "method": "output_on",
        "is_dangerous": True,
        "is_essential": True,
        "returns": {"fields": {"volts": VOLTS, "amps": AMPS, "is_on": {"type": "bool"}}},
    },
    {
        "name": "output_off",
        "description": "Switch the output off, and see that it is.",
        "method": "output_off",
        "is_safe": True,
        "is_abort": True,
        "is_essential": True,
        "returns": {"fields": {"is_on": {"type": "bool"}}},
    },
    {
        "name": "set_protection",
        "description": "Arm or disarm a protection, which switches the output off when it is "
        "tripped. The supply does not tell reliably whether it is armed, so this is not verified.",
        "method": "set_protection",
        "parameters": {
            "kind": {
                "type": "enum",
                "map": {"over_voltage": "OVP", "over_current": "OCP"},
                "description": "Which one.",
            },
            "is_armed": {"type": "bool", "description": "Armed or not."},
        },
    },
    {
        "name": "recall",
        "description": "Take the set-points of one of the five memories; the output goes off.",
        "method": "recall",
        "parameters": {"memory": {"type": "int", "min": 1, "max": 5}},
        "returns": {"fields": {"volts": VOLTS, "amps": AMPS}},
    },
]


class Supply:
    """One open supply.

    Args:
        port: an open serial port whose time-out is ``SILENCE_S``; it is set once, because setting
            it before each read loses answers on some Windows drivers.
        name: the port's name, for messages.
        pause, now: time; a test has its own.
    """

    def __init__(
        self,
        port: serial.Serial,
        name: str,
        *,
        pause: Callable[[float], None] = time.sleep,  # noqa: TID251 - a process of its own
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._port = port
        self.name = name
        self._pause = pause
        self._now = now
        self._free_at = 0.0

    def close(self) -> None:
        """Close the port; the output stays as it is."""
        self._port.close()

    def identity(self) -> str:
        """The answer to ``*IDN?``, which has no fixed length."""
        self.send("*IDN?")
        text = b""
        until = self._now() + ANSWER_S
        while self._now() < until:
            part = self._port.read(64)
            text += part
            if text and not part:
                break
        return text.decode("ascii", "replace").strip("\0\r\n ")

    def number(self, query: str) -> float:
        """The five characters that every number has."""
        text = self._exactly(5, query).decode("ascii", "replace")
        if not re.fullmatch(r"[0-9]{1,2}\.[0-9]{2,3}", text):
            raise ValueError(f"{query} was answered with {text!r}, which is not a number.")
        return float(text)

    def status(self) -> int:
        """The one raw byte of ``STATUS?``."""
        return self._exactly(1, "STATUS?")[0]

    def send(self, command: str) -> None:
        """Send bare characters, not before the supply is ready, and on an empty line."""
        wait_s = self._free_at - self._now()
        if wait_s > 0:
            self._pause(wait_s)
        self._port.reset_input_buffer()
        self._port.write(command.encode("ascii"))
        self._port.flush()
        self._free_at = self._now() + PACE_S

    def _exactly(self, count: int, query: str) -> bytes:
        self.send(query)
        answer = b""
        until = self._now() + ANSWER_S
        while len(answer) < count and self._now() < until:
            answer += self._port.read(count - len(answer))
        if len(answer) < count:
            raise NotConnected(
                f"The supply at {self.name} did not answer {query} within {ANSWER_S:g} s.",
                "Switch it on, and see that its cable is in.",
            )
        # What follows (a stale byte after ISET1?) is dropped before the next command.
        self._free_at = self._now() + PACE_S
        return answer


class Wrapper:
    """The tools. The port is opened by the first call, and anew after every failure of it."""

    def __init__(self, open_port: Callable[[], Supply] | None = None) -> None:
        self._open_port = open_port or open_supply
        self._supply: Supply | None = None
        self._identity = ""

    def close(self) -> None:
        """Let go of the port."""
        supply, self._supply = self._supply, None
        if supply is not None:
            supply.close()

    def identify(self) -> dict[str, str]:
        """See the specification."""
        return self._with(lambda supply: {"identity": self._identity, "port": supply.name})

    def read_output(self) -> dict[str, object]:
        """See the specification."""
        return self._with(
            lambda supply: {
                "volts": supply.number("VOUT1?"),
                "amps": supply.number("IOUT1?"),
                **_told(supply.status()),
            }
        )

    def read_set_points(self) -> dict[str, float]:
        """See the specification."""
        return self._with(_set_points)

    def set_voltage(self, volts: float) -> float:
        """See the specification."""
        return self._with(lambda s: _set(s, f"VSET1:{volts:05.2f}", "VSET1?", volts, 0.006))

    def set_current(self, amps: float) -> float:
        """See the specification."""
        return self._with(lambda s: _set(s, f"ISET1:{amps:05.3f}", "ISET1?", amps, 0.0006))

    def output_on(self) -> dict[str, object]:
        """See the specification."""
        return self._with(_switch_on)

    def output_off(self) -> dict[str, object]:
        """See the specification."""
        return self._with(_switch_off)

    def set_protection(self, kind: str, *, is_armed: bool) -> dict[str, object]:
        """See the specification."""

        def arm(supply: Supply) -> dict[str, object]:
            supply.send(f"{kind}{int(is_armed)}")
            return {"sent": f"{kind}{int(is_armed)}", "is_verified": False}

        return self._with(arm)

    def recall(self, memory: int) -> dict[str, float]:
        """See the specification."""

        def take(supply: Supply) -> dict[str, float]:
            _switch_off(supply)
            supply.send(f"RCL{memory}")
            _switch_off(supply)
            found = _set_points(supply)
            _check_limits(found)
            return found

        return self._with(take)

    def _with(self, act: Callable[[Supply], Result]) -> Result:
        """Do something with the supply; after a failure of its line it is opened anew."""
        try:
            return act(self._opened())
        except serial.SerialException as error:
            self.close()
            raise NotConnected(
                f"The connection to the supply failed: {error}",
                "See that its cable is in; the next call opens it anew.",
            ) from error
        except (NotConnected, ValueError):
            # What was left on the line must not answer the next question.
            self.close()
            raise

    def _opened(self) -> Supply:
        if self._supply is None:
            supply = self._open_port()
            try:
                self._identity = _checked(supply.identity(), supply.name)
            except BaseException:
                supply.close()
                raise
            self._supply = supply
        return self._supply


def open_supply() -> Supply:
    """Open the port of the settings, or that of the one unit on USB."""
    name = setting("port") or _found_port()
    try:
        port = serial.Serial(name, 9600, timeout=SILENCE_S, write_timeout=ANSWER_S, exclusive=True)
    except (serial.SerialException, ValueError) as error:
        raise NotConnected(
            f"The port {name} could not be opened: {error}",
            "See that it is there, that no other program has it, and that edged may use it "
            "(on Linux the group dialout).",
        ) from error
    return Supply(port, name)


def _checked(identity: str, port: str) -> str:
    if not FAMILY.search(identity):
        raise NotConnected(
            f"What answers at {port} says {identity[:60]!r}, and is not a supply of this family.",
            "Name the right port in SDK_SETTINGS.",
        )
    return identity


def _found_port() -> str:
    found = [p.device for p in list_ports.comports() if (p.vid, p.pid) == USB_ID]
    if len(found) == 1:
        return str(found[0])
    what = f"{len(found)} supplies are" if found else "No Korad supply is"
    raise NotConnected(
        f"{what} on USB (0416:5011){': ' if found else ''}{', '.join(found)}.",
        "Name its serial port: SDK_SETTINGS: {korad_ka3005p: {port: /dev/ttyACM0}}.",
    )


def _set(supply: Supply, command: str, query: str, wanted: float, tolerance: float) -> float:
    supply.send(command)
    found = supply.number(query)
    if abs(found - wanted) > tolerance:
        raise RuntimeError(f"{command} was sent, but {query} answers {found:g}.")
    return found


def _set_points(supply: Supply) -> dict[str, float]:
    return {"volts": supply.number("VSET1?"), "amps": supply.number("ISET1?")}


def _check_limits(found: dict[str, float]) -> None:
    for value, most, unit in ((found["volts"], MAX_VOLTS, "V"), (found["amps"], MAX_AMPS, "A")):
        if value > most + 1e-9:
            raise RuntimeError(
                f"The set-point {value:g} {unit} is over the limit {most:g} {unit} of this bench."
            )


def _switch_on(supply: Supply) -> dict[str, object]:
    found = _set_points(supply)
    _check_limits(found)
    supply.send("OUT1")
    if not supply.status() & OUTPUT_BIT:
        raise RuntimeError("OUT1 was sent, but the supply says that its output is off.")
    return {**found, "is_on": True}


def _switch_off(supply: Supply) -> dict[str, object]:
    for _attempt in range(3):
        supply.send("OUT0")
        if not supply.status() & OUTPUT_BIT:
            return {"is_on": False}
    raise RuntimeError("OUT0 was sent three times, but the supply says that its output is on.")


def _told(status: int) -> dict[str, object]:
    return {
        "is_on": bool(status & OUTPUT_BIT),
        "mode": "CV" if status & CV_BIT else "CC",
        "status_byte": status,
    }
