"""The table of edges: time and words in, who is here out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edged.relay.announcement import BadAnnouncementError, here_subject
from edged.sharing.leases import Moment
from edged_relay.fleet.table import Edge, EdgeTable
from tests.promises import promise
from tests.unit.relay.test_announcement import GOOD, UNIT


def at(second: float) -> Moment:
    return Moment(second, 1_000_000 + round(second * 1_000))


def word(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def states(table: EdgeTable, now: Moment) -> dict[str, str]:
    return {edge.edge_id: edge.told(now)["state"] for edge in table.listed({"*"})}


@promise("fleet.table")
def test_an_edge_is_here_for_thirty_seconds_after_its_last_word_and_then_away() -> None:
    table = EdgeTable()
    assert table.hear(here_subject("a"), word(), at(0)) is not None
    assert table.hear(here_subject("a"), word(), at(10)) is None
    assert states(table, at(40)) == {"a": "here"}
    assert states(table, at(40.1)) == {"a": "away"}
    table.hear(here_subject("a"), word(), at(50))
    (edge,) = table.listed({"*"})
    told = edge.told(at(51))
    assert set(told) == {
        "edge_id", "state", "last_ms", "version", "units", "runs", "lockouts", "page",
    }  # fmt: skip
    assert (told["state"], told["last_ms"], told["units"]) == ("here", 1_050_000, [UNIT])


@promise("fleet.last-good-stays")
def test_a_bad_word_leaves_the_last_good_one_and_does_not_count_as_a_word() -> None:
    table = EdgeTable()
    table.hear(here_subject("a"), word(), at(0))
    for bad in (b"{", word(units=7), b" " * 70_000):
        with pytest.raises(BadAnnouncementError):
            table.hear(here_subject("a"), bad, at(29))
    (edge,) = table.listed({"*"})
    assert edge.told(at(30))["units"] == [UNIT]
    assert edge.told(at(30.1))["state"] == "away"


def test_a_caller_sees_the_edges_that_it_may_and_no_others() -> None:
    table = EdgeTable()
    for name in "cab":
        table.hear(here_subject(name), word(), at(0))
    assert [e.edge_id for e in table.listed({"b", "a", "nowhere"})] == ["a", "b"]
    assert [e.edge_id for e in table.listed({"*"})] == ["a", "b", "c"]
    assert table.listed(()) == []


RUN = {
    "kind": "sweep",
    "run_id": "s1",
    "instrument_id": "usb-1",
    "name": "set_voltage",
    "who": "ada",
    "started_ms": 1,
}
LOCK = {"instrument_id": "usb-1", "alias": "", "reason": "", "by": "ada", "since_ms": 1}
FREE = {**UNIT, "lease": None}


@promise("fleet.free")
@pytest.mark.parametrize(
    ("changes", "second", "is_free"),
    [
        ({}, 30, True),
        ({}, 31, False),
        ({"units": [UNIT]}, 0, False),
        ({"units": [{**FREE, "state": "silent"}]}, 0, False),
        ({"units": [{**FREE, "state": "busy"}]}, 0, False),
        ({"units": [{**FREE, "state": "locked"}]}, 0, False),
        ({"units": [{**FREE, "is_in_use": True}]}, 0, False),
        ({"runs": [RUN]}, 0, False),
        ({"runs": [{**RUN, "instrument_id": "psu"}]}, 0, False),
        ({"runs": [{**RUN, "instrument_id": "other"}]}, 0, True),
        ({"lockouts": [LOCK]}, 0, False),
        ({"lockouts": [{**LOCK, "instrument_id": "other"}]}, 0, True),
    ],
)
def test_a_unit_is_free_that_answers_and_is_nobody_s_on_an_edge_that_is_here(
    changes: dict[str, Any], second: float, *, is_free: bool
) -> None:
    table = EdgeTable()
    edge = table.hear(here_subject("a"), word(**{"units": [FREE], **changes}), at(0))
    assert edge is not None
    assert edge.is_free(edge.said.units[0], at(second)) is is_free


def test_who_has_been_away_for_longest_makes_room_and_who_is_here_never_does() -> None:
    table = EdgeTable(most_edges=2)
    table.hear(here_subject("a"), word(), at(0))
    table.hear(here_subject("b"), word(), at(5))
    with pytest.raises(BadAnnouncementError):
        table.hear(here_subject("c"), word(), at(6))
    table.hear(here_subject("c"), word(), at(31))
    assert states(table, at(31)) == {"b": "here", "c": "here"}
    small = EdgeTable(most_bytes=len(word()) + 10)
    small.hear(here_subject("a"), word(), at(0))
    with pytest.raises(BadAnnouncementError):
        small.hear(here_subject("b"), word(), at(1))
    small.hear(here_subject("a"), word(version="1.2.3"), at(2))
    assert len(small) == 1


@promise("fleet.announcement-bounds")
def test_an_edge_that_babbles_is_not_listened_to_until_it_has_been_quiet() -> None:
    table = EdgeTable()
    taken = 0
    for number in range(1_000):
        try:
            table.hear(here_subject("a"), word(version=str(number)), at(0))
        except BadAnnouncementError:
            continue
        taken += 1
    assert taken == 30
    # The same again costs nothing, and still says that it is here.
    table.hear(here_subject("a"), word(version="29"), at(1))
    assert table.hear(here_subject("a"), word(version="later"), at(10)) is not None
    # Others are heard meanwhile, and who speaks as edges do is always heard.
    for turn in range(100):
        table.hear(here_subject("b"), word(version=str(turn)), at(10.0 * turn))


def test_what_was_kept_gives_way_to_what_was_heard_since() -> None:
    table = EdgeTable()
    table.hear(here_subject("a"), word(version="new"), at(100))
    table.recall("a", word(version="old"), at(50))
    table.recall("b", word(version="old"), at(50))
    assert {e.edge_id: e.said.version for e in table.listed({"*"})} == {"a": "new", "b": "old"}
    assert states(table, at(100)) == {"a": "here", "b": "away"}


EDGES = st.sampled_from(["a", "b", "c", "d"])


class TableLife(RuleBasedStateMachine):
    """Against a plain book: the last good word of each, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.table = EdgeTable(most_edges=3, most_bytes=4_000)
        self.now = at(0)
        self.book: dict[str, tuple[str, float]] = {}

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds: float) -> None:
        self.now = at(self.now.monotonic_s + seconds)

    @rule(edge=EDGES, version=st.text("0123456789.", max_size=8))
    def speak(self, edge: str, version: str) -> None:
        try:
            self.table.hear(here_subject(edge), word(version=version), self.now)
        except BadAnnouncementError:
            return
        self.book[edge] = (version, self.now.monotonic_s)

    @rule(edge=EDGES, data=st.binary(max_size=60))
    def babble(self, edge: str, data: bytes) -> None:
        with pytest.raises(BadAnnouncementError):
            self.table.hear(here_subject(edge), b"x" + data, self.now)

    @invariant()
    def holds(self) -> None:
        edges: list[Edge] = self.table.listed({"*"})
        assert len(edges) <= 3
        assert sum(edge.size for edge in edges) <= 4_000
        for edge in edges:
            version, heard_s = self.book[edge.edge_id]
            assert edge.said.version == version
            assert (edge.state(self.now) == "here") is (self.now.monotonic_s - heard_s <= 30)
        # Whoever is here and was taken is not forgotten.
        listed = {edge.edge_id for edge in edges}
        for name, (_, heard_s) in self.book.items():
            assert name in listed or self.now.monotonic_s - heard_s > 30 or len(edges) == 3


TestTableLife = TableLife.TestCase


@given(data=st.binary(max_size=80), subject=st.text(max_size=40))
def test_nothing_that_comes_breaks_the_table(data: bytes, subject: str) -> None:
    table = EdgeTable()
    try:
        table.hear(subject, data, at(0))
    except BadAnnouncementError:
        assert len(table) == 0
