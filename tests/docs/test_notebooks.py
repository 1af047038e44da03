"""The notebooks of the documentation are run; they store, and their page shows, what they say.

``make conformance`` runs them in a kernel of Jupyter (``tests/conformance/test_jupyter.py``).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.bench.engine import running_engine
from tests.bench.notebooks import (
    NOTEBOOKS,
    PAGE,
    PICTURES,
    Outputs,
    are_alike,
    code_cells,
    run_notebook,
    shown_on,
    text_of,
)

LARGEST_BYTES = 60_000
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_of_a_notebook_says_what_it_stores(path: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with running_engine(tmp_path) as engine:
        told = run_notebook(path, engine.mcp_url, home)
        supply = engine.sim("state")["instruments"]["psu1"]["state"]
    cells = code_cells(path)
    for cell, outputs in zip(cells, told, strict=True):
        assert are_alike(outputs, cell["outputs"]), f"{cell['source']} says {outputs}"
    assert json.dumps(told).count("image/png") == 1
    assert not any(supply[channel]["is_on"] for channel in ("ch1", "ch2", "ch3"))
    CHECKS[path.stem](told)


def finds_the_resistances(told: list[Outputs]) -> None:
    (text,) = [text_of(outputs) for outputs in told if "leads" in text_of(outputs)]
    load_ohm, leads_ohm = map(float, NUMBER.findall(text))
    assert load_ohm == pytest.approx(10, abs=0.2)
    assert leads_ohm == pytest.approx(0.05, abs=0.03)


def finds_less_noise_in_longer_readings(told: list[Outputs]) -> None:
    (text,) = [text_of(outputs) for outputs in told if "noise uV" in text_of(outputs)]
    rows = [list(map(float, line.split())) for line in text.splitlines()[1:]]
    assert [row[0] for row in rows] == [0.02, 0.2, 1, 10]
    assert all(row[2] == pytest.approx(3.3, abs=0.05) for row in rows)
    assert rows[-1][1] > rows[0][1]
    assert rows[-1][3] < rows[0][3] / 5


CHECKS = {"load": finds_the_resistances, "noise": finds_less_noise_in_longer_readings}
"""What a reader shall learn from each; of other numbers, any will do."""


def test_the_page_shows_cells_of_the_notebooks_and_what_they_store() -> None:
    stored = {
        "".join(cell["source"]) + "\n": text_of(cell["outputs"])
        for path in NOTEBOOKS
        for cell in code_cells(path)
    }
    shown = shown_on(PAGE.read_text(encoding="utf-8"))
    assert len(shown) >= 12
    for code, text in shown:
        assert code in stored
        assert text in (None, stored[code])
    assert sum(text is not None for _, text in shown) >= 10


def test_a_notebook_and_its_picture_are_small_and_know_no_machine() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(CHECKS)
    page = PAGE.read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        text = path.read_text(encoding="utf-8")
        assert len(text) <= LARGEST_BYTES
        assert re.findall(r"/(?:home|root|tmp|work|Users)/", text) == []
        notebook = json.loads(text)
        assert notebook["metadata"]["kernelspec"]["name"] == "python3"
        assert text == json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        counts = [cell["execution_count"] for cell in code_cells(path)]
        assert counts == list(range(1, len(counts) + 1))
        assert f"](notebooks/{path.name})" in page
        assert f"](pictures/notebook-{path.stem}.png)" in page
        assert (PICTURES / f"notebook-{path.stem}.png").stat().st_size <= LARGEST_BYTES


def test_what_a_cell_does_not_say_or_draw_is_found() -> None:
    said = {"output_type": "stream", "name": "stdout", "text": ["OFF\n"]}
    drawn = {"output_type": "display_data", "data": {"image/png": "…"}, "metadata": {}}
    assert are_alike([said, drawn], [said, drawn])
    assert are_alike([{**said, "text": "O"}, {**said, "text": "FF\n"}, drawn], [said, drawn])
    assert not are_alike([said], [said, drawn])
    assert not are_alike([{**said, "text": ["ON\n"]}, drawn], [said, drawn])


def test_a_notebook_that_fails_is_told(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": ["1 / 0"]}]
    (tmp_path / "bad.ipynb").write_text(json.dumps({"cells": cells}))
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_notebook(tmp_path / "bad.ipynb", "http://127.0.0.1:1/mcp", tmp_path)
