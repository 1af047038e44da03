"""Notebooks of the documentation, run against a simulated bench; their page shows what they store.

``python -m tests.bench.notebooks`` stores the outputs of all of them anew, and writes their page's
outputs and pictures from these: each block of ``python`` on the page is a cell of one of them, and
a block of ``text`` behind it is what that cell stores.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.bench.engine_process import REPOSITORY, engine_process
from tests.bench.pages import is_alike

DOCS: Final = REPOSITORY / "docs"
NOTEBOOKS: Final = sorted((DOCS / "notebooks").glob("*.ipynb"))
PAGE: Final = DOCS / "notebooks.md"
PICTURES: Final = DOCS / "pictures"
RUNNER: Final = (sys.executable, str(REPOSITORY / "tests" / "bench" / "notebook_cells.py"))
WITHIN_S: Final = 120.0
SHOWN: Final = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<text>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)

Outputs = list[dict[str, Any]]
"""What one cell shows, in the form of nbformat 4."""


def code_cells(path: Path) -> list[dict[str, Any]]:
    """The code cells of a notebook, with what they store."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_notebook(path: Path, url: str, home: Path, runner: Sequence[str] = RUNNER) -> list[Outputs]:
    """Run a notebook with the bench at ``url``; what each code cell shows.

    Args:
        home: an empty directory, in which it runs.
        runner: a program that takes the notebook and prints this as JSON.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EDGED_")}
    done = subprocess.run(
        [*runner, str(path)],
        cwd=home,
        env={**kept, "EDGED_URL": url, "MPLBACKEND": "agg", "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    told: list[Outputs] = json.loads(done.stdout.splitlines()[-1])
    return told


def are_alike(told: Outputs, stored: Outputs) -> bool:
    """Whether a cell shows what it stores; of pictures, that there is one."""
    return _kinds(told) == _kinds(stored) and is_alike(text_of(told), text_of(stored))


def _kinds(outputs: Outputs) -> list[tuple[str, list[str]]]:
    """What a cell shows, in order; a kernel may give what is printed in several pieces."""
    kinds = ((one["output_type"], sorted(one.get("data", ()))) for one in outputs)
    return [kind for kind, _ in itertools.groupby(kinds)]


def text_of(outputs: Outputs) -> str:
    """What a cell prints, and the value that it ends with."""
    texts = [
        one.get("text", one.get("data", {}).get("text/plain", ""))
        for one in outputs
        if one["output_type"] != "display_data"
    ]
    return "".join("".join(text) for text in texts)


def shown_on(page: str) -> list[tuple[str, str | None]]:
    """The code on the page with its output; ``None``: none is shown."""
    return [(match["code"], match["text"]) for match in SHOWN.finditer(page)]


def _store(path: Path, told: list[Outputs]) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(cells, told, strict=True), 1):
        counted = {"execution_count": number}
        cell["outputs"] = [
            one | counted if one["output_type"] == "execute_result" else one for one in outputs
        ]
        cell["execution_count"] = number
        for one in outputs:
            if "image/png" in one.get("data", {}):
                picture = PICTURES / f"notebook-{path.stem}.png"
                picture.write_bytes(base64.b64decode(one["data"]["image/png"]))
    # As nbformat writes it, so that Jupyter's own saving changes no line.
    text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _show() -> None:
    cells = [cell for path in NOTEBOOKS for cell in code_cells(path)]
    stored = {"".join(cell["source"]): text_of(cell["outputs"]) for cell in cells}

    def renewed(match: re.Match[str]) -> str:
        text = stored[match["code"].rstrip("\n")]
        if match["text"] is None:
            return match[0]
        return f"```python\n{match['code']}```\n\n```text\n{text}```\n"

    PAGE.write_text(SHOWN.sub(renewed, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> int:
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as place, engine_process(Path(place)) as engine:
            home = Path(place) / "home"
            home.mkdir()
            _store(path, run_notebook(path, engine.mcp_url, home))
    _show()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
