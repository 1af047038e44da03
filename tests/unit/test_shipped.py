"""What an installed package must bring along besides its modules."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from edged.errors import Failed
from edged.host import ExitStatus
from edged.plugins import load_plugin, main
from tests.bench.sources import PACKAGES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    assert parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


@pytest.mark.parametrize(("folder", "ending"), [("profiles", ".yaml"), ("sdk_wrappers", ".py")])
def test_every_profile_and_wrapper_is_installed_where_edged_looks(
    setup: configparser.ConfigParser, folder: str, ending: str
) -> None:
    pattern = setup["options.data_files"][f"share/edged/{folder}"]
    assert sorted(ROOT.glob(pattern)) == sorted(
        path for path in (ROOT / folder).iterdir() if path.suffix == ending
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_in_the_wheel_and_says_that_it_is_typed(
    setup: configparser.ConfigParser, package: str
) -> None:
    included = setup["options.packages.find"]["include"].split(", ")
    assert {package, f"{package}.*"} <= set(included)
    assert setup["options.package_data"][package] == "py.typed"
    assert (ROOT / package / "py.typed").is_file()


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_in_the_debian_package(package: str) -> None:
    installed = (ROOT / "packaging/debian/edged.install").read_text("utf-8")
    assert f"{package} usr/lib/edged\n" in installed


def test_each_plug_in_is_found_by_its_entry_point(setup: configparser.ConfigParser) -> None:
    lines = setup["options.entry_points"]["edged.plugins"].split("\n")
    for name, _, module in (line.partition(" = ") for line in lines if line):
        assert load_plugin(name, module.partition(".")[0]).__name__ == module


@pytest.mark.parametrize(
    ("name", "module"),
    [("nobody", ""), ("gone", "edged_gone"), ("gone", "edged_gone.inner"), ("gone", "json.tool")],
)
def test_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, module: str
) -> None:
    (tmp_path / "other.dist-info").mkdir()
    (tmp_path / "other.dist-info" / "entry_points.txt").write_text(
        f"[edged.plugins]\ngone = {module}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        Failed, match="needs the package edged_gone, which is not installed"
    ) as told:
        load_plugin(name, "edged_gone")
    assert "apt install --reinstall edged" in told.value.remedy


def test_a_program_that_is_missing_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nobody", "edged_gone", "--seed", "1"]) == ExitStatus.UNAVAILABLE
    assert capsys.readouterr().err.startswith("edged nobody: This needs the package edged_gone")


def test_a_mistake_in_a_plug_in_is_not_taken_for_a_missing_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "other.dist-info").mkdir()
    (tmp_path / "other.dist-info" / "entry_points.txt").write_text(
        "[edged.plugins]\nbroken = edged_broken\n"
    )
    (tmp_path / "edged_broken.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        load_plugin("broken", "edged_broken")
