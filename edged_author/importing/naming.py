"""Names for what is imported: clean, short enough for the strictest clients, and each only once."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import Final

from edged.profiles.naming import SHORT_LENGTH, STRICT_LENGTH

LONGEST_KEY: Final = 24
LONGEST_PARAMETER: Final = 40
RESERVED: Final = frozenset(
    {
        "abort", "and", "bench", "channel", "dry_run", "false", "lease", "lease_id", "none", "not",
        "null", "or", "sequence", "true", "value",
    }
)  # fmt: skip
_SHORT: Final[Mapping[str, str]] = {
    "frequency": "freq", "voltage": "volt", "current": "curr", "temperature": "temp",
    "measurement": "meas", "resistance": "res", "average": "avg", "bandwidth": "bw",
    "amplitude": "ampl", "configuration": "config", "reference": "ref", "threshold": "thresh",
    "calibration": "cal", "modulation": "mod", "compliance": "compl", "resolution": "resol",
    "trigger": "trig", "automatic": "auto", "acquisition": "acq", "external": "ext",
    "internal": "int", "maximum": "max", "minimum": "min", "enabled": "on", "output": "out",
    "channel": "ch", "interval": "interv", "protection": "prot", "attenuation": "atten",
}  # fmt: skip
"""What long words are cut to first; beyond, four letters of each."""
_KEPT: Final = ("measure_", "read_", "fetch_", "get_", "is_", "has_")


def clean_name(told: str) -> str:
    """A name of a profile: ``[a-z][a-z0-9_]*`` without ``__``; ``camelCase`` is taken apart."""
    plain = unicodedata.normalize("NFKD", told[:200]).encode("ascii", "ignore").decode()
    plain = re.sub(r"([a-z0-9])([A-Z][a-z])", r"\1_\2", plain).lower()
    plain = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
    if not plain[:1].isalpha():
        plain = f"x_{plain}".strip("_")
    return plain


def parameter_name(told: str) -> str:
    """The name of a value; what means something else where it would stand gets a letter more."""
    plain = clean_name(told)[:LONGEST_PARAMETER].rstrip("_")
    return f"{plain}_x" if plain in RESERVED else plain


def words_of(name: str) -> str:
    """A name as the words of a sentence."""
    return clean_name(name).replace("_", " ")


def command_name(verb: str, name: str, key: str, taken: Collection[str]) -> str:
    """``get_x`` or ``set_x`` for ``x``, short enough beside its profile's key, and free.

    Args:
        verb: ``get`` or ``set``; what reads by its own name keeps it.
        key: the profile_key.
        taken: names that are given already.
    """
    plain = clean_name(name)
    whole = plain if verb == "get" and plain.startswith(_KEPT) else f"{verb}_{plain}"
    room = STRICT_LENGTH - len(key) - SHORT_LENGTH - 4
    return free_name(_within(whole, room), taken, room)


def free_name(name: str, taken: Collection[str], room: int) -> str:
    """The name, or with a number where it is taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        tail = f"_{number}"
        free = name[: room - len(tail)].rstrip("_") + tail
    return free


def key_for(maker: str, model: str, taken: Collection[str]) -> str:
    """A profile_key of maker and model that is no other's."""
    plain = clean_name("_".join(filter(None, (maker, model))))
    if plain in taken:
        plain = f"{plain[: LONGEST_KEY - 9].rstrip('_')}_imported"
    return free_name(plain[:LONGEST_KEY].rstrip("_"), taken, LONGEST_KEY)


def _within(name: str, room: int) -> str:
    words = name.split("_")
    for index, word in enumerate(words):
        if len("_".join(words)) <= room:
            break
        words[index] = _SHORT.get(word, word)
    for index, word in enumerate(words):
        if len("_".join(words)) <= room:
            break
        words[index] = word[:4]
    return "_".join(words)[:room].rstrip("_")
