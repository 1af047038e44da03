"""Measures the structure (``make shape``), beside another commit's with ``--commit``.

Imports are those that the code says, at the top of a module and inside of its functions. Lines of
code have no blank lines, comments and docstrings. ``docs/shape.txt`` has a bound for each figure
that may only fall: a test fails when a figure is over its bound, and when it is so far below that
the bound should fall with it. ``make shape ARGS=--renew`` writes the bounds of today's figures; a
bound that rises needs a reason in the commit. How many files a call goes through is bounded by
``make cost``.
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
BOUNDS: Final = Path(__file__).with_name("shape.txt")
PACKAGES: Final = ("edged*", "pyvisa_edged")
"""What the product is made of; ``edged`` is what a reader of the daemon has to know."""
STEPS: Final = {
    "lines of code, edged": 50,
    "lines of code, all packages": 50,
    "modules, edged": 5,
    "arguments x=x": 10,
}
"""A bound is the next multiple of this, so that a small change leaves it; of other figures 1."""
AIMS: Final = {
    "lines of code, edged": 60_000,
    "lines of code, all packages": 78_000,
    "modules, edged": 330,
    "longest import chain": 22,
    "protocols with one implementation": 20,
    "constructors with more than 6 arguments": 25,
    "defaults that do nothing": 0,
    "import cycles": 0,
    "functions over 80 lines": 0,
}
LONG_FUNCTION: Final = 80
MANY_ARGUMENTS: Final = 6


@dataclass(slots=True)
class Module:
    """One file of the package."""

    name: str
    folder: str
    lines: int
    code_lines: int
    tree: ast.Module
    nodes: Mapping[type, list[Any]]
    imports: set[str] = field(default_factory=set)

    def all(self, *kinds: type) -> Iterator[Any]:
        """Every node of these kinds."""
        return chain.from_iterable(self.nodes.get(kind, ()) for kind in kinds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python docs/shape.py", description=__doc__)
    parser.add_argument("--commit", help="another commit's figures beside these")
    parser.add_argument("--modules", action="store_true", help="list every module by its chapter")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--renew", action="store_true", help="write docs/shape.txt")
    options = parser.parse_args()
    packages = packages_of(ROOT)
    modules = packages["edged"]
    if options.modules:
        sys.stdout.writelines(f"{line}\n" for line in listed(modules))
        return 0
    figures = figures_of(packages)
    if options.renew:
        BOUNDS.write_text("".join(f"{line}\n" for line in bound_lines(figures)), encoding="utf-8")
    before = _figures_at(options.commit) if options.commit else None
    if options.json:
        sys.stdout.write(json.dumps({"now": figures, "before": before}, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in _table(modules, figures, before))
    return 0


def modules_of(package: Path) -> dict[str, Module]:
    """Every module of a package by its dotted name, with what it imports of the package."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package.parent).with_suffix("")
        parts = place.parts[:-1] if place.name == "__init__" else place.parts
        text = path.read_text(encoding="utf-8")
        folder = path.parent.relative_to(package).as_posix()
        name = ".".join(parts)
        is_package = place.name == "__init__"
        tree = ast.parse(text)
        nodes = nodes_of(tree)
        modules[name] = Module(
            name=f"{name}.__init__" if is_package else name,
            folder="" if folder == "." else folder,
            lines=len(text.splitlines()),
            code_lines=code_lines(text, nodes),
            tree=tree,
            nodes=nodes,
        )
    for name, module in modules.items():
        module.imports = {found for found in _imported(module, modules) if found != name}
    return modules


def nodes_of(tree: ast.Module) -> dict[type, list[Any]]:
    """Every node by its kind: a tree is walked once."""
    found: dict[type, list[Any]] = defaultdict(list)
    for node in ast.walk(tree):
        found[type(node)].append(node)
    return found


def _imported(module: Module, modules: Mapping[str, Module]) -> Iterator[str]:
    for node in module.all(ast.ImportFrom):
        if node.module in modules:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module
    for node in module.all(ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules)


