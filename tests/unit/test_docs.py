import ast
import functools
import re
import runpy
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from edged.cli.completion import Usage, usage_of
from edged.cli.main import VERBS
from tests.bench.engine_process import REPOSITORY
from tests.bench.sources import PACKAGES, syntax_tree

DOCS = REPOSITORY / "docs"


def test_the_architecture_is_one_page_that_names_every_chapter_and_nothing_else() -> None:
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(page.splitlines()) <= 200
    package = REPOSITORY / "edged"
    rows = re.findall(r"^\| \d[abc]? \| `([a-z/]+)`", page, re.MULTILINE)
    floors = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    assert {row.split("/")[0] for row in rows} == floors
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", page))
    assert len(named) > 5
    roots = (package, REPOSITORY)
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_the_readme_leads_to_the_architecture() -> None:
    page = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert "(docs/architecture.md)" in page


def test_every_chapter_says_what_it_is_for() -> None:
    silent = [
        str(path.parent)
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("__init__.py")
        if len(ast.get_docstring(syntax_tree(path.read_text(encoding="utf-8"))) or "") < 30
    ]
    assert silent == []


CITED = re.compile(
    r"\b(?:SPEC(?:-2)?|ARCHITECTURE|LAYOUT|STYLE|MCP-REVISIONS|PROFILE-FORMAT)\.md|instrument facts"
)


def test_nothing_cites_what_is_not_in_the_repository() -> None:
    places = (*PACKAGES, "tests", "benchmarks", "docs", "packaging", "profiles", "sdk_wrappers")
    files = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
    for place in places:
        files += (
            path
            for path in (REPOSITORY / place).rglob("*")
            if path.suffix in {".py", ".md", ".yaml", ".sh", ".toml"} and path != Path(__file__)
        )
    found = [
        str(path.relative_to(REPOSITORY))
        for path in files
        if CITED.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


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


COMMAND = re.compile(r"(?:`|^    )(?:sudo )?edged ([a-z][^`\n#]*)", re.MULTILINE)
OPTION = re.compile(r"--[a-z][a-z-]*")


@functools.cache
def usage(verb: str, subverb: str = "") -> Usage:
    return usage_of(VERBS[verb], [subverb] if subverb else [])


def is_understood(command: str) -> bool:
    """Whether verb, subverb and options exist; what follows them is not looked at."""
    own, _, of_the_engine = command.partition(" -- ")
    verb, *rest = own.split()
    if verb not in VERBS:
        return False
    known = usage(verb).options
    if rest and re.fullmatch(r"[a-z][a-z-]*", rest[0]):
        if usage(verb).subverbs and rest[0] not in usage(verb).subverbs:
            return False
        known += usage(verb, rest[0]).options
    return set(OPTION.findall(own)) <= set(known) and set(OPTION.findall(of_the_engine)) <= set(
        usage("engine").options
    )


def test_every_command_that_a_page_names_is_one_of_the_command_line() -> None:
    pages = [*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md",
             REPOSITORY / "packaging" / "debian" / "README.Debian"]  # fmt: skip
    named = [
        (page.name, command.strip())
        for page in pages
        for command in COMMAND.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(named) > 100
    assert [entry for entry in named if not is_understood(entry[1])] == []
    assert not is_understood("audit verify --fast")


def test_no_page_has_a_block_that_the_site_takes_for_text() -> None:
    # A word behind the language is fine on the forges, and ends the block's being one on the site.
    odd = [
        (page.name, line)
        for page in (REPOSITORY / "docs").rglob("*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*```\S* +\S", line)
    ]
    assert odd == []


@pytest.mark.parametrize("maker", ["reference.py", "house.py"])
def test_what_is_made_from_the_code_is_what_the_code_says(
    maker: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [maker, "--check"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(DOCS / maker), run_name="__main__")
    assert ended.value.code == 0, capsys.readouterr().err


def test_the_pictures_of_the_pages_are_shown_and_stay_small() -> None:
    pictures = {path.name: path.stat().st_size for path in (DOCS / "pictures").iterdir()}
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    shown = set(re.findall(r"\(pictures/([\w.-]+)", pages))
    assert shown == set(pictures)
    assert {name: size for name, size in pictures.items() if size > 150_000} == {}


def test_the_site_s_table_of_contents_has_every_page() -> None:
    config = (REPOSITORY / "mkdocs.yml").read_text()
    listed = set(re.findall(r"(?:: |- )([\w/-]+\.md)$", config, re.M))
    docs = REPOSITORY / "docs"
    assert len(listed) > 30
    assert {str(page.relative_to(docs)) for page in docs.rglob("*.md")} == listed


def test_the_windows_service_is_well_formed_and_stops_within_its_time() -> None:
    text = (REPOSITORY / "packaging" / "windows" / "edged-service.xml").read_text()
    service = ElementTree.fromstring(text)
    assert service.findtext("arguments") == "supervisor"
    assert service.findtext("stoptimeout") == "15 sec"
    page = (REPOSITORY / "docs" / "windows.md").read_text()
    for name in ("edged-service.xml", "install.ps1", "uninstall.ps1"):
        assert name in page
        assert (REPOSITORY / "packaging" / "windows" / name).exists()
