"""Nothing secret and nothing misleading gets into the log."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import structlog

from edged.config.keys import LogFormat, LogLevel
from edged.log import ASIDE, MOST_ASIDE, REMOVED, scrub, set_up_logging
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


def test_a_line_put_aside_waits_for_a_thread_with_time_and_has_the_time_of_its_event(
    lines: io.StringIO,
) -> None:
    log = structlog.get_logger("edged.x")
    ASIDE.put(log, "written", token="x", text=f"Bearer {JWT}", scpi=("VOLT 1", f"Bearer {JWT}"))
    before = datetime.now(UTC).replace(tzinfo=None).isoformat()
    assert lines.getvalue() == ""
    ASIDE.write()
    line = _last(lines)
    assert (line["event"], line["level"], line["logger"]) == ("written", "info", "edged.x")
    assert (line["token"], line["text"]) == (REMOVED, f"Bearer {REMOVED}")
    assert line["scpi"] == ["VOLT 1", f"Bearer {REMOVED}"]
    assert str(line["timestamp"]).removesuffix("Z") <= before
    assert "_at" not in line


def test_what_went_wrong_is_written_at_once_behind_what_was_put_aside(lines: io.StringIO) -> None:
    log = structlog.get_logger("edged.x")
    ASIDE.put(log, "first")
    ASIDE.put(log, "second")
    log.info("refused")
    events = [json.loads(line)["event"] for line in lines.getvalue().splitlines()]
    assert events == ["first", "second", "refused"]


def test_lines_that_nobody_writes_are_written_by_whoever_puts_one_too_many(
    lines: io.StringIO,
) -> None:
    log = structlog.get_logger("edged.x")
    for number in range(MOST_ASIDE + 2):
        ASIDE.put(log, "written", number=number)
    assert len(lines.getvalue().splitlines()) == MOST_ASIDE + 1


def test_a_line_put_aside_below_the_configured_level_is_silent(lines: io.StringIO) -> None:
    set_up_logging(LogLevel.WARNING, LogFormat.AUTO, stream=lines)
    ASIDE.put(structlog.get_logger("edged.x"), "written")
    ASIDE.write()
    assert lines.getvalue() == ""
