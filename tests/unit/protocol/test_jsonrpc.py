"""Bytes to messages: every trap is a BadMessage, everything valid comes back as it was."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.protocol.jsonrpc import (
    MAX_BATCH_ITEMS,
    MAX_BODY_BYTES,
    MAX_NESTING,
    BadMessage,
    Batch,
    Notification,
    Request,
    Response,
    RpcCode,
    around_id,
    cut_at_id,
    encode,
    error_bytes,
    notification_bytes,
    parse,
    result_bytes,
    result_bytes_from,
)

PARSE, INVALID, PARAMS = RpcCode.PARSE_ERROR, RpcCode.INVALID_REQUEST, RpcCode.INVALID_PARAMS


def call(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"} | members).encode()


def refusal(body: bytes) -> BadMessage:
    with pytest.raises(BadMessage) as caught:
        parse(body)
    return caught.value


NOT_JSON = {
    "empty": b"",
    "blank": b"  \n",
    "cut short": call()[:-1],
    "not UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "overlong UTF-8": b'"\xc0\xaf"',
    "surrogate as UTF-8": b'"\xed\xa0\x80"',
    "two byte order marks": b"\xef\xbb\xbf" * 2 + call(),
    "a byte order mark inside": call()[:1] + b"\xef\xbb\xbf" + call()[1:],
    "UTF-16": call().decode().encode("utf-16"),
    "UTF-32": call().decode().encode("utf-32-le"),
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}',
    "NaN as id": b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
    "Infinity": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":-Infinity}}',
    "1e400": b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}',
    "5000 digits": b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % (b"9" * 5000),
    "301 digits": b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % (b"9" * 301),
    "half a surrogate pair": rb'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}',
    "two values": call() + call(),
    "trailing comma": b'{"jsonrpc":"2.0","id":1,"method":"ping",}',
    "single quotes": b"{'jsonrpc':'2.0'}",
    "control character in a string": b'{"jsonrpc":"2.0","id":"a\nb","method":"ping"}',
    "unmatched brackets": b"[" * 200_000,
    "unmatched closing brackets": b"]" * 200_000,
    "brackets of the wrong kind": b"[}" * 100,
    "one level too deep": b"[" * (MAX_NESTING + 1) + b"]" * (MAX_NESTING + 1),
    "a hundred thousand arrays and one": b"[" + b"[]," * 100_000 + b"1]",
    "a string without end": b"[" * 70 + b'"' + b'\\"' * 500_000,
    "half a million levels": b'{"a":' * 500_000 + b"1" + b"}" * 500_000,
}


def test_a_byte_order_mark_before_the_body_is_ignored() -> None:
    assert parse(b"\xef\xbb\xbf" + call()) == parse(call())
    assert parse(b"\xef\xbb\xbf[" + call() + b"]") == parse(b"[" + call() + b"]")


def test_params_that_are_null_are_absent_in_requests_and_notifications() -> None:
    assert parse(call(params=None)) == parse(call())
    absent = parse(b'{"jsonrpc":"2.0","method":"notifications/initialized","params":null}')
    assert absent == Notification(method="notifications/initialized", params={})


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_what_is_not_json_is_a_parse_error_without_id(body: bytes) -> None:
    bad = refusal(body)
    assert (bad.rpc_code, bad.request_id, bad.http_status) == (PARSE, None, 400)


NOT_A_MESSAGE = {
    "number": (b"1", INVALID, None),
    "string": (b'"ping"', INVALID, None),
    "null": (b"null", INVALID, None),
    "empty object": (b"{}", INVALID, None),
    "empty batch": (b"[]", INVALID, None),
    "no version": (b'{"id":1,"method":"ping"}', INVALID, 1),
    "version 1.0": (call(jsonrpc="1.0"), INVALID, 1),
    "version as a number": (call(jsonrpc=2.0), INVALID, 1),
    "method as a number": (call(method=7), INVALID, 1),
    "method null": (call(method=None), INVALID, 1),
    "id null": (call(id=None), INVALID, None),
    "id true": (call(id=True), INVALID, None),
    "id 1.5": (call(id=1.5), INVALID, None),
    "id 1.0": (call(id=1.0), INVALID, None),
    "id list": (call(id=[]), INVALID, None),
    "id object": (call(id={}), INVALID, None),
    "id of 1,025 characters": (call(id="x" * 1_025), INVALID, None),
    "method of 1,025 characters": (call(method="x" * 1_025), INVALID, 1),
    "params string": (call(params="x"), PARAMS, 1),
    "params number": (call(params=5), PARAMS, 1),
    "params false": (call(params=False), PARAMS, 1),
    "params by position": (call(params=[1]), PARAMS, 1),
    "call and answer at once": (call(result={}), INVALID, 1),
    "no method, no answer": (b'{"jsonrpc":"2.0","id":1}', INVALID, 1),
    "result and error": (b'{"jsonrpc":"2.0","id":1,"result":1,"error":{}}', INVALID, 1),
    "answer without id": (b'{"jsonrpc":"2.0","result":1}', INVALID, None),
    "error without id": (b'{"jsonrpc":"2.0","error":{}}', INVALID, None),
    "error as text": (b'{"jsonrpc":"2.0","id":1,"error":"x"}', INVALID, 1),
    "a member twice": (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', INVALID, None),
    "an argument twice": (call()[:-1] + b',"params":{"v":1,"v":2}}', INVALID, None),
}


@pytest.mark.parametrize(
    ("body", "code", "request_id"), NOT_A_MESSAGE.values(), ids=NOT_A_MESSAGE.keys()
)
def test_what_is_json_and_no_message_is_refused_under_its_id(
    body: bytes, code: int, request_id: object
) -> None:
    bad = refusal(body)
    assert (bad.rpc_code, bad.request_id, bad.http_status) == (code, request_id, 400)


def test_a_body_over_4_mib_is_413_and_one_of_4_mib_is_read() -> None:
    fits = call(params={"pad": ""})
    fits = fits.replace(b'"pad": ""', b'"pad": "%b"' % (b"x" * (MAX_BODY_BYTES - len(fits))))
    assert isinstance(parse(fits), Request)
    assert refusal(fits + b" ").http_status == 413


def test_64_levels_are_read() -> None:
    deep: object = 1
    for _ in range(MAX_NESTING - 2):
        deep = [deep]
    assert isinstance(parse(call(params={"deep": deep})), Request)
    assert refusal(call(params={"deep": [deep]})).rpc_code == PARSE


def test_brackets_inside_strings_are_no_levels() -> None:
    text = '[{"\\' * 500
    message = parse(call(params={"text": text}))
    assert isinstance(message, Request)
    assert message.params["text"] == text


def test_a_long_flat_array_is_no_nesting() -> None:
    assert isinstance(parse(call(params={"rows": [[{}]] * 5000})), Request)


@pytest.mark.parametrize("request_id", [0, -7, 10**20, "", "0", "é\u2028\U0001f600"])
def test_string_and_integer_ids_come_back_as_they_were(request_id: str | int) -> None:
    message = parse(call(id=request_id))
    assert message == Request(id=request_id, method="ping")
    answer = json.loads(result_bytes(request_id, {}))
    assert answer == {"jsonrpc": "2.0", "id": request_id, "result": {}}
    assert type(answer["id"]) is type(request_id)


def test_a_call_without_id_is_a_notification_and_an_answer_is_a_response() -> None:
    assert parse(b'{"jsonrpc":"2.0","method":"x","params":{"a":1}}') == Notification(
        method="x", params={"a": 1}
    )
    assert parse(b'{"jsonrpc":"2.0","id":3,"result":null}') == Response(id=3)
    assert parse(b'{"jsonrpc":"2.0","id":null,"error":{"code":1}}') == Response(
        id=None, error={"code": 1}
    )


def test_unknown_members_of_a_message_are_passed_over() -> None:
    assert parse(call(trace="abc")) == Request(id=1, method="ping")


def test_a_bad_item_of_a_batch_stands_in_its_place() -> None:
    batch = parse(b'[1,{"jsonrpc":"2.0","id":2,"method":"ping"},{"id":3}]')
    assert isinstance(batch, Batch)
    first, second, third = batch.items
    assert second == Request(id=2, method="ping")
    assert isinstance(first, BadMessage)
    assert first.request_id is None
    assert isinstance(third, BadMessage)
    assert third.request_id == 3


def test_a_batch_inside_a_batch_is_a_bad_item() -> None:
    batch = parse(b"[[]]")
    assert isinstance(batch, Batch)
    assert isinstance(batch.items[0], BadMessage)


def test_a_batch_too_long_to_answer_is_refused() -> None:
    body = b"[" + b",".join([b"1"] * (MAX_BATCH_ITEMS + 1)) + b"]"
    assert refusal(body).rpc_code == INVALID


def test_what_is_sent_is_compact_ascii_that_no_line_end_can_break() -> None:
    text = "é \u2028\u2029\r\n\ud800"
    for sent in (
        encode({"a": text}),
        result_bytes(text, {"a": text}),
        error_bytes(None, RpcCode.INTERNAL_ERROR, text, {"a": text}),
        notification_bytes(text, {"a": text}),
    ):
        assert sent.isascii()
        assert b"\n" not in sent
        assert b"\r" not in sent
        assert b'": ' not in sent


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_never_sent(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"value": value})


def test_a_result_that_was_encoded_before_is_spliced_in() -> None:
    assert result_bytes_from("a", b'{"tools":[]}') == result_bytes("a", {"tools": []})


def test_error_data_is_left_out_when_there_is_none() -> None:
    assert json.loads(error_bytes(1, -32600, "no")) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32600, "message": "no"},
    }


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4)
    ),
    max_leaves=12,
)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_bad_message(body: bytes) -> None:
    _only_bad_message(body)


@given(st.text(alphabet='{}[]":,\\u0dDeE1-+.tfn \n', max_size=120))
def test_nothing_that_looks_like_json_raises_anything_but_bad_message(text: str) -> None:
    _only_bad_message(text.encode())


@given(json_values)
def test_no_json_value_raises_anything_but_bad_message(value: object) -> None:
    _only_bad_message(json.dumps(value).encode())


@given(
    st.text() | st.integers(-(10**30), 10**30),
    st.text(),
    st.dictionaries(st.text(), json_values, max_size=4),
)
def test_a_request_comes_back_as_it_was_sent(
    request_id: str | int, method: str, params: dict[str, object]
) -> None:
    for ensure_ascii in (True, False):
        body = json.dumps(
            {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params},
            ensure_ascii=ensure_ascii,
        ).encode()
        assert parse(body) == Request(id=request_id, method=method, params=params)


def _only_bad_message(body: bytes) -> None:
    try:
        found: object = parse(body)
    except BadMessage as bad:
        found = bad
    if isinstance(found, BadMessage):
        assert found.http_status in (400, 413)
        assert json.loads(found.reply().encode())["error"]["code"] == found.rpc_code
    else:
        assert isinstance(found, Request | Notification | Response | Batch)


IDS = (
    *("0", "7", "10", "999999999999999", "1234567890123456789", "-5", "05", "5.0", "5e0", "1E2"),
    *('""', '"a"', '"7"', '"a-1.b_2"', '"a b"', '"\\u0041"', '"\u00e9"', "null", "[1]", "7 "),
)
FRAMES = (
    '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"a"}}',
    '{"jsonrpc": "2.0", "id": %s, "method": "tools/call", "params": {"name": "a"}}',
    '{"jsonrpc":"2.0","id" :%s,"method":"m"}',
    '{"jsonrpc":"2.0","id":  %s,"method":"m"}',
    '{"method":"m","params":{"id":%s},"jsonrpc":"2.0","id":3}',
    '{"method":"m","params":{"id":4},"jsonrpc":"2.0","id":%s}',
    '{"method":"m","params":{"x":"id","y":"\\"id\\":9"},"jsonrpc":"2.0","id":%s}',
    '{"jsonrpc":"2.0","\\u0069d":5,"method":"m","params":{"id":%s}}',
    '{"jsonrpc":"2.0","id":%s,"id":2,"method":"m"}',
    '[{"jsonrpc":"2.0","id":%s,"method":"m"}]',
    '{"jsonrpc":"2.0","method":"m","id":%s}',
    '{"jsonrpc":"2.0","method":"m","id":%s0}',
)


def read(body: bytes) -> object:
    try:
        return parse(body)
    except BadMessage as bad:
        return bad.rpc_code


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("known_id", IDS)
def test_what_stands_around_an_id_means_the_same_with_another(frame: str, known_id: str) -> None:
    known = (frame % known_id).encode()
    request = read(known)
    around = around_id(known, request) if isinstance(request, Request) else None
    if around is None:
        return
    for other in ((one % each).encode() for one in FRAMES for each in IDS):
        cut = cut_at_id(other)
        if cut is not None and cut[0] == around:
            expected = Request(id=cut[1], method=request.method, params=request.params)
            assert repr(read(other)) == repr(expected)


@pytest.mark.parametrize("known_id", ["0", "7", "999999999999999", '""', '"a-1.b_2"'])
@pytest.mark.parametrize("frame", FRAMES[:2])
def test_usual_ids_are_found(frame: str, known_id: str) -> None:
    body = (frame % known_id).encode()
    request = read(body)
    assert isinstance(request, Request)
    assert cut_at_id(body) == (around_id(body, request), request.id)
