"""The JWKS client against a server on loopback that answers badly in every way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from pytest_aiohttp import AiohttpRawServer

from edged.auth import keys
from edged.auth.keys import HttpJwksSource, JwksError
from tests.bench.waiting import HANGS_S

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Issuer = tuple[HttpJwksSource, list[str]]


def plain(status: int, body: bytes, **headers: str) -> Answer:
    async def answer(_request: web.BaseRequest) -> web.Response:
        return web.Response(status=status, body=body, headers=headers)

    return answer


async def endless(request: web.BaseRequest) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b"a" * 0x4000)


async def silent(request: web.BaseRequest) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Length": "100"})
    await answer.prepare(request)
    await answer.write(b"{")
    return answer


async def garbled(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")
    return web.Response()


@pytest.fixture
async def issuer(answer: Answer, aiohttp_raw_server: AiohttpRawServer) -> Issuer:
    asked: list[str] = []

    async def noted(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(f"{request.method} {request.path}")
        return await answer(request)

    server = await aiohttp_raw_server(noted)
    return HttpJwksSource(str(server.make_url("/jwks"))), asked


@pytest.mark.parametrize("answer", [plain(200, b'{"keys": []}')])
async def test_a_key_set_is_fetched(issuer: Issuer) -> None:
    source, asked = issuer
    assert await source.fetch() == b'{"keys": []}'
    assert asked == ["GET /jwks"]


@pytest.mark.parametrize(
    "answer",
    [
        plain(302, b"", Location="http://127.0.0.1:9/jwks"),
        plain(404, b"{}"),
        plain(500, b"{}"),
        plain(200, b"a" * (256 * 1024 + 1)),
        endless,
        garbled,
    ],
)
async def test_what_is_no_plain_bounded_answer_is_an_error(issuer: Issuer) -> None:
    source, asked = issuer
    with pytest.raises(JwksError):
        await source.fetch()
    assert len(asked) == 1


@pytest.mark.parametrize("answer", [silent])
async def test_a_server_that_stalls_is_given_up(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "FETCH_WITHIN_S", 0.1)
    async with asyncio.timeout(HANGS_S):
        with pytest.raises(JwksError, match="within"):
            await issuer[0].fetch()


async def test_nobody_at_the_address_is_an_error(free_port: Callable[[], int]) -> None:
    with pytest.raises(JwksError, match="reached"):
        await HttpJwksSource(f"http://127.0.0.1:{free_port()}/").fetch()
