"""What edges say of themselves: every byte of it may be somebody's invention."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.relay.announcement import (
    MAX_ANNOUNCED_BYTES,
    BadAnnouncementError,
    Said,
    edge_of,
    encode_said,
    fitted,
    here_subject,
    read_said,
)
from tests.promises import promise

UNIT = {
    "id": "usb-1",
    "alias": "psu",
    "manufacturer": "Rigol",
    "model": "DP832",
    "instrument_class": "power_supply",
    "serial": "DP8A1",
    "state": "ready",
    "used_by": None,
    "lease": {"who": "ada", "purpose": "noise", "expires_ms": 12},
    "is_in_use": False,
}
GOOD: dict[str, Any] = {
    "version": "1.2",
    "units": [UNIT],
    "runs": [],
    "lockouts": [],
    "page": "http://10.0.0.7:8767/bench",
    "metrics": "10.0.0.7:8767/metrics",
}


def test_what_an_edge_says_is_read_as_it_was_said() -> None:
    said = read_said(json.dumps(GOOD).encode())
    assert (said.version, said.units, said.page) == ("1.2", (UNIT,), GOOD["page"])
    assert read_said(encode_said(said)) == said
    assert read_said(fitted(GOOD)) == said


def test_members_of_a_later_version_are_left_out() -> None:
    later = {**GOOD, "mood": "good", "units": [{**UNIT, "smell": [1, 2]}]}
    assert read_said(json.dumps(later).encode()) == read_said(json.dumps(GOOD).encode())


def test_members_that_are_not_there_are_empty_and_null_is_as_good_as_none() -> None:
    few = {"version": "1", "units": [{"alias": "psu", "model": "DP832", "state": "ready"}]}
    nulls = {
        **few,
        "units": [{**few["units"][0], "serial": None, "lease": None, "is_in_use": None}],
        "runs": None,
        "page": None,
        "metrics": None,
        "left_out": None,
    }
    for told in (few, nulls):
        said = read_said(json.dumps(told).encode())
        assert said.units[0] == {
            **UNIT,
            "id": "",
            "manufacturer": "",
            "instrument_class": "",
            "serial": "",
            "lease": None,
        }
        assert (said.runs, said.lockouts, said.page, said.metrics) == ((), (), "", "")
    run = {"version": "1", "runs": [{"kind": "sweep"}], "lockouts": [{"alias": "psu"}]}
    said = read_said(json.dumps(run).encode())
    assert (said.runs[0]["started_ms"], said.lockouts[0]["reason"]) == (0, "")


HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"version":"\xff"}',
    "a list": b"[]",
    "a number": b"7",
    "deep": b'{"version":"1","units":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    "not a number": b'{"version":"1","left_out":NaN}',
    "no version": b"{}",
    "a version that is null": b'{"version":null}',
    "a unit that says no state": b'{"version":"1","units":[{"alias":"psu"}]}',
    "half of a character": b'{"version":"\\ud800"}',
    "one byte too much": json.dumps({**GOOD, "version": ""})
    .encode()
    .ljust(MAX_ANNOUNCED_BYTES + 1),
    **{
        what: json.dumps({**GOOD, **changes}).encode()
        for what, changes in {
            "version a number": {"version": 1},
            "version long": {"version": "1" * 201},
            "version of two lines": {"version": "1\n2"},
            "version turned around": {"version": "1\u202e2"},
            "units an object": {"units": {}},
            "units of texts": {"units": ["psu"]},
            "a unit without a state": {"units": [{**UNIT, "state": None}]},
            "a unit that shouts": {"units": [{**UNIT, "state": "READY!"}]},
            "a unit that is perhaps in use": {"units": [{**UNIT, "is_in_use": 1}]},
            "a lease that is a text": {"units": [{**UNIT, "lease": "ada"}]},
            "a lease for ever": {
                "units": [{**UNIT, "lease": {"who": "a", "purpose": "", "expires_ms": 1e300}}]
            },
            "a page that is a script": {"page": "javascript:alert(1)"},
            "a page with markup": {"page": 'http://a/"><b>'},
            "a page with a user": {"page": "http://ada:pw@host/"},
            "metrics with a query": {"metrics": "a:1/metrics?x=1"},
            "metrics without a port": {"metrics": "a/metrics"},
            "metrics of a scheme": {"metrics": "http://a/metrics"},
            "left out less than nothing": {"left_out": -1},
        }.items()
    },
}


@promise("fleet.announcement-bounds")
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_announcement_is_refused(data: bytes) -> None:
    with pytest.raises(BadAnnouncementError):
        read_said(data)


@pytest.mark.parametrize(
    ("subject", "edge"),
    [
        (here_subject("edge-1"), "edge-1"),
        ("edged..up.here", ""),
        ("edged.a b.up.here", ""),
        ("edged.-.up.here", ""),
        ("edged.a.up.there", ""),
        ("other", ""),
    ],
)
def test_whose_word_it_is_stands_in_the_subject_alone(subject: str, edge: str) -> None:
    assert edge_of(subject) == edge


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
ROW = st.dictionaries(
    st.sampled_from([*UNIT, "run_id", "kind", "name", "who", "reason", "by", "started_ms"]),
    ANYTHING,
    max_size=8,
)
TOLD = st.fixed_dictionaries(
    {},
    optional={
        "version": ANYTHING,
        "page": ANYTHING,
        "metrics": ANYTHING,
        "units": st.lists(ROW, max_size=4),
        "runs": st.lists(ROW, max_size=4),
        "lockouts": st.lists(ROW, max_size=4),
    },
)


@given(TOLD)
def test_whatever_an_engine_tells_becomes_an_announcement_that_is_taken(
    told: dict[str, Any],
) -> None:
    said = read_said(fitted(told))
    assert len(said.units) == len(told.get("units", ()))


@given(st.binary(max_size=400) | ANYTHING.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_an_announcement_or_none(data: bytes) -> None:
    try:
        said = read_said(data)
    except BadAnnouncementError:
        return
    assert isinstance(said, Said)
    assert read_said(encode_said(said)) == said


@promise("fleet.announcement-bounds")
def test_a_bench_that_is_too_large_leaves_units_out_and_says_how_many() -> None:
    lock = {"instrument_id": "u", "alias": "", "reason": "smoke", "by": "ada", "since_ms": 1}
    told = {**GOOD, "units": [UNIT] * 1_000, "lockouts": [lock]}
    data = fitted(told)
    assert len(data) <= MAX_ANNOUNCED_BYTES
    said = read_said(data)
    assert said.lockouts == (lock,)
    assert len(said.units) + said.left_out == 1_000
    assert 200 < len(said.units) < 1_000
