"""docs/add-your-instrument.md, followed literally: its commands are run as they stand."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from tests.bench.page_reader import PAGE, Reader

NO_SCPI = "## 5. An instrument that is no SCPI"
MINUTES = 15.0
MINUTES_NO_SCPI = 5.0


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def test_the_page_works_as_it_stands_and_within_its_fifteen_minutes(tmp_path: Path) -> None:
    began = time.monotonic()
    page, found, _ = PAGE.partition(NO_SCPI)
    assert found
    port = free_port()
    with Reader.at_home(tmp_path) as reader:
        reader.follow(page.replace("50250", port), listens=port)
        assert (time.monotonic() - began) / 60 < MINUTES
        assert reader.compared >= 8
        assert "all clean" in reader.run("edged profile lint example_gx100").stderr
        listed = reader.run("edged call list_profiles --json").stdout
    assert '"is_simulated": true' in listed
    assert '"model": "GX100"' in listed


def test_the_path_of_what_is_no_scpi_works_as_it_stands_within_five_minutes(tmp_path: Path) -> None:
    began = time.monotonic()
    _, _, page = PAGE.partition(NO_SCPI)
    port = free_port()
    with Reader.at_home(tmp_path) as reader:
        reader.follow(page.replace("50251", port), listens=port)
        assert (time.monotonic() - began) / 60 < MINUTES_NO_SCPI
        assert "all clean" in reader.run("edged profile lint my_bath").stderr
        listed = reader.run("edged call list_profiles --json").stdout
    assert '"my_bath"' in listed
