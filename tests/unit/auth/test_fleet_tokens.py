"""Tokens for many edges, at a front's door and at an edge's: no socket, a driven clock."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.auth.claims import (
    BadTokenError,
    Door,
    EdgeDoor,
    FleetDoor,
    check_claims,
    read_token,
)
from edged.auth.keys import KeyBook
from edged.auth.verifier import Verifier
from tests.bench.bad_fleet_tokens import bad_fleet_tokens, fleet_claims
from tests.bench.driven_clock import START_WALL_MS, DrivenClock
from tests.bench.token_issuer import EDGE, ISSUER, TokenIssuer, key_set
from tests.promises import promise

NOW_S = START_WALL_MS // 1000
GOOD = TokenIssuer(now_s=NOW_S)
MONTH_S = 30 * 86_400
RELAYED = EdgeDoor(EDGE, takes_fleet=True)


class Source:
    """Implements ``JwksSource``."""

    async def fetch(self) -> bytes:
        return key_set(GOOD.jwk())


def verifier(clock: DrivenClock) -> Verifier:
    return Verifier(
        KeyBook(Source(), url="u", state_dir=None, clock=clock), issuer=ISSUER, clock=clock
    )


async def takes(judge: Verifier, door: Door, **changes: Any) -> bool:
    try:
        claims = await judge.verify(GOOD.mint(**fleet_claims(**changes)), door)
    except BadTokenError:
        return False
    assert claims.aud == "fleet"
    assert claims.edge_id == ""
    return True


@promise("fleet.token-claims")
@pytest.mark.parametrize("door", [FleetDoor(), FleetDoor(takes_all=True), RELAYED])
async def test_every_sort_of_bad_fleet_token_is_refused_and_a_good_one_passes(
    driven_clock: DrivenClock, door: Door
) -> None:
    judge = verifier(driven_clock)
    assert await takes(judge, door)
    bad = bad_fleet_tokens(GOOD)
    assert len(bad) > 70
    passed = []
    for name, token in bad.items():
        try:
            await judge.verify(token, door)
        except BadTokenError:
            continue
        passed.append(name)
    assert passed == []


@promise("fleet.token-at-edge")
async def test_an_edge_takes_a_fleet_token_only_where_it_is_meant_to_and_only_if_it_lists_it(
    driven_clock: DrivenClock,
) -> None:
    judge = verifier(driven_clock)
    assert await takes(judge, RELAYED)
    # What was verified for one door is not for another.
    assert not await takes(judge, EdgeDoor(EDGE))
    assert not await takes(judge, EdgeDoor("edge-3", takes_fleet=True))
    assert await takes(judge, RELAYED, edges_allow=["*"])
    assert not await takes(judge, EdgeDoor(EDGE), edges_allow=["*"])
    # Its own tokens it takes by either way.
    assert (await judge.verify(GOOD.mint(), RELAYED)).edge_id == EDGE
    with pytest.raises(BadTokenError):
        await judge.verify(GOOD.mint(), FleetDoor(takes_all=True))


async def test_a_token_for_every_edge_needs_the_owner_of_the_front(
    driven_clock: DrivenClock,
) -> None:
    judge = verifier(driven_clock)
    assert not await takes(judge, FleetDoor(), edges_allow=["*"])
    assert await takes(judge, FleetDoor(takes_all=True), edges_allow=["*"])


@promise("fleet.token-prometheus")
async def test_prometheus_token_may_live_for_a_month_at_the_front_and_nowhere_else(
    driven_clock: DrivenClock,
) -> None:
    judge = verifier(driven_clock)
    long = {"exp": NOW_S + MONTH_S, "tools_allow": ["fleet/http_sd"]}
    assert await takes(judge, FleetDoor(), **long)
    assert not await takes(judge, RELAYED, **long)
    assert not await takes(judge, FleetDoor(), **{**long, "tools_allow": []})
    assert not await takes(judge, FleetDoor(), **{**long, "exp": NOW_S + MONTH_S + 1})
    assert not await takes(judge, FleetDoor(), **{**long, "tools_allow": ["fleet/http_sd:x"]})


async def test_a_token_may_name_the_recordings_as_the_documentation_says(
    driven_clock: DrivenClock,
) -> None:
    token = GOOD.mint(tools_allow=["resources/read:runs", "get_status"])
    claims = await verifier(driven_clock).verify(token, EdgeDoor(EDGE))
    assert "resources/read:runs" in claims.tools_allow


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
NAMES = ("iss", "aud", "sub", "exp", "iat", "edge_id", "edges_allow", "tools_allow", "danger_allow")


@given(
    changes=st.dictionaries(st.sampled_from(NAMES), JSON, min_size=1, max_size=3),
    door=st.sampled_from([FleetDoor(), FleetDoor(takes_all=True), RELAYED, EdgeDoor(EDGE)]),
)
def test_whatever_stands_in_a_claim_a_door_refuses_it_or_knows_what_it_lets_in(
    changes: dict[str, Any], door: Door
) -> None:
    payload = GOOD.claims(**fleet_claims(**changes))
    try:
        claims = check_claims(payload, issuer=ISSUER, door=door, now_ms=START_WALL_MS)
    except BadTokenError:
        return
    assert claims.aud == "fleet"
    assert "edge_id" not in payload
    assert door != EdgeDoor(EDGE)
    assert claims.edges_allow
    if isinstance(door, EdgeDoor):
        assert claims.edges_allow & {EDGE, "*"}
        assert claims.exp - claims.iat <= 300
    elif "*" in claims.edges_allow:
        assert door.takes_all


def test_a_token_that_says_something_twice_is_none() -> None:
    header, claims = json.dumps(GOOD.header()), json.dumps(GOOD.claims(**fleet_claims()))
    with pytest.raises(BadTokenError):
        read_token(GOOD.sign(header, '{"edges_allow":["*"],' + claims[1:]))
