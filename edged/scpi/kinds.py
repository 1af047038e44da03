"""The kinds of answers: how a value is read, and how an instrument reports its errors."""

from __future__ import annotations

import enum


class ErrorKind(enum.StrEnum):
    """What the answer of an error query is: a queue's entry, ``*ESR?``'s bits, a bare code."""

    NONE = "none"
    QUEUE = "queue"
    ESR = "esr"
    CODE = "code"


class AnswerType(enum.StrEnum):
    """How a piece of an answer is read.

    ``SI`` is a number with an SI suffix or a unit, ``HEX`` a whole number in hexadecimal.
    """

    FLOAT = "float"
    INT = "int"
    STRING = "string"
    BOOL = "bool"
    SI = "si"
    HEX = "hex"
