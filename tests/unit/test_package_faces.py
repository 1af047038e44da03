"""The docstring of a package names the modules that are in it, not those that were."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.bench.sources import PACKAGES, REPOSITORY

NAMED = re.compile(r"``([a-z][a-z_]*)``")
FACES = sorted(face for package in PACKAGES for face in (REPOSITORY / package).rglob("__init__.py"))


def defined_in(folder: Path) -> set[str]:
    """Functions and classes of a folder."""
    return {
        word
        for module in folder.glob("*.py")
        for word in re.findall(r"(?m)^ *(?:async )?(?:def|class) (\w+)", module.read_text("utf-8"))
    }


@pytest.mark.parametrize("face", FACES, ids=lambda face: str(face.parent.relative_to(REPOSITORY)))
def test_each_name_in_the_docstring_of_a_package_is_there(face: Path) -> None:
    said = ast.get_docstring(ast.parse(face.read_text("utf-8"))) or ""
    folder = face.parent
    around = {folder, folder.parent, REPOSITORY / "edged", REPOSITORY}
    there = {path.stem for place in around for path in place.iterdir()}
    assert set(NAMED.findall(said)) <= there | defined_in(folder)
