"""A process that runs the code cells of one notebook in order, as the kernel of Jupyter does.

``python notebook_cells.py NOTEBOOK`` prints JSON: of each code cell its outputs, in the form of
nbformat 4. What a kernel shows is shown: printed text, the value of a last expression, and each
figure of Matplotlib at the end of its cell. It uses nothing of Jupyter: a kernel and its client are
some thirty packages more than the suite has, for two files. ``make conformance`` runs the same
notebooks in a real one.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def outputs_of(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one cell among the names of those before it."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    found = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        found.append({"output_type": "stream", "name": "stdout", "text": lines})
    if value is not None:
        found.append(_displayed("execute_result", {"text/plain": [repr(value)]}))
    return found + [_displayed("display_data", data) for data in _figures()]


def _displayed(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": kind, "data": data, "metadata": {}}


def _figures() -> list[dict[str, Any]]:
    """The figures of a cell, which are closed by that; none where nothing draws."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    pictures = []
    for number in pyplot.get_fignums() if pyplot else []:
        figure, drawn = pyplot.figure(number), io.BytesIO()
        figure.savefig(drawn, format="png", bbox_inches="tight")
        png = base64.b64encode(drawn.getvalue()).decode()
        pictures.append({"image/png": png, "text/plain": [repr(figure)]})
    if pyplot:
        pyplot.close("all")
    return pictures


def main() -> int:
    notebook = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {"__name__": "__main__"}
    told = [outputs_of("".join(cell["source"]), names) for cell in cells]
    json.dump(told, sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
