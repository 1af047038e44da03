"""The table of revisions: what each row must say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edged.protocol.jsonrpc import RpcCode
from edged.protocol.revisions import (
    BASE,
    FORERUNNER,
    NEWEST,
    REVISIONS,
    SUPPORTED_VERSIONS,
    legacy_revision,
    negotiate,
)
from tests.bench.mcp_rules import holds

V03, V06, V11, V26 = REVISIONS.values()


def test_the_four_are_there_oldest_first_and_the_base_is_the_oldest() -> None:
    assert SUPPORTED_VERSIONS == ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
    assert BASE is V03
    assert NEWEST is V26
    assert all(version == revision.version for version, revision in REVISIONS.items())


@pytest.mark.parametrize(
    ("attribute", "values"),
    [
        ("has_handshake", (True, True, True, False)),
        ("has_batches", (True, False, False, False)),
        ("has_resource_links", (False, True, True, True)),
        ("has_structured_content", (False, True, True, True)),
        ("is_bad_argument_a_result", (False, False, True, True)),
        ("has_event_ids", (True, True, True, False)),
        ("has_priming_event", (False, False, True, False)),
        ("is_disconnect_a_cancel", (False, False, False, True)),
        ("has_method_header", (False, False, False, True)),
        ("result_type", ("", "", "", "complete")),
        ("has_server_meta", (False, False, False, True)),
    ],
)
def test_the_differences_stand_where_the_specification_has_them(
    attribute: str, values: tuple[object, ...]
) -> None:
    assert tuple(getattr(revision, attribute) for revision in REVISIONS.values()) == values


MODERN_STATUS = {
    RpcCode.PARSE_ERROR: 400,
    RpcCode.INVALID_REQUEST: 400,
    RpcCode.INVALID_PARAMS: 400,
    RpcCode.METHOD_NOT_FOUND: 404,
    RpcCode.INTERNAL_ERROR: 200,
    RpcCode.RESOURCE_NOT_FOUND: 200,  # never sent there: see below
    RpcCode.HEADER_MISMATCH: 400,
    RpcCode.MISSING_CAPABILITY: 400,
    RpcCode.UNSUPPORTED_VERSION: 400,
    RpcCode.NOT_AUTHENTICATED: 401,
    RpcCode.NOT_ALLOWED: 200,
    RpcCode.DANGEROUS: 200,
}


@pytest.mark.parametrize("code", list(RpcCode))
def test_http_status_by_code_is_as_each_era_has_it(code: RpcCode) -> None:
    for revision in (V03, V06, V11):
        assert revision.status_of(code) == (401 if code is RpcCode.NOT_AUTHENTICATED else 200)
    assert V26.status_of(code) == MODERN_STATUS[code]


@holds("codes.own")
def test_our_own_codes_are_outside_what_json_rpc_and_mcp_keep() -> None:
    for code in (RpcCode.NOT_AUTHENTICATED, RpcCode.NOT_ALLOWED, RpcCode.DANGEROUS):
        assert not -32768 <= code <= -32000


@holds("codes.reserved")
def test_no_code_is_one_that_must_not_be_sent() -> None:
    assert -32042 not in {int(code) for code in RpcCode}
    assert V26.resource_not_found == -32602
    for revision in (V03, V06, V11):
        assert revision.resource_not_found == -32002


def test_an_unknown_wish_is_answered_with_the_newest_that_has_a_handshake() -> None:
    for wish in ("", "2024-10-07", "2026-07-28", "2099-01-01", "x"):
        assert negotiate(wish) is V11
    for revision in (FORERUNNER, V03, V06, V11):
        assert negotiate(revision.version) is revision


def test_the_modern_revision_cannot_be_initialized() -> None:
    assert legacy_revision("2026-07-28") is None
    assert "initialize" not in V26.methods


def test_revisions_are_keys_and_a_copy_is_another_one() -> None:
    assert {V03: 1, V26: 2}[V26] == 2
    assert replace(V03) != V03
