from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from edged.actions.action import SendScpi
from edged.actions.outcome import Outcome, OutcomeStatus, Picture
from edged.commands.operation import failure_data
from edged.errors import EdgedError, ErrorCode, Failed, Invalid, Refused
from edged.operations.commands import OPERATIONS
from edged.operations.table import static_tools
from edged.protocol.jsonrpc import ErrorReply, RpcCode
from edged.protocol.results import Server
from edged.protocol.revisions import REVISIONS, Revision
from edged.surfaces.mcp.error_codes import PLACES, call_answer, error_reply, is_result
from tests.promises import promise

SERVER = Server(name="edged", version="1", capabilities={})
OLD, NEW = REVISIONS["2025-06-18"], REVISIONS["2025-11-25"]


def answer(error: EdgedError, revision: Revision = NEW, data: Any = None) -> Any:
    outcome = Outcome(status=OutcomeStatus.FAILED, data=data, error=error)
    made = call_answer(outcome, 3, tool=None, revision=revision, server=SERVER)
    return made if isinstance(made, ErrorReply) else json.loads(made)


def test_every_error_code_has_its_place() -> None:
    assert set(PLACES) == set(ErrorCode)


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda r: r.version)
def test_every_error_is_answered_in_every_revision(revision: Revision) -> None:
    for code in ErrorCode:
        made = answer(EdgedError("It is so.", code=code), revision)
        if is_result(code, revision):
            assert made["isError"] is True
            assert "It is so." in made["content"][0]["text"]
        else:
            assert made.request_id == 3
            assert made.rpc_code in set(RpcCode)


@promise("call.sent-is-failed")
@pytest.mark.parametrize("code", [ErrorCode.BAD_ARGUMENTS, ErrorCode.BAD_SCPI, ErrorCode.DANGEROUS])
@pytest.mark.parametrize("revision", [OLD, NEW])
def test_a_failure_after_a_line_was_sent_is_a_result(code: ErrorCode, revision: Revision) -> None:
    made = answer(Failed("It is so.", code=code, sent=("GO",)), revision)
    assert made["isError"] is True
    assert '"sent":["GO"]' in made["content"][0]["text"].replace(" ", "")


@pytest.mark.parametrize(
    ("code", "rpc_code"),
    [
        (ErrorCode.UNKNOWN_TOOL, -32602),
        (ErrorCode.RENAMED_TOOL, -32602),
        (ErrorCode.NOT_AUTHENTICATED, -33001),
        (ErrorCode.NOT_ALLOWED, -33003),
        (ErrorCode.DANGEROUS, -33004),
        (ErrorCode.INTERNAL, -32603),
        (ErrorCode.UNKNOWN_METHOD, -32601),
    ],
)
def test_errors_of_the_protocol_have_these_codes(code: ErrorCode, rpc_code: int) -> None:
    assert error_reply(EdgedError("No.", code=code), 1).rpc_code == rpc_code


@promise("results.one-error")
@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda r: r.version)
@pytest.mark.parametrize(
    "code", [ErrorCode.RENAMED_TOOL, ErrorCode.UNKNOWN_INSTRUMENT, ErrorCode.UNKNOWN_COMMAND]
)
def test_what_became_of_a_tool_that_was_listed_is_a_result(
    code: ErrorCode, revision: Revision
) -> None:
    # Agents seldom list tools again, and an error of the protocol ends the run of many.
    made = answer(EdgedError("It is so.", code=code, remedy="Call it so."), revision)
    assert made["isError"] is True
    assert "Call it so." in made["content"][0]["text"]


def test_an_error_outside_of_a_call_is_an_error_whatever_it_is() -> None:
    assert error_reply(Invalid("Bad."), None).rpc_code == RpcCode.INVALID_PARAMS


def test_bad_arguments_keep_parameter_and_bound_in_both_forms() -> None:
    bad = Invalid("voltage 61 V is over 60 V.", data={"parameter": "voltage", "maximum": 60})
    old = answer(bad, OLD)
    assert (old.rpc_code, old.data) == (-32602, {"parameter": "voltage", "maximum": 60})
    told = json.loads(answer(bad, NEW)["content"][0]["text"])["error"]
    assert told["data"] == {"parameter": "voltage", "maximum": 60}


def test_a_refusal_says_what_to_do_instead() -> None:
    refused = Refused("Ramp it.", code=ErrorCode.REQUIRES_SWEEP, remedy="Use start_sweep.")
    assert "Use start_sweep." in answer(refused)["content"][0]["text"]


@promise("raw.refusal-in-its-shape")
def test_a_refused_raw_line_is_an_error_that_fits_the_tools_schema() -> None:
    (tool,) = (made for made in static_tools() if made.name == "send_scpi")
    refused = Refused("No.", code=ErrorCode.RAW_SCPI_RESTRICTED)
    (operation,) = (row for row in OPERATIONS if row.action is SendScpi)
    outcome = Outcome(
        status=OutcomeStatus.REFUSED,
        data=failure_data(operation, None, refused, 1.5),
        error=refused,
    )
    made = call_answer(outcome, 3, tool=tool, revision=NEW, server=SERVER)
    assert isinstance(made, bytes)
    result = json.loads(made)
    assert result["isError"] is True
    told = result["structuredContent"]
    Draft202012Validator(dict(tool.output_schema or {})).validate(told)
    assert (told["response"], told["execution_time_ms"]) == (None, 1.5)
    assert told["error"]["code"] == "raw_scpi_restricted"


def test_a_failure_says_what_had_been_sent() -> None:
    failed = Failed("No answer.", code=ErrorCode.TIMEOUT, sent=("VOLT 5", "*OPC?"))
    told = json.loads(answer(failed)["content"][0]["text"])
    assert told["error"]["sent"] == ["VOLT 5", "*OPC?"]


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda r: r.version)
def test_a_picture_is_an_image_item_behind_the_text(revision: Revision) -> None:
    outcome = Outcome(
        status=OutcomeStatus.OK,
        data={"format": "png"},
        pictures=(Picture(mime="image/png", data=b"\x89PNG"),),
    )
    made = call_answer(outcome, 3, tool=None, revision=revision, server=SERVER)
    assert isinstance(made, bytes)
    text, image = json.loads(made)["content"]
    assert json.loads(text["text"]) == {"format": "png"}
    assert image == {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}


def test_the_picture_of_a_command_is_shown_and_its_base64_stands_nowhere_else() -> None:
    told = {"mime": "image/png", "length": 4, "encoding": "base64", "image": "iVBORw=="}
    outcome = Outcome(
        status=OutcomeStatus.OK,
        data={"success": True, "data": told, "scpi_command": "SHOT?"},
        pictures=(Picture(mime="image/png", data=b"\x89PNG"),),
    )
    made = call_answer(outcome, 3, tool=None, revision=NEW, server=SERVER)
    assert isinstance(made, bytes)
    result = json.loads(made)
    text, image = result["content"]
    assert image == {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
    del told["image"], told["encoding"]
    assert json.loads(text["text"])["data"] == told
    assert result["structuredContent"]["data"] == told
