"""HTTP as hostile or odd clients speak it: a JSON-RPC error body, 4xx, no trace in the log."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import zlib

import pytest

from tests.bench.mcp_client import OMIT, Answer, Connection, McpClient
from tests.bench.mcp_endpoint import Endpoint, running_endpoint
from tests.bench.mcp_rules import holds
from tests.promises import promise

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
SECRET = "s3cr3t-in-the-request"


def is_quiet(caplog: pytest.LogCaptureFixture) -> bool:
    return not [record for record in caplog.records if record.levelno >= logging.WARNING]


def assert_refused(answer: Answer, status: int, code: int = -32600) -> None:
    assert answer.status == status, answer
    error = answer.json()
    assert error["jsonrpc"] == "2.0"
    assert error["error"]["code"] == code
    assert isinstance(error["error"]["message"], str)


def split(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.partition(":") for line in lines]
    return Answer(int(first.split()[1]), {k.lower(): v.strip() for k, _, v in pairs}, body)


async def test_initialize_by_a_plain_post_answers_200_and_a_result(mcp: Endpoint) -> None:
    answer = await mcp.client().initialize()
    assert answer.status == 200
    result = answer.json()["result"]
    assert result["protocolVersion"] == "2025-03-26"
    assert result["serverInfo"]["name"] == "edged"
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert result["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
    assert "date" in answer.headers


@promise("mcp.error-bodies")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"not json",
        b"\xff\xfe{}",
        '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
        b"[" * 600 + b"]" * 600,
        b'{"a":' * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":Infinity}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1e400}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"9" * 5000 + b"}}",
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    ],
)
async def test_a_body_that_is_no_json_is_400_with_a_parse_error(
    mcp: Endpoint, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert_refused(await mcp.client().post(body), 400, -32700)
    assert is_quiet(caplog)


@pytest.mark.parametrize(
    "message",
    [
        b"null",
        b"1",
        b'"ping"',
        b"{}",
        b"[]",
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":7}',
        *(
            b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % request_id
            for request_id in (b"null", b"true", b"[]", b"{}", b"1.5")
        ),
    ],
)
async def test_json_that_is_no_message_is_400_and_never_taken_as_a_notification(
    mcp: Endpoint, message: bytes
) -> None:
    assert_refused(await mcp.client().post(message), 400)


@pytest.mark.parametrize(
    "content_type",
    [
        OMIT,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "nonsense",
        "application/json; charset=bogus",
        "application/json; charset=utf-16",
        "application/json; charset=hex",
        "application/json; charset=zlib_codec",
        "application/json; charset=undefined",
    ],
)
async def test_another_content_type_is_415(mcp: Endpoint, content_type: str) -> None:
    assert_refused(await mcp.client().post(PING, {"Content-Type": content_type}), 415)


@pytest.mark.parametrize(
    "content_type", ["Application/JSON; Charset=UTF-8", 'application/json;charset="utf-8"']
)
async def test_json_in_any_spelling_is_served(mcp: Endpoint, content_type: str) -> None:
    assert (await mcp.client().post(PING, {"Content-Type": content_type})).json()["result"] == {}


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/event-stream", OMIT])
async def test_either_form_alone_is_honoured(mcp: Endpoint, accept: str) -> None:
    answer = await mcp.client().post(PING, {"Accept": accept})
    assert answer.status == 200
    wanted = "text/event-stream" if accept == "text/event-stream" else "application/json"
    assert answer.headers["content-type"] == wanted
    assert answer.messages() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


async def test_accepting_neither_is_406(mcp: Endpoint) -> None:
    assert_refused(await mcp.client().post(PING, {"Accept": "text/html"}), 406)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, gzip"])
@pytest.mark.parametrize(
    "body", [b"broken", gzip.compress(b"{}", mtime=0), zlib.compress(b"0" * 10_000_000)]
)
async def test_an_encoded_body_is_415_and_never_decoded(
    mcp: Endpoint, encoding: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert_refused(await mcp.client().post(body, {"Content-Encoding": encoding}), 415)
    assert is_quiet(caplog)


@promise("mcp.error-bodies")
@pytest.mark.parametrize("verb", ["PUT", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
async def test_another_verb_is_405_with_an_error_body(mcp: Endpoint, verb: str) -> None:
    answer = await mcp.client().send(verb)
    assert_refused(answer, 405)
    assert "POST" in answer.headers["allow"]


async def test_head_is_405_without_a_body(mcp: Endpoint) -> None:
    raw = await mcp.exchange(b"HEAD /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 405 ")
    assert raw.endswith(b"\r\n\r\n")


async def test_a_plain_get_is_4xx_with_an_error_body(mcp: Endpoint) -> None:
    assert_refused(await mcp.client().send("GET", headers={"Accept": "text/html"}), 406)
    assert_refused(await mcp.client().send("GET"), 400)


@pytest.mark.parametrize("path", ["/", "/sse", "/messages", "/mcp//", "/mcpx", "/%6dcp", "/rpc"])
@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_no_other_path_is_served(mcp: Endpoint, path: str, verb: str) -> None:
    client = McpClient(mcp.port, path=path)
    body = json.dumps(PING).encode() if verb == "POST" else b""
    assert_refused(await client.send(verb, body), 404)


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:1", "[::1]:8767", "192.168.7.9", "bench7", "BENCH7.local:80"]
)
async def test_a_host_that_is_this_machine_is_served(mcp: Endpoint, host: str) -> None:
    assert (await mcp.client().post(PING, {"Host": host})).status == 200


@promise("mcp.rebinding-guard")
@pytest.mark.parametrize("host", ["evil.example.com", "localhost.evil.example", "127.0.0.1.nip.io"])
async def test_another_host_is_403(mcp: Endpoint, host: str) -> None:
    assert_refused(await mcp.client().post(PING, {"Host": host}), 403)


async def test_no_host_is_400(mcp: Endpoint) -> None:
    assert_refused(await mcp.client().post(PING, {"Host": OMIT}), 400)


@promise("mcp.rebinding-guard")
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example.com", "null", "http://localhost:8767@evil.example", "file://", ""],
)
async def test_a_foreign_origin_is_403(mcp: Endpoint, origin: str) -> None:
    assert_refused(await mcp.client().post(PING, {"Origin": origin}), 403)


async def test_a_loopback_origin_is_served(mcp: Endpoint) -> None:
    assert (await mcp.client().post(PING, {"Origin": "http://localhost:3000"})).status == 200


@pytest.mark.parametrize(
    "name", ["Mcp-Session-Id", "Origin", "Content-Type", "Host", "MCP-Protocol-Version"]
)
@holds("mistake.two-origins")
async def test_a_header_that_must_be_single_is_refused_twice(mcp: Endpoint, name: str) -> None:
    body = json.dumps(PING).encode()
    twice = f"{name}: http://localhost\r\n{name}: http://evil.example\r\n".encode()
    plain = McpClient(mcp.port).bytes_of("POST", body, {name: OMIT, "Connection": "close"})
    assert_refused(split(await mcp.exchange(plain.replace(b"\r\n", b"\r\n" + twice, 1))), 400)


@promise("mcp.limits")
async def test_a_body_over_4_mib_is_413(mcp: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    answer = await mcp.client().post(b'"' + b"x" * (4 * 1024 * 1024) + b'"')
    assert_refused(answer, 413)
    assert is_quiet(caplog)


async def test_a_chunked_body_over_4_mib_is_413(mcp: Endpoint) -> None:
    async with await Connection.to(mcp.port) as connection:
        head = mcp.client().bytes_of(
            "POST", headers={"Content-Length": OMIT, "Transfer-Encoding": "chunked"}
        )
        connection.send(head)
        for _ in range(70):
            connection.send(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        assert_refused(await connection.read_answer(), 413)


async def test_a_body_of_almost_4_mib_is_served(mcp: Endpoint) -> None:
    call = mcp.client().tool_call("echo")
    call["params"]["arguments"] = {"text": "x" * (4 * 1024 * 1024 - 200)}
    answer = await mcp.client().post(call)
    assert answer.status == 200
    assert len(answer.body) > 4 * 1024 * 1024 - 200


async def test_chunked_bodies_are_served(mcp: Endpoint) -> None:
    body = json.dumps(PING).encode()
    head = mcp.client().bytes_of(
        "POST",
        headers={
            "Content-Length": OMIT,
            "Transfer-Encoding": "chunked",
            "Connection": "close",
        },
    )
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    assert split(await mcp.exchange(head + chunks)).json()["result"] == {}


@pytest.mark.parametrize(
    "chunks",
    [
        b"zz\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhelloXX0\r\n\r\n",
        b"5;" + b"a=b;" * 20_000 + b"\r\nhello\r\n0\r\n\r\n",
        b"ffffffffffffffffffff\r\n",
    ],
)
async def test_broken_chunking_is_400_with_an_error_body(
    mcp: Endpoint, chunks: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    head = mcp.client().bytes_of(
        "POST", headers={"Content-Length": OMIT, "Transfer-Encoding": "chunked"}
    )
    async with await Connection.to(mcp.port) as connection:
        connection.send(head)
        await asyncio.sleep(0)
        connection.send(chunks)
        answer = await connection.read_answer()
    assert answer.status in {400, 413}
    # Older parsers let more pass; what they make of it is no JSON then.
    assert answer.error_code in {-32600, -32700}
    assert is_quiet(caplog)


@promise("mcp.error-bodies")
@pytest.mark.parametrize(
    "request_bytes",
    [
        b"%b\r\n\r\n" % SECRET.encode(),
        b"GET /%b\r\n\r\n" % SECRET.encode(),
        b"GET / HTTP/1.1\r\nbad header %b\r\n\r\n" % SECRET.encode(),
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %b\r\n\r\n" % SECRET.encode(),
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"POST /mcp HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
        b"GET / HTTP/9.9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + SECRET.encode() + b"\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
async def test_what_the_parser_refuses_has_an_error_body_that_echoes_nothing(
    mcp: Endpoint, request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    raw = await mcp.exchange(request_bytes)
    answer = split(raw)
    assert answer.status in {400, 431}
    assert answer.json()["error"]["code"] == -32600
    assert SECRET.encode() not in raw
    assert b"aaaa" not in raw
    assert is_quiet(caplog)


@promise("mcp.limits")
@pytest.mark.parametrize("size", [33_000, 200_000])
async def test_a_huge_header_is_4xx_with_an_error_body(mcp: Endpoint, size: int) -> None:
    answer = await mcp.client().post(PING, {"X-Long": "a" * size})
    assert_refused(answer, 431)


async def test_many_headers_over_32_kib_together_are_4xx(mcp: Endpoint) -> None:
    answer = await mcp.client().post(PING, {f"X-{n}": "a" * 1_000 for n in range(40)})
    assert_refused(answer, 431)


@promise("mcp.limits")
async def test_a_slow_body_is_cut_with_408() -> None:
    async with (
        running_endpoint(slow_sender_s=0.05) as mcp,
        await Connection.to(mcp.port) as connection,
    ):
        connection.send(mcp.client().bytes_of("POST", b"{}", {"Content-Length": "1000"}))
        assert_refused(await connection.read_answer(), 408)
        assert await connection.read_rest() == b""


async def test_a_slow_head_is_cut_with_408() -> None:
    async with running_endpoint(slow_sender_s=0.05) as mcp:
        raw = await mcp.exchange(b"POST /mcp HTTP/1.1\r\nHost: loc")
        assert_refused(split(raw), 408)


async def test_an_idle_connection_is_not_taken_for_a_slow_head() -> None:
    async with (
        running_endpoint(slow_sender_s=0.05) as mcp,
        await Connection.to(mcp.port) as connection,
    ):
        request = mcp.client().bytes_of("POST", json.dumps(PING).encode())
        connection.send(request)
        await connection.read_answer()
        # The other client's slow head proves that the time has passed.
        await mcp.exchange(b"POST /mcp")
        connection.send(request)
        assert (await connection.read_answer()).status == 200


async def test_a_client_that_leaves_in_its_body_leaves_no_trace(
    mcp: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        async with await Connection.to(mcp.port) as connection:
            connection.send(mcp.client().bytes_of("POST", b"{", {"Content-Length": "500"}))
            await connection.writer.drain()
            connection.abort()
        await mcp.exchange(
            mcp.client().bytes_of("POST", b"{", {"Content-Length": "500"}), half_close=True
        )
    assert (await mcp.client().post(PING)).status == 200
    assert is_quiet(caplog)


@holds("mistake.half-close")
async def test_a_half_closed_client_still_gets_its_answer(mcp: Endpoint) -> None:
    request = mcp.client().bytes_of("POST", json.dumps(mcp.client().tool_call("echo")).encode())
    answer = split(await mcp.exchange(request, half_close=True))
    assert answer.json()["result"]["isError"] is False


async def test_a_half_closed_client_gets_the_answer_of_a_call_that_waits(mcp: Endpoint) -> None:
    async with await mcp.client().open_post(mcp.client().tool_call("wait")) as connection:
        connection.half_close()
        assert await mcp.tools.started.get() == "wait"
        mcp.tools.gate.set()
        assert (await connection.read_answer()).status == 200
        assert await connection.read_rest() == b""


async def test_expect_100_continue_is_answered_before_the_body(mcp: Endpoint) -> None:
    body = json.dumps(PING).encode()
    async with await Connection.to(mcp.port) as connection:
        request = mcp.client().bytes_of("POST", body, {"Expect": "100-continue"})
        connection.send(request.removesuffix(body))
        assert (await connection.read_head())[0] == 100
        connection.send(body)
        assert (await connection.read_answer()).json()["result"] == {}


async def test_another_expectation_is_417(mcp: Endpoint) -> None:
    assert_refused(await mcp.client().post(PING, {"Expect": "the-impossible"}), 417)


async def test_requests_follow_each_other_on_one_connection(mcp: Endpoint) -> None:
    request = mcp.client().bytes_of("POST", json.dumps(PING).encode())
    async with await Connection.to(mcp.port) as connection:
        for _ in range(3):
            connection.send(request)
            assert (await connection.read_answer()).status == 200
        connection.send(request * 20)
        for _ in range(20):
            assert (await connection.read_answer()).status == 200


async def test_a_refusal_before_the_body_is_read_reaches_a_client_that_still_sends(
    mcp: Endpoint,
) -> None:
    body = b"x" * 3_000_000
    assert_refused(await mcp.client().post(body, {"Content-Type": "text/plain"}), 415)


async def test_http_1_0_is_served_and_closed(mcp: Endpoint) -> None:
    body = json.dumps(PING).encode()
    raw = await mcp.exchange(
        b"POST /mcp HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    assert split(raw).json()["result"] == {}


async def test_the_absolute_form_of_a_proxy_is_served(mcp: Endpoint) -> None:
    own = f"http://127.0.0.1:{mcp.port}/mcp".encode()
    request = mcp.client().bytes_of("POST", json.dumps(PING).encode(), {"Connection": "close"})
    request = request.replace(b"POST /mcp", b"POST " + own, 1)
    assert split(await mcp.exchange(request)).status == 200


@pytest.mark.parametrize(
    "target", ["evil.example/mcp", "evil.example:8767/mcp", "127.0.0.1@evil.example/mcp", "/mcp"]
)
async def test_an_absolute_form_of_another_host_than_the_one_that_is_judged_is_refused(
    mcp: Endpoint, target: str
) -> None:
    request = mcp.client().bytes_of("POST", json.dumps(PING).encode(), {"Connection": "close"})
    request = request.replace(b"POST /mcp", f"POST http://{target}".encode(), 1)
    for _ in range(3):  # a head that passed is known by its bytes from the third time on
        assert split(await mcp.exchange(request)).status == 400


@promise("mcp.path-with-slash")
async def test_every_verb_is_served_with_a_slash_at_the_end_of_the_path_too(mcp: Endpoint) -> None:
    client = mcp.client()
    client.path = "/mcp/"
    await client.initialize()
    assert (await client.request("ping")).json()["result"] == {}
    async with await client.open_stream():
        pass
    assert (await client.send("DELETE")).status == 200
    client.path = "/mcp//"
    assert_refused(await client.request("ping"), 404)


async def test_any_text_comes_back_as_ascii_on_one_line(mcp: Endpoint) -> None:
    call = mcp.client().tool_call("echo")
    call["params"]["arguments"] = {"text": "Ω\u2028\u2029\r\n🔌"}
    answer = await mcp.client().post(call, {"Accept": "text/event-stream"})
    assert answer.body.isascii()
    (message,) = answer.messages()
    text = json.loads(message["result"]["content"][0]["text"])
    assert text == {"echo": {"text": "Ω\u2028\u2029\r\n🔌"}}


@promise("mcp.no-rate-limit")
async def test_three_hundred_quick_calls_are_all_served(mcp: Endpoint) -> None:
    client = await mcp.session()
    answers = await asyncio.gather(*(client.call("echo") for _ in range(300)))
    assert all(answer["isError"] is False for answer in answers)


async def test_an_offer_to_upgrade_is_passed_over(mcp: Endpoint) -> None:
    h2c = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABk"}
    assert (await mcp.client().post(PING, h2c)).json()["result"] == {}
    websocket = {"Connection": "Upgrade", "Upgrade": "websocket"}
    answer = await mcp.client().post(PING, websocket)
    assert answer.status in {200, 400}
    assert answer.json()["jsonrpc"] == "2.0"
    assert (await mcp.client().send("CONNECT")).status in {400, 404, 405}
