"""What the owner wants to be asked about: ``confirm`` of a unit's entry in the bench file. Pure.

Source: docs/bench-file.md; docs/promises.md section 16, "Approval".
"""

from __future__ import annotations

import contextlib
import enum
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

from edged.record import record
from edged.yaml.tree import Scalar


class Way(enum.StrEnum):
    """By which a person may answer."""

    CLIENT = "client"
    PAGE = "page"
    CLI = "cli"


EVERY_WAY: Final = frozenset(Way)
SWITCHES: Final = MappingProxyType({"true": 1.0, "on": 1.0, "false": 0.0, "off": 0.0})
"""How people write what is on or off."""

_RULE: Final = re.compile(
    r"(?P<sequence>sequence:)?(?P<name>[a-z][a-z0-9_]*)"
    r"(?:\.(?P<parameter>[a-z][a-z0-9_]*)\s*(?P<sign>>=|<=|==|!=|>|<)\s*(?P<value>\S.*))?"
)
_SIGNS: Final[Mapping[str, Callable[[float, float], bool]]] = MappingProxyType(
    {
        ">": operator.gt,
        ">=": operator.ge,
        "<": operator.lt,
        "<=": operator.le,
        "==": operator.eq,
        "!=": operator.ne,
    }
)


@record
class ConfirmRule:
    """One entry.

    Attributes:
        text: as the owner wrote it.
        name: of the command, or of the sequence.
        parameter, sign, value: what its value must be for the question; empty: it always is.
        word: ``value`` as the owner wrote it.
    """

    text: str
    name: str
    is_sequence: bool = False
    parameter: str = ""
    sign: str = ""
    value: float | str = ""
    word: str = ""

    def __str__(self) -> str:
        """As the owner wrote it."""
        return self.text

    def asks(self, values: Mapping[str, Scalar], unknown: Collection[str] = ()) -> bool:
        """Whether a call with these values is asked about; what cannot be compared is.

        Args:
            unknown: parameters whose value cannot be known.
        """
        if not self.parameter:
            return True
        given = values.get(self.parameter)
        if given is None or self.parameter in unknown:
            return True
        if isinstance(self.value, str) or isinstance(given, str):
            is_same = str(given).casefold() == self.word.casefold()
            return {"==": is_same, "!=": not is_same}.get(self.sign, True)
        return _SIGNS[self.sign](float(given), self.value)


def parse_confirm(text: str) -> ConfirmRule | None:
    """``output_on``, ``sequence:iv_curve`` or ``set_voltage.voltage > 24``; ``None``: none of them.

    Texts (options) are compared by ``==`` and ``!=`` alone, without regard to case.
    """
    found = _RULE.fullmatch(text.strip())
    if found is None or (found["sequence"] and found["parameter"]):
        return None
    word = (found["value"] or "").strip().strip("\"'")
    sign, value = found["sign"] or "", _value(word)
    if isinstance(value, str) and sign not in ("", "==", "!="):
        return None
    return ConfirmRule(
        text=text.strip(),
        name=found["name"],
        is_sequence=bool(found["sequence"]),
        parameter=found["parameter"] or "",
        sign=sign,
        value=value,
        word=word,
    )


def _value(word: str) -> float | str:
    with contextlib.suppress(ValueError):
        if math.isfinite(number := float(word)):
            return number
    return SWITCHES.get(word.casefold(), word)
