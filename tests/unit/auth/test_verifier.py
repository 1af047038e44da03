"""Tokens against the verifier with a fake issuer: no socket, a driven clock."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from edged.auth.claims import BadTokenError, EdgeDoor, check_claims, read_token
from edged.auth.keys import JwksError, KeyBook
from edged.auth.signature import read_keys
from edged.auth.verifier import REFUSED_AFTER_S, Verifier
from edged.errors import Failed
from tests.bench.bad_tokens import bad_tokens, extra_jwks
from tests.bench.driven_clock import START_WALL_MS, DrivenClock, settle
from tests.bench.token_issuer import EDGE, ISSUER, TokenIssuer, b64, key_set
from tests.promises import promise

NOW_S = START_WALL_MS // 1000
GOOD = TokenIssuer(now_s=NOW_S)
DAY_S = 24 * 3600
EDGE_DOOR = EdgeDoor(EDGE)


class FakeSource:
    """Implements ``JwksSource``; counts."""

    def __init__(self, *jwks: object) -> None:
        self.body = key_set(*(jwks or (GOOD.jwk(), *extra_jwks(GOOD))))  # type: ignore[arg-type]
        self.fetches = 0
        self.is_down = False
        self.gate: asyncio.Event | None = None

    async def fetch(self) -> bytes:
        self.fetches += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.is_down:
            raise JwksError("It is down.")
        return self.body


def make(
    clock: DrivenClock, source: FakeSource | None = None, state_dir: Path | None = None
) -> tuple[Verifier, FakeSource]:
    source = source or FakeSource()
    book = KeyBook(source, url="https://issuer.example/jwks", state_dir=state_dir, clock=clock)
    return Verifier(book, issuer=ISSUER, clock=clock), source


async def refused(verifier: Verifier, token: str) -> bool:
    """Whether it is refused, after the fetch under way and without any time passing."""
    judging = asyncio.create_task(verifier.verify(token, EdgeDoor(EDGE)))
    clock, keys = cast("DrivenClock", verifier.clock), verifier.keys
    while not judging.done():
        fetch = keys._fetch
        await (asyncio.wait({fetch, judging}, return_when="FIRST_COMPLETED") if fetch else settle())
        if keys._fetch is None:
            clock.wake_all()
    return isinstance(judging.exception(), BadTokenError)


def test_there_are_at_least_eighty_sorts_of_bad_tokens() -> None:
    assert len(bad_tokens(GOOD)) >= 80


@promise("auth.bad-tokens")
async def test_every_sort_of_bad_token_is_refused_and_a_good_one_passes(
    driven_clock: DrivenClock,
) -> None:
    verifier, _ = make(driven_clock)
    passed = [
        name for name, token in bad_tokens(GOOD).items() if not await refused(verifier, token)
    ]
    assert passed == []
    claims = await verifier.verify(GOOD.mint(), EdgeDoor(EDGE))
    assert (claims.sub, claims.tools_allow) == ("user:ada", frozenset({"get_status"}))


@pytest.mark.parametrize(
    "changes",
    [
        {"iat": NOW_S + 30, "exp": NOW_S + 330},
        {"iat": NOW_S - 299, "exp": NOW_S + 1},
        {"nbf": NOW_S},
        {"tools_allow": []},
        {"tools_allow": ["execute_command:set_voltage", "rigol_dp832__set_voltage"]},
        {"tools_allow": ["get_status", "*", 1, None, ["x"], {"a": "b"}, "", "a:b:c", "\x1b[31m"]},
        {"jti": "once", "name": "Ada"},
    ],
)
async def test_what_lies_just_inside_of_the_table_passes(
    changes: dict[str, object], driven_clock: DrivenClock
) -> None:
    verifier, _ = make(driven_clock)
    await verifier.verify(GOOD.mint(**changes), EdgeDoor(EDGE))


async def test_a_token_that_was_good_is_refused_from_its_expiry_on(
    driven_clock: DrivenClock,
) -> None:
    verifier, _ = make(driven_clock)
    token = GOOD.mint(exp=NOW_S + 60)
    assert not await refused(verifier, token)
    driven_clock.move(59.9)
    assert not await refused(verifier, token)
    driven_clock.move(0.1)
    assert await refused(verifier, token)


async def test_a_remembered_token_is_still_for_its_own_edge_only(
    driven_clock: DrivenClock,
) -> None:
    verifier, _ = make(driven_clock)
    token = GOOD.mint()
    assert not await refused(verifier, token)
    with pytest.raises(BadTokenError):
        await verifier.verify(token, EdgeDoor("edge-2"))


@promise("auth.jwks-flood")
async def test_a_flood_of_bad_tokens_costs_the_issuer_one_request_a_minute(
    driven_clock: DrivenClock,
) -> None:
    verifier, source = make(driven_clock)
    await verifier.verify(GOOD.mint(), EdgeDoor(EDGE))
    assert source.fetches == 1
    forged = TokenIssuer(kid="k1", key="foreign", now_s=NOW_S).mint()
    unknown = GOOD.mint({"kid": "k9"})
    for _ in range(5_000):
        assert await refused(verifier, forged)
        assert await refused(verifier, unknown)
        driven_clock.move(0.012)  # 10,000 tokens in one minute
    assert source.fetches <= 3
    assert not await refused(verifier, GOOD.mint(jti="2"))


async def test_the_first_failure_after_a_fetch_asks_at_once_and_later_ones_once_a_minute(
    driven_clock: DrivenClock,
) -> None:
    verifier, source = make(driven_clock)
    await verifier.verify(GOOD.mint(), EdgeDoor(EDGE))
    anew = TokenIssuer(kid="k1", key="foreign", now_s=NOW_S)
    assert await refused(verifier, anew.mint())
    assert source.fetches == 2
    source.body = key_set(anew.jwk())
    assert await refused(verifier, anew.mint())
    driven_clock.move(60)
    assert not await refused(verifier, anew.mint())
    assert source.fetches == 3


@promise("auth.new-kids-at-once")
async def test_an_issuer_that_changes_its_key_again_and_again_is_followed_at_once(
    driven_clock: DrivenClock,
) -> None:
    verifier, source = make(driven_clock)
    await verifier.verify(GOOD.mint(), EdgeDoor(EDGE))
    for number in range(20):
        issuer = TokenIssuer(kid=f"k{100 + number}", now_s=NOW_S)
        source.body = key_set(issuer.jwk())
        assert not await refused(verifier, issuer.mint())
    assert source.fetches == 21


@promise("auth.new-kids-at-once")
async def test_eight_kids_that_nobody_has_are_worth_a_fetch_each_and_then_one_a_minute(
    driven_clock: DrivenClock,
) -> None:
    verifier, source = make(driven_clock)
    await verifier.verify(GOOD.mint(), EdgeDoor(EDGE))
    unknown = [GOOD.mint({"kid": f"other-{number}"}) for number in range(50)]
    for _ in range(3):
        for token in unknown:
            assert await refused(verifier, token)
    assert source.fetches == 1 + 8
    driven_clock.move(60)
    for token in unknown:
        assert await refused(verifier, token)
    assert source.fetches == 1 + 8 + 1
    second = TokenIssuer(kid="k2", now_s=NOW_S)
    source.body = key_set(GOOD.jwk(), second.jwk())
    driven_clock.move(60)
    assert not await refused(verifier, second.mint())


async def test_a_key_that_was_withdrawn_verifies_no_more_not_even_remembered_tokens(
    driven_clock: DrivenClock,
) -> None:
    verifier, source = make(driven_clock)
    token = GOOD.mint()
    await verifier.verify(token, EdgeDoor(EDGE))
    second = TokenIssuer(kid="k2", now_s=NOW_S)
    source.body = key_set(second.jwk())
    await verifier.verify(second.mint(), EdgeDoor(EDGE))
    assert await refused(verifier, token)


async def test_all_who_wait_for_keys_share_one_request(driven_clock: DrivenClock) -> None:
    verifier, source = make(driven_clock)
    source.gate = asyncio.Event()
    waiting = [asyncio.create_task(refused(verifier, GOOD.mint(jti=str(i)))) for i in range(50)]
    await settle()
    source.gate.set()
    assert await asyncio.gather(*waiting) == [False] * 50
    assert source.fetches == 1


async def test_tokens_of_a_known_key_do_not_wait_for_a_fetch_that_hangs(
    driven_clock: DrivenClock,
) -> None:
    verifier, source = make(driven_clock)
    await verifier.verify(GOOD.mint(), EdgeDoor(EDGE))
    source.gate = asyncio.Event()
    stuck = asyncio.create_task(refused(verifier, GOOD.mint({"kid": "k9"})))
    await settle()
    assert not await refused(verifier, GOOD.mint(jti="2"))
    source.gate.set()
    assert await stuck


@promise("auth.jwks-stale")
async def test_cached_keys_serve_while_the_issuer_is_away_until_their_day_is_over(
    driven_clock: DrivenClock,
) -> None:
    verifier, source = make(driven_clock)
    await verifier.verify(GOOD.mint(), EdgeDoor(EDGE))
    source.is_down = True
    driven_clock.move(DAY_S - 1)
    assert not await refused(verifier, TokenIssuer(now_s=NOW_S + DAY_S - 1).mint())
    driven_clock.move(2)
    late = TokenIssuer(now_s=NOW_S + DAY_S + 1)
    assert await refused(verifier, late.mint())
    source.is_down = False
    driven_clock.move(5)
    assert not await refused(verifier, late.mint())


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"keys": 1}', b"\xff", b'{"keys": [{}]}x'])
async def test_nonsense_from_the_issuer_discards_no_key(
    body: bytes, driven_clock: DrivenClock
) -> None:
    verifier, source = make(driven_clock)
    await verifier.verify(GOOD.mint(), EdgeDoor(EDGE))
    source.body = body
    assert await refused(verifier, GOOD.mint({"kid": "k9"}))
    assert not await refused(verifier, GOOD.mint(jti="2"))


@promise("auth.jwks-restart")
async def test_keys_are_kept_over_a_restart_for_what_is_left_of_their_day(
    driven_clock: DrivenClock, tmp_path: Path
) -> None:
    verifier, _ = make(driven_clock, state_dir=tmp_path)
    await verifier.verify(GOOD.mint(), EdgeDoor(EDGE))
    driven_clock.move(120)
    again, source = make(driven_clock, state_dir=tmp_path)
    source.is_down = True
    assert not await refused(again, TokenIssuer(now_s=NOW_S + 120).mint())
    assert source.fetches == 0
    driven_clock.move(DAY_S)
    too_late, source = make(driven_clock, state_dir=tmp_path)
    source.is_down = True
    assert await refused(too_late, TokenIssuer(now_s=NOW_S + DAY_S + 120).mint())


@pytest.mark.parametrize(
    "kept",
    ["", "{}", "[" * 9_000, '{"url": "https://issuer.example/jwks", "fetched_ms": "x"}', "\0"],
)
async def test_a_spoilt_key_file_is_passed_over(
    kept: str, driven_clock: DrivenClock, tmp_path: Path
) -> None:
    (tmp_path / "jwks.json").write_text(kept)
    verifier, source = make(driven_clock, state_dir=tmp_path)
    assert not await refused(verifier, GOOD.mint())
    assert source.fetches == 1


async def test_keys_kept_for_another_address_are_not_used(
    driven_clock: DrivenClock, tmp_path: Path
) -> None:
    kept = {
        "url": "https://evil.example/jwks",
        "fetched_ms": START_WALL_MS,
        "jwks": json.loads(key_set(GOOD.jwk())),
    }
    (tmp_path / "jwks.json").write_text(json.dumps(kept))
    verifier, source = make(driven_clock, state_dir=tmp_path)
    source.is_down = True
    assert await refused(verifier, GOOD.mint())


def test_two_keys_of_one_kid_make_a_key_set_unusable() -> None:
    with pytest.raises(ValueError, match="two keys"):
        read_keys(key_set(GOOD.jwk(), TokenIssuer(kid="k1", key="foreign", now_s=0).jwk()))


def test_private_members_of_a_published_key_are_ignored() -> None:
    assert list(read_keys(key_set(GOOD.jwk(d="AQAB", alg=..., use=...)))) == ["k1"]


@given(st.one_of(st.text(max_size=300), st.from_regex(r"[\w-]{1,40}\.[\w-]{1,40}\.[\w-]{1,40}")))
def test_no_text_makes_the_reader_do_anything_but_refuse(text: str) -> None:
    with pytest.raises(BadTokenError):
        read_token(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(name=st.sampled_from(sorted(GOOD.claims())), value=JSON)
def test_a_claim_of_any_other_value_is_refused_or_is_inside_of_the_table(
    name: str, value: object
) -> None:
    try:
        claims = check_claims(
            GOOD.claims(**{name: value}), issuer=ISSUER, door=EdgeDoor(EDGE), now_ms=START_WALL_MS
        )
    except BadTokenError:
        return
    assert name in {"tools_allow", "danger_allow", "sub", "exp", "iat"}
    assert type(claims.danger_allow) is bool
    assert 0 < claims.exp - claims.iat <= 300


async def test_a_refusal_says_nothing_of_key_or_token(driven_clock: DrivenClock) -> None:
    verifier, _ = make(driven_clock)
    for name, token in bad_tokens(GOOD).items():
        judging = asyncio.create_task(verifier.verify(token, EdgeDoor(EDGE)))
        while not judging.done():
            await settle()
            driven_clock.wake_all()
        with pytest.raises(BadTokenError) as refusal:
            await judging
        for part in token.split("."):
            assert len(part) < 8 or part not in str(refusal.value), name


async def test_a_disk_that_hangs_keeps_nobody_from_the_keys(
    driven_clock: DrivenClock, tmp_path: Path
) -> None:
    book = KeyBook(FakeSource(), url="u", state_dir=tmp_path, clock=driven_clock)
    may_go, has_ended = threading.Event(), threading.Event()

    def hang() -> None:
        may_go.wait(10)
        has_ended.set()

    async with asyncio.timeout(5):
        await book._off_loop(hang)
    assert not has_ended.is_set()
    may_go.set()
    assert await asyncio.to_thread(has_ended.wait, 5)


FAR_AND_NEAR = (
    {"keys": []},
    {"keys": [{"kty": "EC", "kid": "k1"}]},
    {"keys": [GOOD.jwk(use="enc")]},
)


@promise("auth.usable-keys-only")
@pytest.mark.parametrize("answer", FAR_AND_NEAR)
async def test_an_answer_without_a_usable_key_leaves_the_good_keys_in_force(
    answer: dict[str, object], driven_clock: DrivenClock, tmp_path: Path
) -> None:
    verifier, source = make(driven_clock, state_dir=tmp_path)
    await verifier.verify(GOOD.mint(), EdgeDoor(EDGE))
    source.body = json.dumps(answer).encode()
    assert await refused(verifier, GOOD.mint({"kid": "k9"}))
    with pytest.raises(Failed, match=r"no RSA key of 2048 to 8192 bits.*1 cached keys stay"):
        await verifier.keys.fetch_now()
    assert source.fetches == 3
    assert not await refused(verifier, GOOD.mint(jti="2"))
    again, _ = make(driven_clock, source, tmp_path)
    assert not await refused(again, GOOD.mint(jti="3"))
    # As before, they end after their day.
    driven_clock.move(DAY_S)
    assert await refused(again, TokenIssuer(now_s=NOW_S + DAY_S).mint())


@pytest.mark.parametrize("bits", [1024, 2047])
def test_a_short_key_is_not_usable_however_long_it_is_written(bits: int) -> None:
    modulus = (1 << (bits - 1) | 1).to_bytes(512)
    with pytest.raises(ValueError, match="no RSA key"):
        read_keys(key_set(GOOD.jwk(n=b64(modulus))))


@promise("auth.refresh-keys")
async def test_the_owner_has_the_keys_fetched_at_once_however_recently_that_was_done(
    driven_clock: DrivenClock,
) -> None:
    verifier, source = make(driven_clock)
    withdrawn = GOOD.mint()
    await verifier.verify(withdrawn, EdgeDoor(EDGE))
    second = TokenIssuer(kid="k2", now_s=NOW_S)
    source.body = key_set(second.jwk())
    assert await verifier.keys.fetch_now() == {"keys": 1, "age_s": 0, "error": ""}
    assert await refused(verifier, withdrawn)
    assert not await refused(verifier, second.mint())


@promise("auth.refresh-keys")
async def test_a_fetch_that_began_before_the_owner_asked_is_followed_by_another(
    driven_clock: DrivenClock,
) -> None:
    verifier, source = make(driven_clock)
    source.gate = asyncio.Event()
    first = asyncio.create_task(verifier.verify(GOOD.mint(), EdgeDoor(EDGE)))
    await settle()
    asked = asyncio.create_task(verifier.keys.fetch_now())
    await settle()
    source.gate.set()
    await first
    await asked
    assert source.fetches == 2


@promise("auth.fetch-unseen")
@pytest.mark.parametrize("kid", ["k1", "k9"])
async def test_the_time_of_a_refusal_does_not_say_whether_the_keys_were_fetched(
    kid: str, driven_clock: DrivenClock
) -> None:
    verifier, source = make(driven_clock)
    await verifier.verify(GOOD.mint(), EdgeDoor(EDGE))
    forger = TokenIssuer(kid=kid, key="foreign", now_s=NOW_S)
    refused_at: list[tuple[float, int]] = []
    # Fetched within the wait, fetched for longer than it, not fetched at all.
    for gate in (None, asyncio.Event(), None):
        source.gate = gate
        before = source.fetches
        began_s = driven_clock.monotonic()
        judging = asyncio.create_task(verifier.verify(forger.mint(jti=len(refused_at)), EDGE_DOOR))
        ended_s: list[float] = []
        judging.add_done_callback(partial(_note_time, ended_s, driven_clock))
        for _ in range(4):
            await until_fetched(verifier)
            await driven_clock.advance(REFUSED_AFTER_S / 3)
        with pytest.raises(BadTokenError):
            await judging
        refused_at.append((ended_s[0] - began_s, source.fetches - before))
        if gate is not None:
            gate.set()
        await until_fetched(verifier)
        if gate is None and len(refused_at) == 1:
            driven_clock.move(60)
    assert [round(after_s, 6) for after_s, _ in refused_at] == [REFUSED_AFTER_S] * 3
    assert [fetches for _, fetches in refused_at] == [1, 1, 0]


def _note_time(ended_s: list[float], clock: DrivenClock, _judging: object) -> None:
    ended_s.append(clock.monotonic())


async def until_fetched(verifier: Verifier) -> None:
    """Wait for a fetch that nothing holds up."""
    fetch = verifier.keys._fetch
    source = cast("FakeSource", verifier.keys._source)
    if fetch is not None and (source.gate is None or source.gate.is_set()):
        await asyncio.wait({fetch})


async def test_keys_that_are_about_to_end_are_fetched_behind_whoever_asks(
    driven_clock: DrivenClock,
) -> None:
    verifier, source = make(driven_clock)
    await verifier.verify(GOOD.mint(), EdgeDoor(EDGE))
    driven_clock.move(DAY_S - 60)
    source.gate = asyncio.Event()
    late = TokenIssuer(now_s=NOW_S + DAY_S - 60)
    assert (await verifier.verify(late.mint(), EDGE_DOOR)).sub == "user:ada"
    await settle()
    assert source.fetches == 2
    source.gate.set()
    await until_fetched(verifier)
    driven_clock.move(120)
    assert not await refused(verifier, TokenIssuer(now_s=NOW_S + DAY_S + 60).mint())


@promise("auth.unreadable-entry")
async def test_an_entry_of_tools_allow_that_cannot_be_read_is_lost_and_named_in_the_log(
    driven_clock: DrivenClock,
) -> None:
    verifier, _ = make(driven_clock)
    long = "\x1b[31m" + "é" * 1_000
    odd = ["*", 7, None, ["get_status"], {"get_status": True}, "", "a:b:c", long]
    with capture_logs() as logs:
        claims = await verifier.verify(GOOD.mint(tools_allow=["get_status", *odd]), EDGE_DOOR)
        assert await refused(verifier, TokenIssuer(key="x", now_s=NOW_S).mint(tools_allow=["*"]))
    assert claims.tools_allow == {"get_status"}
    (told,) = [entry for entry in logs if entry["event"] == "token_entries_ignored"]
    assert (told["subject"], told["count"]) == ("user:ada", len(odd))
    assert told["entries"][:2] == ["*", "7"]
    assert all(len(entry) <= 100 and entry.isprintable() for entry in told["entries"])
    nothing = await verifier.verify(GOOD.mint(tools_allow=["*"] * 1_000), EDGE_DOOR)
    assert nothing.tools_allow == frozenset()
