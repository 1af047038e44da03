"""Digilent Analog Discovery (1, 2, 3, Studio) by WaveForms' library: scope, generator, supplies.

The library is ``libdwf.so`` (``dwf.dll`` on Windows), which comes with Digilent's WaveForms;
another place is told by ``SDK_LIBRARIES: {dwf: /opt/libdwf.so}``. It is loaded when the wrapper is,
and a device is opened by the first call that needs one. Only one program at a time may have it
open: close WaveForms, or stop the engine. When the worker ends properly the device shuts down its
outputs.

Settings, in SDK_SETTINGS under this file's name: ``serial`` (else the first device is taken),
``max_volts`` (5: of the generator and of each supply), ``settle_s`` (2: for the inputs after
opening).

Every function of the library gives 1 when it went well, else the reason is asked. The C types
matter: a state, a function and a trigger source are bytes, everything measured is a double.
Source: Digilent's dwf.h and its SDK samples. Nobody has tried this on hardware yet.
"""

from __future__ import annotations

import ctypes
import math
import sys
import time
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_ubyte
from typing import Any

from edged.sdk.wrapper import NotConnected, SdkMissing, library, setting

__all__ = ["MCP_TOOL_SPECS", "Wrapper", "check_library"]

# The chip of the Analog Discovery 1 and 2, which other makers' devices have too; Digilent's own.
USB_IDS = ["0403:6014", "1443:*"]
MAX_VOLTS = float(setting("max_volts", "5"))
SETTLE_S = float(setting("settle_s", "2"))
POLL_S = 0.005
FIRST_DEVICE = -1
ON_CLOSE, SHUT_DOWN = 4, 2
ALREADY_OPENED = 3
CARRIER = 0
SINGLE, DECIMATE, EDGE = 0, 0, 0
NO_TRIGGER, ANALOG_IN = 0, 2
STATE_DONE, STATE_RUNNING = 2, 3
SHAPES = {
    "dc": 0,
    "sine": 1,
    "square": 2,
    "triangle": 3,
    "ramp_up": 4,
    "ramp_down": 5,
    "noise": 6,
}

P_INT, P_BYTE, P_DOUBLE = POINTER(c_int), POINTER(c_ubyte), POINTER(c_double)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "FDwfGetLastError": (P_INT,),
    "FDwfGetLastErrorMsg": (c_char_p,),
    "FDwfGetVersion": (c_char_p,),
    "FDwfParamSet": (c_int, c_int),
    "FDwfEnum": (c_int, P_INT),
    "FDwfEnumDeviceName": (c_int, c_char_p),
    "FDwfEnumSN": (c_int, c_char_p),
    "FDwfEnumDeviceIsOpened": (c_int, P_INT),
    "FDwfDeviceOpen": (c_int, P_INT),
    "FDwfDeviceClose": (c_int,),
    "FDwfAnalogInChannelEnableSet": (c_int, c_int, c_int),
    "FDwfAnalogInChannelRangeSet": (c_int, c_int, c_double),
    "FDwfAnalogInChannelOffsetSet": (c_int, c_int, c_double),
    "FDwfAnalogInChannelFilterSet": (c_int, c_int, c_int),
    "FDwfAnalogInFrequencySet": (c_int, c_double),
    "FDwfAnalogInFrequencyGet": (c_int, P_DOUBLE),
    "FDwfAnalogInBufferSizeInfo": (c_int, P_INT, P_INT),
    "FDwfAnalogInBufferSizeSet": (c_int, c_int),
    "FDwfAnalogInAcquisitionModeSet": (c_int, c_int),
    "FDwfAnalogInTriggerSourceSet": (c_int, c_ubyte),
    "FDwfAnalogInTriggerAutoTimeoutSet": (c_int, c_double),
    "FDwfAnalogInTriggerChannelSet": (c_int, c_int),
    "FDwfAnalogInTriggerTypeSet": (c_int, c_int),
    "FDwfAnalogInTriggerLevelSet": (c_int, c_double),
    "FDwfAnalogInTriggerConditionSet": (c_int, c_int),
    "FDwfAnalogInConfigure": (c_int, c_int, c_int),
    "FDwfAnalogInStatus": (c_int, c_int, P_BYTE),
    "FDwfAnalogInStatusSamplesValid": (c_int, P_INT),
    "FDwfAnalogInStatusData": (c_int, c_int, P_DOUBLE, c_int),
    "FDwfAnalogInStatusSample": (c_int, c_int, P_DOUBLE),
    "FDwfAnalogOutNodeEnableSet": (c_int, c_int, c_int, c_int),
    "FDwfAnalogOutNodeFunctionSet": (c_int, c_int, c_int, c_ubyte),
    "FDwfAnalogOutNodeFrequencySet": (c_int, c_int, c_int, c_double),
    "FDwfAnalogOutNodeFrequencyGet": (c_int, c_int, c_int, P_DOUBLE),
    "FDwfAnalogOutNodeAmplitudeSet": (c_int, c_int, c_int, c_double),
    "FDwfAnalogOutNodeAmplitudeGet": (c_int, c_int, c_int, P_DOUBLE),
    "FDwfAnalogOutNodeOffsetSet": (c_int, c_int, c_int, c_double),
    "FDwfAnalogOutNodeOffsetGet": (c_int, c_int, c_int, P_DOUBLE),
    "FDwfAnalogOutNodeSymmetrySet": (c_int, c_int, c_int, c_double),
    "FDwfAnalogOutConfigure": (c_int, c_int, c_int),
    "FDwfAnalogOutReset": (c_int, c_int),
    "FDwfAnalogOutStatus": (c_int, c_int, P_BYTE),
    "FDwfAnalogOutCount": (c_int, P_INT),
    "FDwfAnalogIOEnableSet": (c_int, c_int),
    "FDwfAnalogIOEnableStatus": (c_int, P_INT),
    "FDwfAnalogIOStatus": (c_int,),
    "FDwfAnalogIOChannelCount": (c_int, P_INT),
    "FDwfAnalogIOChannelName": (c_int, c_int, c_char_p, c_char_p),
    "FDwfAnalogIOChannelInfo": (c_int, c_int, P_INT),
    "FDwfAnalogIOChannelNodeName": (c_int, c_int, c_int, c_char_p, c_char_p),
    "FDwfAnalogIOChannelNodeSet": (c_int, c_int, c_int, c_double),
    "FDwfAnalogIOChannelNodeGet": (c_int, c_int, c_int, P_DOUBLE),
    "FDwfAnalogIOChannelNodeStatus": (c_int, c_int, c_int, P_DOUBLE),
}
"""Function → its arguments in C, as dwf.h has them; all give an int."""