def packages_of(root: Path) -> dict[str, dict[str, Module]]:
    """The modules of each package of the product below a directory, by the package's name."""
    places = {path.parent for name in PACKAGES for path in root.glob(f"{name}/__init__.py")}
    return {place.name: modules_of(place) for place in sorted(places)}


def figures_of(packages: Mapping[str, Mapping[str, Module]]) -> dict[str, Any]:
    """The figures: those with a bound, and (``told: …``) those without."""
    modules = packages["edged"]
    pages = [m for m in modules.values() if not m.name.endswith("__init__")]
    widths = Counter(m.folder for m in pages)
    lines = [m.lines for m in pages]
    functions = [size for m in pages for size in _function_sizes(m)]
    importers = Counter(found for m in modules.values() for found in m.imports)
    every = list(modules.values())
    return {
        "lines of code, edged": sum(m.code_lines for m in every),
        "lines of code, all packages": sum(
            m.code_lines for package in packages.values() for m in package.values()
        ),
        "modules, edged": len(modules),
        "arguments x=x": sum(map(_wired, every)),
        "protocols": len(_protocols(every)),
        "protocols with one implementation": _single(every),
        "constructors with more than 6 arguments": sum(map(_wide_constructors, every)),
        "lists __all__": sum(map(_export_lists, every)),
        "tables and sets of keys": sum(map(_vocabularies, every)),
        "defaults that do nothing": sum(map(_idle_defaults, every)),
        "longest module, lines": max(lines),
        "widest folder (cli apart)": max(n for folder, n in widths.items() if folder != "cli"),
        "modules of cli": widths["cli"],
        "longest import chain": _longest_chain(modules),
        "import cycles": sum(len(group) > 1 for group in _groups(modules)),
        "class names that mean two things": len(_shared_names(pages)),
        "functions over 80 lines": sum(size > LONG_FUNCTION for size in functions),
        "broad excepts": sum(map(_broad_excepts, pages)),
        "told: median module, lines": statistics.median(lines),
        "told: lines": sum(m.lines for m in modules.values()),
        "told: imported by one other": sum(importers[m.name] == 1 for m in pages),
    }


def bound_of(name: str, figure: int) -> int:
    """The bound that is written for a figure."""
    step = STEPS.get(name, 1)
    return -(-figure // step) * step


def bound_lines(figures: Mapping[str, Any]) -> Iterator[str]:
    """The lines of ``docs/shape.txt``."""
    for name, figure in figures.items():
        if not name.startswith("told"):
            yield f"{name}: {bound_of(name, figure)}"


def bounds() -> dict[str, int]:
    """What ``docs/shape.txt`` says."""
    lines = BOUNDS.read_text(encoding="utf-8").splitlines()
    return {name: int(bound) for name, _, bound in (line.rpartition(":") for line in lines)}


def broken_bounds(figures: Mapping[str, Any], kept: Mapping[str, int]) -> list[str]:
    """A sentence for each bound that a figure exceeds, or has left so far that it should fall."""
    said = []
    for name, figure in figures.items():
        if name.startswith("told"):
            continue
        bound = kept.get(name)
        if bound is None:
            said.append(f"{name}: {figure}, and docs/shape.txt has no bound.")
        elif figure > bound:
            said.append(f"{name}: {figure}, over the bound {bound}: find another way.")
        elif bound_of(name, figure) < bound - (STEPS.get(name, 1) if name in STEPS else 0):
            said.append(f"{name}: {figure}, below the bound {bound}: lower it in this commit.")
    return [*said, *(f"{name}: bounded and not measured." for name in kept.keys() - figures.keys())]


def code_lines(text: str, nodes: Mapping[type, list[Any]]) -> int:
    """Lines on which code stands: no blank lines, comments, docstrings and texts beside names."""
    silent = {
        line
        for node in nodes.get(ast.Expr, ())
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    return sum(
        number not in silent and line.strip()[:1] not in ("", "#")
        for number, line in enumerate(text.splitlines(), 1)
    )


def _wired(module: Module) -> int:
    """Arguments that hand a value on under its own name: ``x=x``, ``x=self._x``, ``x=other.x``."""
    return sum(_last_name(node.value) == node.arg for node in module.all(ast.keyword))


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr.removeprefix("_")
    return node.id if isinstance(node, ast.Name) else None


def _protocols(modules: Sequence[Module]) -> list[ast.ClassDef]:
    return [node for module in modules for node in module.all(ast.ClassDef) if _is_protocol(node)]


def _is_protocol(node: ast.ClassDef) -> bool:
    """Whether it is one of typing; those of asyncio are classes that do something."""
    return any(ast.unparse(base).split("[")[0] == "Protocol" for base in node.bases)


def _single(modules: Sequence[Module]) -> int:
    """Protocols whose members at most one other class of the package has."""
    members = [
        _members(node)
        for module in modules
        for node in module.all(ast.ClassDef)
        if not _is_protocol(node)
    ]
    return sum(
        sum(_members(protocol) <= found for found in members) <= 1
        for protocol in _protocols(modules)
    )


def _members(node: ast.ClassDef) -> frozenset[str]:
    """The names that a class defines, on itself and in its constructor."""
    names = set()
    for inner in node.body:
        match inner:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
        if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
            names |= {
                target.attr
                for target in ast.walk(inner)
                if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
            }
    return frozenset(names - {"__init__"})


def _wide_constructors(module: Module) -> int:
    return sum(
        len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]) - 1 > MANY_ARGUMENTS
        for node in module.all(ast.FunctionDef)
        if node.name == "__init__"
    )


