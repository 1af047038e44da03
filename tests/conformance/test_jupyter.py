"""The notebooks of the documentation in a kernel of Jupyter, as a reader runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.engine_process import REPOSITORY, engine_process
from tests.bench.notebooks import NOTEBOOKS, are_alike, code_cells, run_notebook

PYTHON = REPOSITORY / ".venv-clients" / "jupyter" / "bin" / "python"
KERNEL = (str(PYTHON), str(REPOSITORY / "tests" / "clients" / "notebook_kernel.py"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_kernel_shows_what_the_notebook_stores(path: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with engine_process(tmp_path) as engine:
        told = run_notebook(path, engine.mcp_url, home, KERNEL)
    for cell, outputs in zip(code_cells(path), told, strict=True):
        assert are_alike(outputs, cell["outputs"]), f"{cell['source']} says {outputs}"
