"""Which unit a sub-address means, now and after its owner has changed an alias."""

from __future__ import annotations

import pytest

from edged.errors import NotFound
from edged.surfaces.hislip.names import HislipNames
from tests.bench.fake_instruments import FakeInstrument, FakePool
from tests.promises import promise

FIRST, SECOND = "DP8A0000001", "DP8B0000002"


class Desk:
    """Finds units by what the pool calls them."""

    def __init__(self, pool: FakePool) -> None:
        self.find = pool.get


def unit(instrument_id: str, alias: str = "") -> FakeInstrument:
    return FakeInstrument(id=instrument_id, alias=alias, profile=None)


def names_of(pool: FakePool) -> HislipNames:
    return HislipNames(pool, Desk(pool))  # type: ignore[arg-type]


@promise("hislip.names")
def test_each_unit_has_its_alias_or_its_short_id_cleaned() -> None:
    pool = FakePool(unit(FIRST, "the 1 kV supply, left"), unit(SECOND))
    names = names_of(pool)
    assert names.all() == ["hislip_B0000002", "hislip_the_1_kV_supply_left"]
    assert names.find("hislip_THE_1_kv_supply_left").id == FIRST
    assert names.find("the 1 kV supply, left").id == FIRST
    assert names.find("b0000002").id == SECOND
    assert names.find(SECOND).id == SECOND


@promise("hislip.names")
@pytest.mark.parametrize("name", ["hislip0", "HISLIP0", "", " "])
def test_the_default_name_is_the_only_unit_or_nobodys(name: str) -> None:
    pool = FakePool(unit(FIRST, "psu1"))
    names = names_of(pool)
    assert names.find(name).id == FIRST
    pool.change(*pool.instruments, unit(SECOND, "psu2"))
    with pytest.raises(NotFound, match=r"any of 2 .* There are hislip_psu1, hislip_psu2"):
        names.find(name)
    pool.change()
    with pytest.raises(NotFound, match="No instrument is registered"):
        names.find(name)


@promise("hislip.names")
def test_an_alias_that_has_moved_is_retired_and_its_new_names_are_told() -> None:
    first, second = unit(FIRST, "psu1"), unit(SECOND)
    pool = FakePool(first, second)
    names = names_of(pool)
    assert names.find("hislip_psu1").id == FIRST
    first.alias, second.alias = "", "psu1"
    pool.change(first, second)
    for name in ("hislip_psu1", "psu1", "PSU1"):
        with pytest.raises(NotFound) as retired:
            names.find(name)
        assert retired.value.data["renamed_to"] == "hislip_A0000001"
        assert "'psu1' is 'hislip_B0000002' until a restart" in retired.value.message
    assert names.all() == ["hislip_A0000001", "hislip_B0000002"]


def test_a_long_list_of_names_is_cut() -> None:
    pool = FakePool(*(unit(f"SER{n:05}", f"psu{n:02}") for n in range(60)))
    with pytest.raises(NotFound) as unknown:
        names_of(pool).find("hislip_psu99")
    assert unknown.value.message.endswith("and 20 more.")
    assert len(unknown.value.message) < 1_000


def test_whoever_leaves_it_hears_of_no_more_units() -> None:
    pool = FakePool(unit(FIRST))
    names = names_of(pool)
    names.close()
    assert pool.listeners == []
