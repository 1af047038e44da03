import re
import subprocess
import sys
from xml.etree import ElementTree

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


def test_the_reference_pages_are_what_the_code_says() -> None:
    checked = subprocess.run(
        [sys.executable, "docs/reference.py", "--check"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_every_page_of_the_site_s_table_of_contents_is_there() -> None:
    listed = set(re.findall(r": ([\w/-]+\.md)$", (REPOSITORY / "mkdocs.yml").read_text(), re.M))
    docs = REPOSITORY / "docs"
    assert len(listed) > 30
    assert sorted(page for page in listed if not (docs / page).exists()) == []


def test_the_windows_service_is_well_formed_and_stops_within_its_time() -> None:
    text = (REPOSITORY / "packaging" / "windows" / "edged-service.xml").read_text()
    service = ElementTree.fromstring(text)
    assert service.findtext("arguments") == "supervisor"
    assert service.findtext("stoptimeout") == "15 sec"
    page = (REPOSITORY / "docs" / "windows.md").read_text()
    for name in ("edged-service.xml", "install.ps1", "uninstall.ps1"):
        assert name in page
        assert (REPOSITORY / "packaging" / "windows" / name).exists()
