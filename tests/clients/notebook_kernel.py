"""A notebook in a kernel of Jupyter: ``python notebook_kernel.py NOTEBOOK`` prints its outputs.

The same JSON as ``tests/bench/notebook_cells.py`` prints, so that one stands for the other.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_WITHIN_S = 40


def main() -> int:
    # What the kernel draws with; another one comes from the environment of the suite.
    os.environ.pop("MPLBACKEND", None)
    notebook = nbformat.read(Path(sys.argv[1]), as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    client = NotebookClient(notebook, timeout=CELL_WITHIN_S, kernel_name="python3")
    client.execute(cwd=str(Path.cwd()))
    told = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    print(json.dumps(told))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
