"""Names that no instrument has, and which of them somebody may have meant."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from edged.errors import NotFound
from edged.instruments import pool as pool_module
from edged.instruments.pool import search
from edged.instruments.registration import RegistrationState
from edged.profiles.match import Identity
from tests.promises import promise


def unit(alias: str) -> Any:
    return SimpleNamespace(
        id=f"TCPIP::{alias}.lab::5025::SOCKET",
        alias=alias,
        called=alias,
        names=(),
        identity=Identity(manufacturer="Toy", model="S1", serial="", firmware=""),
        registration=RegistrationState.REGISTERED,
    )


@pytest.mark.parametrize(("name", "is_near"), [("scop1", True), ("psu", True), ("nope", False)])
def test_only_a_name_that_is_near_is_offered_as_the_one_that_was_meant(
    name: str, is_near: bool
) -> None:
    with pytest.raises(NotFound) as unknown:
        search(name, [unit("scope1"), unit("psu1")])
    assert ("Did you mean" in unknown.value.remedy) is is_near
    assert "scope1" in unknown.value.message


@promise("mcp.bounded-bodies")
def test_what_is_longer_than_any_name_is_not_looked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_through: list[str] = []
    monkeypatch.setattr(pool_module, "plain", looked_through.append)
    monkeypatch.setattr(pool_module, "address_key", looked_through.append)

    with pytest.raises(NotFound, match="There are: scope1") as unknown:
        search("x" * 4_000_000, [unit("scope1")])

    assert looked_through == []
    assert len(str(unknown.value)) < 500
