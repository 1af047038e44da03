"""What the supervisor says about itself, as others read it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from edged.host import read_supervisor_file
from edged.service import relay_link

LINK = {"state": "connected", "since_ms": 5, "last_error": "x", "last_error_ms": 3}


def test_a_running_supervisor_is_read(tmp_path: Path) -> None:
    facts = {"pid": os.getpid(), "port": 1, "addresses": [], "relay": LINK}
    (tmp_path / "supervisor.json").write_text(json.dumps(facts))
    assert relay_link(read_supervisor_file(tmp_path)) == LINK


@pytest.mark.parametrize("content", ["", "[]", '{"pid": "x"}', '{"pid": 0}', '{"pid": 4194304999}'])
def test_one_that_was_killed_or_spoilt_its_file_counts_as_none(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "supervisor.json").write_text(content)
    assert read_supervisor_file(tmp_path) == {}


@pytest.mark.parametrize(
    ("facts", "error"), [({}, "No supervisor is running."), ({"pid": 1, "relay": None}, "")]
)
def test_without_a_supervisor_or_a_relay_the_link_is_off(facts: dict[str, Any], error: str) -> None:
    link = relay_link(facts)
    assert (link["state"], link["last_error"]) == ("off", error)
