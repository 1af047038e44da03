"""A wrapper of a vendor's library that does everything a library should not."""

import ctypes
import os
import sys
import time

MCP_TOOL_SPECS = [
    {
        "name": "add",
        "description": "Add two numbers, and print all over the place.",
        "method": "add",
        "parameters": {
            "a": {"type": "float", "min": 0, "max": 10, "unit": "V"},
            "b": {"type": "float"},
        },
        "is_query": True,
        "returns": {"type": "float", "unit": "V"},
    },
    {
        "name": "count",
        "description": "How often it was called in this life of the worker.",
        "method": "count",
        "is_query": True,
        "returns": {"type": "int"},
    },
    {
        "name": "write",
        "description": "Set something.",
        "method": "write",
        "parameters": {"mode": {"type": "enum", "map": {"slow": "S", "fast": "F"}}},
    },
    {"name": "arm", "description": "Output on.", "method": "arm", "is_dangerous": True},
    {
        "name": "off",
        "description": "Output off.",
        "method": "off",
        "is_safe": True,
        "is_abort": True,
    },
    {"name": "crash", "description": "Die of a bad pointer.", "method": "crash"},
    {
        "name": "hang",
        "description": "Never come back.",
        "method": "hang",
        "timeout_s": 0.4,
        "is_query": True,
    },
    {"name": "hang_long", "description": "Come back too late.", "method": "hang"},
    {"name": "leak", "description": "Take all memory.", "method": "leak"},
    {"name": "leave", "description": "End the process.", "method": "leave"},
    {"name": "fail", "description": "Raise.", "method": "fail"},
    {"name": "strange", "description": "Give what JSON has not.", "method": "strange"},
    {
        "name": "untrue",
        "description": "Give what was not promised.",
        "method": "untrue",
        "returns": {"type": "float"},
    },
    {"name": "flood", "description": "Print without end.", "method": "flood"},
]


class Wrapper:
    def __init__(self) -> None:
        self.calls = 0

    def count(self) -> int:
        self.calls += 1
        return self.calls


def add(a: float, b: float = 1.0) -> float:
    sys.stdout.write("garbage \x1b[31m from Python\n")
    os.write(1, b"\x00\xff\x00\x00\x00\x05garbage from the library\n")
    return a + b


def write(mode: str) -> str:
    return mode


def arm() -> str:
    return "on"


def off() -> str:
    return "off"


def crash() -> None:
    ctypes.string_at(0)


def hang() -> None:
    time.sleep(600)  # noqa: TID251 - that is what it is for


def leak() -> None:
    taken = []
    while True:
        taken.append(bytearray(10_000_000))


def leave() -> None:
    os._exit(3)


def fail() -> None:
    raise RuntimeError("the fuse is blown\x1b[31m")


def strange() -> object:
    return {"a": object()}


def untrue() -> str:
    return "five volts"


def flood() -> str:
    for _ in range(2_000):
        os.write(1, b"x" * 200 + b"\n")
    return "done"
