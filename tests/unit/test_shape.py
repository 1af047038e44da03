"""The figures of the structure only fall (docs/shape.py, bounds in docs/shape.txt)."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest

from tests.bench.engine_process import REPOSITORY

RENEW = (
    "Once the change is as small as it can be: make shape ARGS=--renew, with the reason of a rise."
)


@pytest.fixture(scope="module")
def shape() -> Any:
    spec = importlib.util.spec_from_file_location("shape", REPOSITORY / "docs" / "shape.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks for its module here.
    sys.modules["shape"] = module
    spec.loader.exec_module(module)
    return module


def test_no_figure_of_the_structure_is_over_its_bound_or_far_below_it(shape: Any) -> None:
    broken = shape.broken_bounds(shape.figures_of(shape.packages_of(REPOSITORY)), shape.bounds())
    if broken:
        pytest.fail("\n".join([*broken, RENEW]), pytrace=False)


@pytest.mark.parametrize(
    ("name", "figure", "bound", "said"),
    [
        ("protocols", 72, 72, ""),
        ("protocols", 73, 72, "over the bound 72"),
        ("protocols", 71, 72, "lower it"),
        ("lines of code, edged", 92_801, 92_800, "over the bound 92800"),
        ("lines of code, edged", 92_701, 92_800, ""),
        ("lines of code, edged", 92_700, 92_800, "lower it"),
    ],
)
def test_a_figure_over_its_bound_is_named_and_so_is_one_far_below(
    shape: Any, name: str, figure: int, bound: int, said: str
) -> None:
    (sentence,) = shape.broken_bounds({name: figure}, {name: bound}) or ("",)
    assert said in sentence
    assert bool(said) is bool(sentence)


def test_blank_lines_comments_and_docstrings_are_no_code(shape: Any) -> None:
    text = '"""Says."""\n\n# Why.\nx = 1\n"""Of x."""\n\n\ndef f() -> str:\n'
    text += '    """It\n    does."""\n    return "# no"\n'
    assert shape.code_lines(text, shape.nodes_of(shape.ast.parse(text))) == 3
