"""Measures the house (``make shape``), beside another commit's with ``--commit``.

Imports are those that the code says, at the top of a module and inside of its functions.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = ("edged", "edged_author", "edged_relay", "edged_sim")
FREE: Final = ("edged_sim/models",)
"""A page for each simulated instrument: as many as there are."""
BOUNDS: Final = {
    "modules": 290,
    "longest module, lines": 700,
    "widest folder (cli apart)": 18,
    "modules of cli": 26,
    "longest import chain": 26,
    "import cycles": 0,
    "class names that mean two things": 8,
    "functions over 80 lines": 0,
    "broad excepts": 25,
}
LONG_FUNCTION: Final = 80


@dataclass(slots=True)
class Module:
    """One file of the package."""

    name: str
    folder: str
    lines: int
    tree: ast.Module
    imports: set[str] = field(default_factory=set)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python docs/shape.py", description=__doc__)
    parser.add_argument("--commit", help="another commit's figures beside these")
    parser.add_argument("--modules", action="store_true", help="list every module by its chapter")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    modules = modules_of(ROOT)
    if options.modules:
        sys.stdout.writelines(f"{line}\n" for line in listed(modules))
        return 0
    figures = figures_of(modules)
    before = _figures_at(options.commit) if options.commit else None
    if options.json:
        sys.stdout.write(json.dumps({"now": figures, "before": before}, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in _table(figures, before))
    return 0


def modules_of(root: Path) -> dict[str, Module]:
    """Every module of the packages by its dotted name, with what it imports of them."""
    modules = {}
    for path in sorted(path for name in PACKAGES for path in (root / name).rglob("*.py")):
        place = path.relative_to(root).with_suffix("")
        parts = place.parts[:-1] if place.name == "__init__" else place.parts
        text = path.read_text(encoding="utf-8")
        folder = place.parent.as_posix().removeprefix("edged/")
        name = ".".join(parts)
        is_package = place.name == "__init__"
        modules[name] = Module(
            name=f"{name}.__init__" if is_package else name,
            folder="" if folder == "edged" else folder,
            lines=len(text.splitlines()),
            tree=ast.parse(text),
        )
    for name, module in modules.items():
        module.imports = {found for found in _imported(module.tree, modules) if found != name}
    return modules


def _imported(tree: ast.Module, modules: Mapping[str, Module]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)


def figures_of(modules: Mapping[str, Module]) -> dict[str, Any]:
    """What ``BOUNDS`` bounds, and what is only told."""
    pages = [m for m in modules.values() if not m.name.endswith("__init__")]
    counted = [m for m in pages if not m.folder.startswith(FREE)]
    widths = Counter(m.folder for m in counted)
    lines = [m.lines for m in counted]
    functions = [size for m in pages for size in _function_sizes(m.tree)]
    importers = Counter(found for m in modules.values() for found in m.imports)
    return {
        "modules": len(counted),
        "longest module, lines": max(lines),
        "widest folder (cli apart)": max(n for folder, n in widths.items() if folder != "cli"),
        "modules of cli": widths["cli"],
        "longest import chain": _longest_chain(modules),
        "import cycles": sum(len(group) > 1 for group in _groups(modules)),
        "class names that mean two things": len(_shared_names(pages)),
        "functions over 80 lines": sum(size > LONG_FUNCTION for size in functions),
        "broad excepts": sum(_broad_excepts(m.tree) for m in pages),
        "told: median module, lines": statistics.median(lines),
        "told: lines": sum(m.lines for m in modules.values()),
        "told: imported by one other": sum(importers[m.name] == 1 for m in counted),
    }


def _function_sizes(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def _shared_names(pages: list[Module]) -> dict[str, list[str]]:
    """Public class names that stand in two modules or more."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in pages:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.name)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def _broad_excepts(tree: ast.Module) -> int:
    broad = {"Exception", "BaseException"}
    return sum(
        node.type is None or (isinstance(node.type, ast.Name) and node.type.id in broad)
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
    )


def _groups(modules: Mapping[str, Module]) -> list[list[str]]:
    """The strongly connected groups, each after all that it imports (Tarjan)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for found in sorted(modules[name].imports):
            if found not in number:
                visit(found)
                low[name] = min(low[name], low[found])
            elif found in stack:
                low[name] = min(low[name], number[found])
        if low[name] == number[name]:
            at = stack.index(name)
            groups.append(stack[at:])
            del stack[at:]

    for name in sorted(modules):
        if name not in number:
            visit(name)
    return groups


def _longest_chain(modules: Mapping[str, Module]) -> int:
    """Modules on the longest way down; a cycle counts as its modules one after another."""
    depth: dict[str, int] = {}
    for group in _groups(modules):
        below = {found for name in group for found in modules[name].imports} - set(group)
        most = len(group) + max((depth[found] for found in below), default=0)
        depth.update(dict.fromkeys(group, most))
    return max(depth.values())


def listed(modules: Mapping[str, Module]) -> Iterator[str]:
    """A line for each module: its lines and the first sentence of what it says of itself."""
    folder = None
    for module in sorted(modules.values(), key=lambda m: (m.folder, m.name)):
        if module.folder != folder:
            folder = module.folder
            yield f"\n{folder or 'edged'}/"
        said = (ast.get_docstring(module.tree) or "").split("\n\n")[0].replace("\n", " ")
        yield f"  {module.name.rpartition('.')[2]:<24}{module.lines:>5}  {said}"


def _table(figures: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[str]:
    for name, value in figures.items():
        bound = BOUNDS.get(name)
        then = f"{before[name]:>10}" if before else ""
        verdict = "" if bound is None else "kept" if value <= bound else "not kept"
        yield f"{name:<36}{then}{value:>10}{'' if bound is None else f'  <= {bound:<6}{verdict}'}"
    shared = _shared_names(list(modules_of(ROOT).values()))
    for name, places in shared.items():
        yield f"  {name}: {', '.join(place.removeprefix('edged.') for place in places)}"


def _figures_at(commit: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        packed = Path(place) / "tree.tar"
        words = ["git", "ls-tree", "--name-only", commit]
        known = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        there = sorted(set(PACKAGES) & set(known.split()))
        words = ["git", "archive", "--output", str(packed), commit, *there]
        subprocess.run(words, cwd=ROOT, check=True)
        with tarfile.open(packed) as archive:
            archive.extractall(place, filter="data")
        return figures_of(modules_of(Path(place)))


if __name__ == "__main__":
    raise SystemExit(main())
