"""Numbers of a command line, as people write them; never ``nan``, ``inf``, ``1_0`` or other digits.

``number`` reads one; the others are types for argparse, which says what was wrong and ends with 2.
"""

from __future__ import annotations

import argparse
import re
from typing import Final

__all__ = ["finite", "number", "positive", "seconds"]

NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
WHOLE: Final = re.compile(r"[+-]?[0-9]+")
LONGEST_WHOLE: Final = 400
"""Digits: more are no number that anybody means, and Python refuses to read very many."""

LONGEST_S: Final = 366 * 86_400.0


def number(text: str) -> int | float:
    """A whole number where it is written as one.

    Raises:
        ValueError: it is no number, or none that a float can hold.
    """
    text = text.strip()
    if WHOLE.fullmatch(text) and len(text) <= LONGEST_WHOLE:
        return int(text)
    value = float(text) if NUMBER.fullmatch(text) else float("nan")
    if value - value != 0:  # infinite or no number
        message = f"{text!r} is no number"
        raise ValueError(message)
    return value


def finite(text: str) -> float:
    """Any number."""
    try:
        return float(number(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def seconds(text: str) -> float:
    """A length of time that can be waited for."""
    value = finite(text)
    if not 0 < value <= LONGEST_S:
        message = f"{text!r} is no length of time: more than 0, at most {LONGEST_S:g} seconds"
        raise argparse.ArgumentTypeError(message)
    return value


def positive(text: str) -> int:
    """A count of one or more."""
    try:
        value = number(text)
    except ValueError:
        value = 0
    if not isinstance(value, int) or value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return value
