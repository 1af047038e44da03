"""What an installed package must bring along besides its modules."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

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


def test_the_package_says_that_it_is_typed(setup: configparser.ConfigParser) -> None:
    assert setup["options.package_data"]["edged"] == "py.typed"
    assert (ROOT / "edged" / "py.typed").is_file()
