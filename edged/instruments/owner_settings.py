"""What INSTRUMENTS says about a connection, laid over what the profile says."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final

from edged.config_instruments import InstrumentEntry
from edged.profiles.model import Connection, ErrorCheck, ErrorKind, Probe

__all__ = ["connection_for"]

OF_THE_OWNER: Final = tuple(
    {field.name for field in fields(Connection)}
    & {field.name for field in fields(InstrumentEntry)} - {"errors", "probe"}
)
"""What is the same value in both; the two others are read from the owner's words."""


def connection_for(connection: Connection, entry: InstrumentEntry) -> Connection:
    """The connection as this entry of the owner's configuration has it."""
    own: dict[str, Any] = {}
    if connection.on_connect_serial is not None and entry.address.upper().startswith("ASRL"):
        own["on_connect"] = connection.on_connect_serial
    for name in OF_THE_OWNER:
        value = getattr(entry, name)
        if value is not None:
            own[name] = value
    if entry.errors is not None:
        own["errors"] = ErrorCheck(
            kind=ErrorKind(entry.errors.kind),
            query=entry.errors.query,
            detail=entry.errors.detail,
        )
    if entry.probe is not None:
        asked = entry.probe
        own["probe"] = Probe(query=asked.query, expect=asked.expect) if asked.query else None
    return replace(connection, **own)
