"""The table of edges in a real JetStream, with the permissions of docs/relay.md."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from edged.clock import SystemClock
from edged.relay.announcement import here_subject
from edged.relay.link import NatsLink
from edged.sharing.leases import Moment
from edged_relay.fleet.inventory import BUCKET, KEPT_S, MOST_KEPT_BYTES, Inventory
from edged_relay.fleet.table import EdgeTable
from edged_relay.key_store import KeyStore
from tests.bench.driven_clock import DrivenClock, settle
from tests.bench.fleet_bench import UNIT, FleetBench, running_fleet
from tests.bench.nats_server import JETSTREAM_USERS
from tests.bench.waiting import HANGS_S
from tests.promises import promise

CLOCK = SystemClock()


def store(link: NatsLink) -> KeyStore:
    return KeyStore(link, bucket=BUCKET, ttl_s=KEPT_S, most_bytes=MOST_KEPT_BYTES)


def keeping(link: NatsLink, table: EdgeTable) -> Inventory:
    made = Inventory(store(link), table, clock=CLOCK)
    made.start()
    return made


@pytest.fixture
async def bench(tmp_path: Path, free_port: Callable[[], int]) -> AsyncIterator[FleetBench]:
    async with running_fleet(tmp_path, free_port(), is_guarded=True, users=JETSTREAM_USERS) as made:
        yield made


async def recalled(table: EdgeTable, edge_id: str) -> None:
    async with asyncio.timeout(HANGS_S):
        while table.find(edge_id) is None:
            await asyncio.sleep(0.02)


@promise("fleet.inventory")
async def test_what_edges_said_outlives_all_fronts_and_a_restart_of_the_broker(
    bench: FleetBench,
) -> None:
    kept: list[Inventory] = []

    def keep(link: NatsLink, table: EdgeTable) -> Inventory:
        kept.append(keeping(link, table))
        return kept[-1]

    first = await bench.front(keep=keep)
    edge = await bench.edge()
    await edge.say(page="http://10.0.0.7:8767/bench")
    await bench.known("edge-1")
    async with asyncio.timeout(HANGS_S):
        while not kept[0]._put:
            await asyncio.sleep(0.02)
    await kept[0].stop()
    await first.stop()
    bench.nats.stop()
    bench.nats.start()
    # A front that comes when the edge says nothing any more knows it all the same.
    second = await bench.front(keep=keep)
    await recalled(second.table, "edge-1")
    (known,) = second.table.listed({"edge-1"})
    assert known.said.units == (UNIT,)
    assert known.said.page == "http://10.0.0.7:8767/bench"
    assert kept[1].is_recalled
    await kept[1].stop()
    # No edge can write there.
    await edge.link.publish(f"$KV.{BUCKET}.edge-1", b"forged")
    async with asyncio.timeout(HANGS_S):
        while BUCKET not in edge.link.status.last_error:
            await asyncio.sleep(0.02)


async def test_a_bucket_of_many_edges_is_read_whole(bench: FleetBench) -> None:
    link = await bench.link("front")
    first = store(link)
    assert await first.read_all() == {}
    for number in range(300):
        await first.put(f"edge-{number}", b"%d" % number)
    assert await store(link).read_all() == {f"edge-{n}": b"%d" % n for n in range(300)}


class FakeStore:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.is_down = False
        self.puts = 0

    async def read_all(self) -> dict[str, bytes]:
        self._check()
        return dict(self.kept)

    async def put(self, key: str, value: bytes) -> None:
        self._check()
        self.puts += 1
        self.kept[key] = value

    def _check(self) -> None:
        if self.is_down:
            raise ConnectionError("It is away.")


@promise("fleet.inventory")
async def test_the_same_word_is_kept_once_a_minute_and_a_store_that_is_away_is_tried_again(
    driven_clock: DrivenClock,
) -> None:
    kept, table = FakeStore(), EdgeTable()
    inventory = Inventory(kept, table, clock=driven_clock)
    inventory.start()
    await settle()

    async def say(version: str) -> None:
        data = json.dumps({"version": version}).encode()
        now = Moment(driven_clock.monotonic(), driven_clock.wall_ms())
        table.hear(here_subject("a"), data, now)
        edge = table.find("a")
        assert edge is not None
        inventory.note(edge, data)
        await settle()

    await say("1")
    for _ in range(5):
        driven_clock.move(10)
        await say("1")
    assert kept.puts == 1
    driven_clock.move(10)
    await say("1")
    assert kept.puts == 2
    kept.is_down = True
    await say("2")
    await say("3")
    kept.is_down = False
    await driven_clock.advance(5)
    assert b'"3"' in kept.kept["a"]
    await inventory.stop()
    # What is spoiled there is passed over.
    kept.kept |= {"b": b"x\n{}", "e": b"[]\n{}", "c": b"1\n{", "d.e": b'1\n{"version":"1"}'}
    for name, when in {"f": b"1e999", "g": b"Infinity", "h": b"-" + b"9" * 400, "i": b""}.items():
        kept.kept[name] = when + b'\n{"version":"1"}'
    kept.kept["j"] = kept.kept.pop("a")
    kept.kept["a"] = kept.kept["j"]
    other = EdgeTable()
    again = Inventory(kept, other, clock=driven_clock)
    again.start()
    await settle()
    assert [edge.edge_id for edge in other.listed({"*"})] == ["a", "j"]
    assert again.is_recalled
    await again.stop()
