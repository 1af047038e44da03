import re
import subprocess
import sys

from tests.bench.engine_process import REPOSITORY


def test_the_map_of_modules_is_what_the_code_says() -> None:
    checked = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


TEST_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_test_that_a_page_names_exists() -> None:
    named = {
        (page.name, *found)
        for page in (REPOSITORY / "docs").rglob("*.md")
        for found in TEST_NAMED.findall(page.read_text(encoding="utf-8"))
    }
    assert len(named) > 30
    missing = [
        entry
        for entry in sorted(named)
        if f"def {entry[2]}(" not in (REPOSITORY / entry[1]).read_text(encoding="utf-8")
    ]
    assert missing == []
