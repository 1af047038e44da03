"""docs/raw-scpi.md, followed literally: each refusal it promises is one, each other line works."""

from __future__ import annotations

from pathlib import Path

from tests.bench.engine_process import REPOSITORY
from tests.bench.page_reader import Reader

PAGE = (REPOSITORY / "docs" / "raw-scpi.md").read_text(encoding="utf-8")
# What RAW_SCPI is set to is shown in YAML too, and is no profile for the reader to write.
SETTING = "```yaml\nRAW_SCPI: known\n```\n"


def test_the_page_of_limits_says_what_happens_to_each_line(tmp_path: Path) -> None:
    before, found, after = PAGE.partition(SETTING)
    assert found
    with Reader.at_home(tmp_path) as reader:
        reader.follow(before + after)
        assert len(reader.terminals) == 1
        assert reader.commands >= 12
        assert reader.compared >= 6