def _named_at_top(module: Module) -> Iterator[str]:
    for node in module.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _export_lists(module: Module) -> int:
    return sum(name == "__all__" for name in _named_at_top(module))


def _vocabularies(module: Module) -> int:
    """Names like ``_KEYS``, and classes that describe a key."""
    lists = sum(name.endswith("KEYS") for name in _named_at_top(module))
    return lists + sum(
        isinstance(node, ast.ClassDef) and node.name == "Key" for node in module.tree.body
    )


def _idle_defaults(module: Module) -> int:
    """Arguments that are a function with nothing to do where nobody gives another."""
    idle = {
        node.name
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_idle(node)
    }
    return sum(
        isinstance(default, ast.Name) and default.id in idle
        for node in module.all(ast.arguments)
        for default in (*node.defaults, *node.kw_defaults)
    )


def _is_idle(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function does nothing, or gives a constant or an empty thing."""
    simple = (ast.Constant, ast.Dict, ast.List, ast.Tuple)
    return all(
        isinstance(inner, ast.Pass)
        or (isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Constant))
        or (isinstance(inner, ast.Return) and (not inner.value or isinstance(inner.value, simple)))
        for inner in node.body
    )


def _function_sizes(module: Module) -> Iterator[int]:
    for node in module.all(ast.FunctionDef, ast.AsyncFunctionDef):
        yield node.end_lineno - node.lineno + 1


def _shared_names(pages: list[Module]) -> dict[str, list[str]]:
    """Public class names that stand in two modules or more."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in pages:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.name)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def _broad_excepts(module: Module) -> int:
    broad = {"Exception", "BaseException"}
    return sum(
        node.type is None or (isinstance(node.type, ast.Name) and node.type.id in broad)
        for node in module.all(ast.ExceptHandler)
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


def _table(
    modules: Mapping[str, Module], figures: Mapping[str, Any], before: Mapping[str, Any] | None
) -> Iterator[str]:
    for name, value in figures.items():
        aim = AIMS.get(name)
        then = f"{before.get(name, '-'):>10}" if before else ""
        yield f"{name:<40}{then}{value:>10}{'' if aim is None else f'  aim {aim}'}"
    yield from broken_bounds(figures, bounds())
    shared = _shared_names(list(modules.values()))
    for name, places in shared.items():
        yield f"  {name}: {', '.join(place.removeprefix('edged.') for place in places)}"


def _figures_at(commit: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        packed = Path(place) / "tree.tar"
        words = ["git", "archive", "--output", str(packed), commit]
        subprocess.run(words, cwd=ROOT, check=True)
        with tarfile.open(packed) as archive:
            archive.extractall(place, filter="data")
        return figures_of(packages_of(Path(place)))


if __name__ == "__main__":
    raise SystemExit(main())
