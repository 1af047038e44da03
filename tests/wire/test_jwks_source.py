"""The JWKS client against a server on loopback that answers badly in every way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from edged.auth import keys
from edged.auth.keys import HttpJwksSource, JwksError

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[str, list[bytes]]]:
    heads: list[bytes] = []
    serving_now: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving_now.add(asyncio.current_task())  # type: ignore[arg-type]
        try:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/jwks", heads
    finally:
        server.close()
        for task in serving_now:
            task.cancel()
        await asyncio.gather(*serving_now, return_exceptions=True)


def plain(status: str, body: bytes, *headers: str) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()

    return answer


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"4000\r\n" + b"a" * 0x4000 + b"\r\n")
        await writer.drain()


async def silent(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()
    await asyncio.sleep(5)


async def test_a_key_set_is_fetched() -> None:
    async with serving(plain("200 OK", b'{"keys": []}')) as (url, heads):
        assert await HttpJwksSource(url).fetch() == b'{"keys": []}'
    assert heads[0].startswith(b"GET /jwks HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "answer",
    [
        plain("302 Found", b"", "Location: http://127.0.0.1:9/jwks"),
        plain("404 Not Found", b"{}"),
        plain("500 Oops", b"{}"),
        plain("200 OK", b"a" * (256 * 1024 + 1)),
        endless,
        plain("200 OK\r\nContent-Length: x", b""),
    ],
)
async def test_what_is_no_plain_bounded_answer_is_an_error(answer: Answer) -> None:
    async with serving(answer) as (url, heads):
        with pytest.raises(JwksError):
            await HttpJwksSource(url).fetch()
    assert len(heads) == 1


async def test_a_server_that_stalls_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "FETCH_WITHIN_S", 0.1)
    async with serving(silent) as (url, _):
        async with asyncio.timeout(2):
            with pytest.raises(JwksError, match="within"):
                await HttpJwksSource(url).fetch()


async def test_nobody_at_the_address_is_an_error(free_port: Callable[[], int]) -> None:
    with pytest.raises(JwksError, match="reached"):
        await HttpJwksSource(f"http://127.0.0.1:{free_port()}/").fetch()