CHANNEL = {"type": "int", "min": 1, "max": 4, "default": 1, "description": "Input, from 1."}
OUTPUT = {"type": "int", "min": 1, "max": 2, "default": 1, "description": "Output W1 or W2."}
SPAN = {
    "type": "float",
    "min": 0.1,
    "max": 50,
    "default": 5,
    "unit": "V",
    "description": "From the lowest to the highest voltage that is seen.",
}
VOLTS = {"type": "float", "unit": "V"}

MCP_TOOL_SPECS = [
    {
        "name": "list_devices",
        "description": "The devices that the library sees, and whether one is open already.",
        "method": "list_devices",
        "is_query": True,
        "timeout_s": 20,
        "returns": {"fields": {"library_version": {"type": "string"}, "devices": {"type": "list"}}},
    },
    {
        "name": "read_voltage",
        "description": "One reading of an input.",
        "method": "read_voltage",
        "parameters": {"channel": CHANNEL, "span": SPAN},
        "is_query": True,
        "is_essential": True,
        "returns": VOLTS,
    },
    {
        "name": "acquire",
        "description": "Record a piece of an input's signal. The device rounds the sample rate: "
        "use x_increment of the answer. With a trigger it waits for the edge, at most timeout.",
        "method": "acquire",
        "parameters": {
            "channel": CHANNEL,
            "sample_rate": {
                "type": "float",
                "min": 1,
                "max": 125e6,
                "default": 100_000,
                "unit": "Hz",
                "description": "Samples per second.",
            },
            "samples": {
                "type": "int",
                "min": 16,
                "max": 16_384,
                "default": 1_000,
                "description": "How many; the device may hold fewer.",
            },
            "span": SPAN,
            "trigger": {
                "type": "enum",
                "options": ["none", "rising", "falling"],
                "default": "none",
                "description": "The edge that begins it.",
            },
            "level": {
                "type": "float",
                "min": -25,
                "max": 25,
                "default": 0,
                "unit": "V",
                "description": "Of the edge.",
            },
            "timeout": {
                "type": "float",
                "min": 0.1,
                "max": 20,
                "default": 5,
                "unit": "s",
                "description": "How long to wait for the edge.",
            },
        },
        "checks": ["samples / sample_rate <= 20"],
        "is_query": True,
        "is_essential": True,
        "timeout_s": 60,
        "returns": {
            "fields": {
                "y": {"type": "list", "unit": "V"},
                "x_increment": {"type": "float", "unit": "s"},
                "min": VOLTS,
                "max": VOLTS,
                "mean": VOLTS,
                "rms": VOLTS,
            }
        },
    },
    {
        "name": "generate",
        "description": "Put a signal on an output, until stop_generator. What the device made of "
        "the wishes comes back.",
        "method": "generate",
        "parameters": {
            "output": OUTPUT,
            "shape": {"type": "enum", "options": list(SHAPES), "description": "Its form."},
            "frequency": {
                "type": "float",
                "min": 0.001,
                "max": 10e6,
                "default": 1_000,
                "unit": "Hz",
            },
            "amplitude": {
                "type": "float",
                "min": 0,
                "max": MAX_VOLTS,
                "default": 1,
                "unit": "V",
                "description": "From the middle to the top.",
            },
            "offset": {
                "type": "float",
                "min": -MAX_VOLTS,
                "max": MAX_VOLTS,
                "default": 0,
                "unit": "V",
                "description": "Of the middle; with shape dc the voltage itself.",
            },
            "symmetry": {
                "type": "float",
                "min": 0,
                "max": 100,
                "default": 50,
                "unit": "%",
                "description": "Of a square wave its duty.",
            },
        },
        "checks": [f"amplitude + offset <= {MAX_VOLTS:g}", f"amplitude - offset <= {MAX_VOLTS:g}"],
        "is_dangerous": True,
        "returns": {
            "fields": {
                "frequency": {"type": "float", "unit": "Hz"},
                "amplitude": VOLTS,
                "offset": VOLTS,
                "is_running": {"type": "bool"},
            }
        },
    },
    {
        "name": "stop_generator",
        "description": "End the signal on one output.",
        "method": "stop_generator",
        "parameters": {"output": OUTPUT},
        "is_safe": True,
        "returns": {"fields": {"is_running": {"type": "bool"}}},
    },
    {
        "name": "set_supplies",
        "description": "Switch the device's own supplies on: V+ and V- to these voltages, one that "
        "is 0 stays off. An Analog Discovery 1 has +5 V and -5 V and nothing between.",
        "method": "set_supplies",
        "parameters": {
            "positive": {
                "type": "float",
                "min": 0,
                "max": MAX_VOLTS,
                "default": 0,
                "unit": "V",
                "description": "Of V+.",
            },
            "negative": {
                "type": "float",
                "min": -MAX_VOLTS,
                "max": 0,
                "default": 0,
                "unit": "V",
                "description": "Of V-.",
            },
        },
        "is_dangerous": True,
        "returns": {"fields": {"is_on": {"type": "bool"}, "supplies": {"type": "object"}}},
    },
    {
        "name": "read_supplies",
        "description": "Whether the supplies are on, and what they are set to.",
        "method": "read_supplies",
        "is_query": True,
        "returns": {"fields": {"is_on": {"type": "bool"}, "supplies": {"type": "object"}}},
    },
    {
        "name": "outputs_off",
        "description": "End every signal and switch the supplies off, and see that they are.",
        "method": "outputs_off",
        "is_safe": True,
        "is_abort": True,
        "is_essential": True,
        "returns": {"fields": {"is_on": {"type": "bool"}}},
    },
]


