"""``edged relay`` as a program: the public front of the relay route."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from urllib.parse import urlsplit

from edged.auth.keys import HttpJwksSource, KeyBook
from edged.auth.verifier import Verifier
from edged.clock import SystemClock
from edged.config.load import Config
from edged.errors import ErrorCode, Failed, Invalid
from edged.host import ExitStatus
from edged.protocol.http_rules import Guard
from edged.relay.front import RelayFront
from edged.relay.link import LinkSettings, NatsLink
from edged.service import stop_requested

__all__ = ["link_settings", "run"]


def run(config: Config, *, host: str, port: int) -> int:
    """Serve until asked to stop; returns the exit status."""
    return asyncio.run(_main(config, host, port))


def link_settings(config: Config, name: str) -> LinkSettings:
    """The NATS connection as configured.

    Raises:
        Invalid: RELAY_NATS_URL is not set.
    """
    if config.relay_nats_url is None:
        raise Invalid("RELAY_NATS_URL is not set.", code=ErrorCode.BAD_CONFIG)
    return LinkSettings(
        url=config.relay_nats_url,
        credentials=config.relay_credentials,
        ca_file=config.relay_ca_file,
        name=name,
    )


async def _main(config: Config, host: str, port: int) -> int:
    clock = SystemClock()
    link = NatsLink(link_settings(config, "edged relay"), clock=clock)
    issuer, jwks_url = config.relay_issuer, config.relay_jwks_url
    if not issuer or not jwks_url:
        raise Invalid(
            "RELAY_ISSUER and RELAY_JWKS_URL must both be set.", code=ErrorCode.BAD_CONFIG
        )
    keys = KeyBook(HttpJwksSource(jwks_url), url=jwks_url, state_dir=None, clock=clock)
    front = RelayFront(
        link,
        verifier=Verifier(keys, issuer=issuer, clock=clock),
        guard=_guard(config),
        clock=clock,
    )
    with stop_requested() as asked:
        await front.start()
        opening = asyncio.create_task(link.open(), name="relay connect")
        try:
            sys.stdout.write(json.dumps({"port": await _listen(front, host, port)}) + "\n")
            sys.stdout.flush()
            stopping = asyncio.create_task(asked.wait(), name="stop request")
            await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                opening.result()
            await stopping
        finally:
            opening.cancel()
            with contextlib.suppress(asyncio.CancelledError, Invalid):
                await opening
            await front.stop()
            await keys.close()
            await link.close()
    return ExitStatus.OK


async def _listen(front: RelayFront, host: str, port: int) -> int:
    try:
        return await front.listen(host, port)
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
