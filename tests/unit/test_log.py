"""Nothing secret and nothing misleading gets into the log."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from edged.config.load import LogFormat, LogLevel
from edged.log import REMOVED, scrub, set_up_logging
from tests.promises import promise

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ1c2VyOjEifQ.c2lnbmF0dXJl"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, structlog.get_config())
    stream = io.StringIO()
    set_up_logging(LogLevel.INFO, LogFormat.AUTO, stream=stream)
    yield stream
    logging.captureWarnings(capture=False)
    root.handlers[:], level, config = before
    root.setLevel(level)
    structlog.configure(**config)


def _last(stream: io.StringIO) -> dict[str, object]:
    line: dict[str, object] = json.loads(stream.getvalue().splitlines()[-1])
    return line


@promise("log.no-secrets")
@pytest.mark.parametrize(
    "field",
    [
        {"authorization": "x"},
        {"Edge-Caller-JWT": "x"},
        {"inbound_auth_token": "x"},
        {"headers": {"Authorization": "Basic x"}},
        {"deep": [{"password": "x"}]},
        {"text": f"sent Bearer {JWT} to it"},
        {"text": f"token {JWT}"},
        {"error": ValueError(f"bad {JWT}")},
    ],
)
def test_a_secret_in_any_place_is_cut_out(field: dict[str, object]) -> None:
    said = json.dumps(scrub(field))
    assert REMOVED in said
    assert "eyJ" not in said
    assert '"x"' not in said
    assert "Basic x" not in said


def test_what_only_sounds_secret_stays() -> None:
    field = {"progress_token": 7, "token_count": 3, "tokens": [1], "jwt_used": True}
    assert scrub(field) == field


def test_of_bytes_only_their_number_is_kept() -> None:
    assert scrub({"data": b"\x00" * 12}) == {"data": "<12 bytes>"}


def test_a_circle_ends() -> None:
    circle: dict[str, object] = {}
    circle["again"] = circle
    assert "…" in json.dumps(scrub(circle), ensure_ascii=False)


def test_events_are_json_lines_with_their_fields(lines: io.StringIO) -> None:
    structlog.get_logger("edged.x").info("thing_done", instrument_id="psu", count=2)
    line = _last(lines)
    assert line["event"] == "thing_done"
    assert (line["instrument_id"], line["count"], line["level"]) == ("psu", 2, "info")


def test_a_line_end_in_a_value_makes_no_second_line(lines: io.StringIO) -> None:
    set_up_logging(LogLevel.INFO, LogFormat.CONSOLE, stream=lines)
    structlog.get_logger("edged.x").info("identified", idn="ACME\n2026 [error] forged\x1b[2J")
    (line,) = lines.getvalue().splitlines()
    assert "\\x0a" in line
    assert "\x1b[2J" not in line


def test_levels_below_the_configured_one_are_silent(lines: io.StringIO) -> None:
    structlog.get_logger("edged.x").debug("whisper")
    logging.getLogger("aiohttp.access").info("GET /")
    assert lines.getvalue() == ""


@promise("log.no-secrets")
def test_what_libraries_log_is_scrubbed_too(lines: io.StringIO) -> None:
    logging.getLogger("aiohttp").warning("header Authorization: Bearer %s", JWT)
    assert "eyJ" not in lines.getvalue()
    assert REMOVED in str(_last(lines)["event"])


@promise("log.no-secrets")
def test_a_traceback_is_kept_without_its_secrets(lines: io.StringIO) -> None:
    try:
        raise ValueError(JWT)
    except ValueError:
        structlog.get_logger("edged.x").exception("failed")
    line = _last(lines)
    assert "Traceback" in str(line["exception"])
    assert "eyJ" not in str(line["exception"])
