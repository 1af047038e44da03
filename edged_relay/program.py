"""``edged relay`` as a program: the public front of the relay route, and of the fleet."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from urllib.parse import urlsplit

from edged.auth.keys import HttpJwksSource, KeyBook
from edged.auth.verifier import Verifier
from edged.clock import Clock, SystemClock
from edged.config.keys import InventoryPlace
from edged.config.load import Config
from edged.errors import ErrorCode, Failed, Invalid
from edged.host import ExitStatus
from edged.protocol.http_rules import Guard
from edged.relay.link import NatsLink, link_settings
from edged.service import stop_requested
from edged_relay.fleet.hosts import FleetHosts
from edged_relay.fleet.inventory import BUCKET, KEPT_S, MOST_KEPT_BYTES, Inventory
from edged_relay.fleet.service import Fleet, forget
from edged_relay.fleet.table import EdgeTable
from edged_relay.front import RelayFront
from edged_relay.key_store import KeyStore
from edged_relay.login import LoginMetadata


def run(config: Config, *, host: str, port: int) -> int:
    """Serve until asked to stop; returns the exit status."""
    return asyncio.run(_main(config, host, port))


async def _main(config: Config, host: str, port: int) -> int:
    clock = SystemClock()
    link = NatsLink(link_settings(config, "edged relay"), clock=clock)
    issuer, jwks_url = config.relay_issuer, config.relay_jwks_url
    if not issuer or not jwks_url:
        raise Invalid(
            "RELAY_ISSUER and RELAY_JWKS_URL must both be set.", code=ErrorCode.BAD_CONFIG
        )
    keys = KeyBook(HttpJwksSource(jwks_url), url=jwks_url, state_dir=None, clock=clock)
    verifier, guard = Verifier(keys, issuer=issuer, clock=clock), _guard(config)
    login = LoginMetadata.of(config.relay_url, issuer)
    front = RelayFront(link, verifier=verifier, guard=guard, clock=clock, login=login)
    table = EdgeTable(hosts=FleetHosts(config.fleet_hosts))
    inventory = _inventory(config, link, table, clock)
    fleet = Fleet(
        link,
        front.exchanges,
        verifier=verifier,
        takes_all=config.fleet_all,
        names=guard,
        table=table,
        keep=inventory or forget,
        login=login,
        clock=clock,
    )
    with stop_requested() as asked:
        await front.start()
        await fleet.start()
        opening = asyncio.create_task(link.open(), name="relay connect")
        try:
            sys.stdout.write(json.dumps({"port": await _listen(front, fleet, host, port)}) + "\n")
            sys.stdout.flush()
            stopping = asyncio.create_task(asked.wait(), name="stop request")
            await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                opening.result()
                if inventory is not None:
                    inventory.start()
            await stopping
        finally:
            opening.cancel()
            with contextlib.suppress(asyncio.CancelledError, Invalid):
                await opening
            if inventory is not None:
                await inventory.stop()
            await fleet.stop()
            await front.stop()
            await keys.close()
            await link.close()
    return ExitStatus.OK


def _inventory(config: Config, link: NatsLink, table: EdgeTable, clock: Clock) -> Inventory | None:
    """Where the table outlives all fronts, if it is to."""
    if config.relay_inventory is not InventoryPlace.JETSTREAM:
        return None
    store = KeyStore(link, bucket=BUCKET, ttl_s=KEPT_S, most_bytes=MOST_KEPT_BYTES)
    return Inventory(store, table, clock=clock)


async def _listen(front: RelayFront, fleet: Fleet, host: str, port: int) -> int:
    try:
        return await front.listen(host, port, door=fleet.entrance)
    except OSError as error:
        raise Failed(
            f"{host}:{port} cannot be bound: {error.strerror}.", code=ErrorCode.BIND_FAILED
        ) from error


def _guard(config: Config) -> Guard:
    """The names of this relay: that of RELAY_URL, and the owner's."""
    parts = urlsplit(config.relay_url or "")
    origin = (f"{parts.scheme}://{parts.netloc}",) if config.relay_url else ()
    return Guard.of(
        host_name="",
        allowed_hosts=(*config.allowed_hosts, *([parts.hostname] if parts.hostname else [])),
        allowed_origins=(*config.allowed_origins, *origin),
        scheme=parts.scheme or "http",
    )