def check_library() -> None:
    """Called once when the wrapper is loaded, so that doctor can say what is missing."""
    Dwf().version()


class DwfError(Exception):
    """What the library said about a call that it refused."""

    def __init__(self, name: str, code: int, text: str) -> None:
        super().__init__(f"{name} failed with error {code}: {text or 'no reason was given'}")
        self.code = code


class Dwf:
    """The library, with the types that its functions take."""

    def __init__(self) -> None:
        name = library("dwf", "dwf.dll" if sys.platform == "win32" else "libdwf.so")
        remedy = (
            "Install Digilent WaveForms (on Linux with the Adept Runtime), or say where its "
            "library is: SDK_LIBRARIES: {dwf: /path/to/libdwf.so}."
        )
        try:
            self._library = ctypes.CDLL(name)
            for function, types in SIGNATURES.items():
                bound = getattr(self._library, function)
                bound.argtypes, bound.restype = types, c_int
        except OSError as error:
            raise SdkMissing(f"{name} could not be loaded: {error}", remedy) from error
        except AttributeError as error:
            raise SdkMissing(f"{name} is too old or another library: {error}", remedy) from error

    def version(self) -> str:
        """Of the library."""
        return self.text("FDwfGetVersion", size=32)

    def do(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            DwfError: it did not give 1.
        """
        if getattr(self._library, name)(*arguments):
            return
        code = c_int()
        text = ctypes.create_string_buffer(512)
        self._library.FDwfGetLastError(byref(code))
        self._library.FDwfGetLastErrorMsg(text)
        raise DwfError(name, code.value, text.value.decode("utf-8", "replace").strip())

    def whole(self, name: str, *arguments: Any) -> int:
        """Call a function whose last argument takes an int."""
        found = c_int()
        self.do(name, *arguments, byref(found))
        return found.value

    def state(self, name: str, *arguments: Any) -> int:
        """Call a function whose last argument takes a state, which is one byte."""
        found = c_ubyte()
        self.do(name, *arguments, byref(found))
        return found.value

    def real(self, name: str, *arguments: Any) -> float:
        """Call a function whose last argument takes a double."""
        found = c_double()
        self.do(name, *arguments, byref(found))
        return found.value

    def text(self, name: str, *arguments: Any, size: int) -> str:
        """Call a function whose last argument takes a text of that many bytes."""
        found = ctypes.create_string_buffer(size)
        self.do(name, *arguments, found)
        return found.value.decode("utf-8", "replace")


class Wrapper:
    """The tools, over one device."""

    def __init__(self) -> None:
        self._dwf = Dwf()
        self._handle = 0

    def close(self) -> None:
        """Close the device, which shuts its outputs down."""
        if self._handle:
            handle, self._handle = self._handle, 0
            self._dwf.do("FDwfDeviceClose", handle)

    def list_devices(self) -> dict[str, Any]:
        """See the specification."""
        dwf = self._dwf
        return {
            "library_version": dwf.version(),
            "devices": [
                {
                    "name": dwf.text("FDwfEnumDeviceName", index, size=32),
                    "serial": dwf.text("FDwfEnumSN", index, size=32),
                    "is_open": bool(dwf.whole("FDwfEnumDeviceIsOpened", index)),
                }
                for index in range(dwf.whole("FDwfEnum", 0))
            ],
        }

    def read_voltage(self, channel: int, span: float) -> float:
        """See the specification."""
        dwf, handle = self._dwf, self._opened()
        self._set_up_input(channel, span)
        dwf.do("FDwfAnalogInConfigure", handle, 0, 0)
        dwf.state("FDwfAnalogInStatus", handle, 0)
        return dwf.real("FDwfAnalogInStatusSample", handle, channel - 1)

    def acquire(
        self,
        channel: int,
        sample_rate: float,
        samples: int,
        span: float,
        trigger: str,
        level: float,
        timeout: float,
    ) -> dict[str, Any]:
        """See the specification."""
        dwf, handle = self._dwf, self._opened()
        self._set_up_input(channel, span)
        least, most = c_int(), c_int()
        dwf.do("FDwfAnalogInBufferSizeInfo", handle, byref(least), byref(most))
        if samples > most.value:
            raise ValueError(f"This device holds at most {most.value} samples, not {samples}.")
        dwf.do("FDwfAnalogInBufferSizeSet", handle, samples)
        dwf.do("FDwfAnalogInFrequencySet", handle, sample_rate)
        rate = dwf.real("FDwfAnalogInFrequencyGet", handle)
        dwf.do("FDwfAnalogInAcquisitionModeSet", handle, SINGLE)
        self._set_up_trigger(channel, trigger, level)
        dwf.do("FDwfAnalogInConfigure", handle, 1, 1)
        self._wait_done(samples / rate + (timeout if trigger != "none" else 1.0), trigger)
        count = min(samples, dwf.whole("FDwfAnalogInStatusSamplesValid", handle))
        data = (c_double * max(count, 1))()
        dwf.do("FDwfAnalogInStatusData", handle, channel - 1, data, count)
        return _summed_up([float(v) for v in data[:count]], 1 / rate)

    def generate(
        self,
        output: int,
        shape: str,
        frequency: float,
        amplitude: float,
        offset: float,
        symmetry: float,
    ) -> dict[str, Any]:
        """See the specification."""
        dwf, at = self._dwf, (self._opened(), output - 1, CARRIER)
        dwf.do("FDwfAnalogOutNodeEnableSet", *at, 1)
        dwf.do("FDwfAnalogOutNodeFunctionSet", *at, SHAPES[shape])
        dwf.do("FDwfAnalogOutNodeFrequencySet", *at, frequency)
        dwf.do("FDwfAnalogOutNodeAmplitudeSet", *at, amplitude)
        dwf.do("FDwfAnalogOutNodeOffsetSet", *at, offset)
        dwf.do("FDwfAnalogOutNodeSymmetrySet", *at, symmetry)
        dwf.do("FDwfAnalogOutConfigure", *at[:2], 1)
        return {
            "frequency": dwf.real("FDwfAnalogOutNodeFrequencyGet", *at),
            "amplitude": dwf.real("FDwfAnalogOutNodeAmplitudeGet", *at),
            "offset": dwf.real("FDwfAnalogOutNodeOffsetGet", *at),
            "is_running": self._is_running(output - 1),
        }

    def stop_generator(self, output: int) -> dict[str, Any]:
        """See the specification."""
        self._stop(output - 1)
        return {"is_running": self._is_running(output - 1)}

    def set_supplies(self, positive: float, negative: float) -> dict[str, Any]:
        """See the specification."""
        dwf, handle = self._dwf, self._opened()
        wanted = {"V+": positive, "V-": negative}
        nodes = self._supply_nodes()
        for label, volts in wanted.items():
            if volts and label not in nodes:
                raise ValueError(f"This device has no supply {label}.")
            if volts and "Voltage" not in nodes[label] and abs(abs(volts) - 5) > 1e-6:
                raise ValueError(f"{label} of this device is 5 V or off, not {volts:g} V.")
        for label, places in nodes.items():
            volts = wanted[label]
            if volts and "Voltage" in places:
                dwf.do("FDwfAnalogIOChannelNodeSet", handle, *places["Voltage"], volts)
            dwf.do("FDwfAnalogIOChannelNodeSet", handle, *places["Enable"], 1.0 if volts else 0.0)
        dwf.do("FDwfAnalogIOEnableSet", handle, int(bool(positive or negative)))
        return self.read_supplies()

    def read_supplies(self) -> dict[str, Any]:
        """See the specification."""
        dwf, handle = self._dwf, self._opened()
        dwf.do("FDwfAnalogIOStatus", handle)
        supplies = {
            label: {
                name.lower(): dwf.real("FDwfAnalogIOChannelNodeGet", handle, *place)
                for name, place in places.items()
            }
            for label, places in self._supply_nodes().items()
        }
        is_on = bool(dwf.whole("FDwfAnalogIOEnableStatus", handle))
        return {"is_on": is_on, "supplies": supplies}

    def outputs_off(self) -> dict[str, Any]:
        """See the specification."""
        dwf, handle = self._dwf, self._opened()
        dwf.do("FDwfAnalogIOEnableSet", handle, 0)
        outputs = range(dwf.whole("FDwfAnalogOutCount", handle))
        for output in outputs:
            self._stop(output)
        running = [output for output in outputs if self._is_running(output)]
        dwf.do("FDwfAnalogIOStatus", handle)
        if running or dwf.whole("FDwfAnalogIOEnableStatus", handle):
            raise RuntimeError("Outputs were switched off, but the device says that some are on.")
        return {"is_on": False}

    def _opened(self) -> int:
        """The device's handle; opens it when there is none."""
        if self._handle:
            return self._handle
        dwf = self._dwf
        dwf.do("FDwfParamSet", ON_CLOSE, SHUT_DOWN)
        index = self._index_of(setting("serial"))
        try:
            self._handle = dwf.whole("FDwfDeviceOpen", index)
        except DwfError as error:
            if error.code == ALREADY_OPENED:
                raise NotConnected(
                    "Another program has the device open.", "Close WaveForms, then call again."
                ) from error
            raise NotConnected(
                f"The device could not be opened: {error}",
                "See that it is connected, and that edged may use USB devices.",
            ) from error
        pause(SETTLE_S)
        return self._handle

    def _index_of(self, serial: str) -> int:
        devices = self.list_devices()["devices"]
        if not devices:
            raise NotConnected("No Analog Discovery is connected.", "Connect one by USB.")
        if not serial:
            return FIRST_DEVICE
        for index, device in enumerate(devices):
            if serial in device["serial"]:
                return index
        seen = ", ".join(device["serial"] for device in devices)
        raise NotConnected(
            f"No device has the serial number {serial}.", f"Those connected: {seen}."
        )

    def _set_up_input(self, channel: int, volts: float) -> None:
        dwf, handle, index = self._dwf, self._opened(), channel - 1
        dwf.do("FDwfAnalogInChannelEnableSet", handle, index, 1)
        dwf.do("FDwfAnalogInChannelOffsetSet", handle, index, 0.0)
        dwf.do("FDwfAnalogInChannelRangeSet", handle, index, volts)
        dwf.do("FDwfAnalogInChannelFilterSet", handle, index, DECIMATE)

    def _set_up_trigger(self, channel: int, trigger: str, level: float) -> None:
        dwf, handle = self._dwf, self._opened()
        # 0: no automatic one. The wait has a deadline of its own.
        dwf.do("FDwfAnalogInTriggerAutoTimeoutSet", handle, 0.0)
        if trigger == "none":
            dwf.do("FDwfAnalogInTriggerSourceSet", handle, NO_TRIGGER)
            return
        dwf.do("FDwfAnalogInTriggerSourceSet", handle, ANALOG_IN)
        dwf.do("FDwfAnalogInTriggerTypeSet", handle, EDGE)
        dwf.do("FDwfAnalogInTriggerChannelSet", handle, channel - 1)
        dwf.do("FDwfAnalogInTriggerLevelSet", handle, level)
        dwf.do("FDwfAnalogInTriggerConditionSet", handle, 0 if trigger == "rising" else 1)

    def _wait_done(self, within_s: float, trigger: str) -> None:
        dwf, handle = self._dwf, self._opened()
        until = time.monotonic() + within_s
        while dwf.state("FDwfAnalogInStatus", handle, 1) != STATE_DONE:
            if time.monotonic() > until:
                dwf.do("FDwfAnalogInConfigure", handle, 0, 0)
                what = "no sample came" if trigger == "none" else f"no {trigger} edge came"
                raise TimeoutError(f"{what} within {within_s:.3g} s; the recording was ended.")
            pause(POLL_S)

    def _stop(self, index: int) -> None:
        """Stopped, an output may stay at its last level; reset, it is at 0 V."""
        self._dwf.do("FDwfAnalogOutConfigure", self._opened(), index, 0)
        self._dwf.do("FDwfAnalogOutReset", self._opened(), index)

    def _is_running(self, index: int) -> bool:
        return self._dwf.state("FDwfAnalogOutStatus", self._opened(), index) == STATE_RUNNING

    def _supply_nodes(self) -> dict[str, dict[str, tuple[int, int]]]:
        """V+ and V- → the places of their nodes Enable, Voltage, Current: found by their names."""
        dwf, handle = self._dwf, self._opened()
        found: dict[str, dict[str, tuple[int, int]]] = {}
        for channel in range(dwf.whole("FDwfAnalogIOChannelCount", handle)):
            name, label = ctypes.create_string_buffer(32), ctypes.create_string_buffer(16)
            dwf.do("FDwfAnalogIOChannelName", handle, channel, name, label)
            key = label.value.decode("utf-8", "replace")
            if key not in ("V+", "V-"):
                continue
            nodes: dict[str, tuple[int, int]] = {}
            for node in range(dwf.whole("FDwfAnalogIOChannelInfo", handle, channel)):
                title, unit = ctypes.create_string_buffer(32), ctypes.create_string_buffer(16)
                dwf.do("FDwfAnalogIOChannelNodeName", handle, channel, node, title, unit)
                nodes[title.value.decode("utf-8", "replace")] = (channel, node)
            if "Enable" in nodes:
                found[key] = nodes
        return found


def pause(seconds: float) -> None:
    """Wait; this is a process of its own, in which nothing else is to be done."""
    time.sleep(seconds)  # noqa: TID251


def _summed_up(data: list[float], x_increment: float) -> dict[str, Any]:
    count = len(data) or 1
    return {
        "y": [round(volts, 6) for volts in data],
        "x_increment": x_increment,
        "x_unit": "s",
        "y_unit": "V",
        "min": min(data, default=None),
        "max": max(data, default=None),
        "mean": math.fsum(data) / count,
        "rms": math.sqrt(math.fsum(v * v for v in data) / count),
    }
