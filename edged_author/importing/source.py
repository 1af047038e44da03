"""A tree of Python files as modules and classes, read by their syntax. Nothing is run.

A file is parsed when somebody asks for it. Whatever is hostile about one (size, nesting, bytes that
are no text, the syntax of another Python) makes it unreadable with a sentence, and harms no other.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import field
from pathlib import PurePosixPath
from typing import Final

from edged.record import record

MAX_CHARACTERS: Final = 256 * 1024
"""Of a file that is parsed; the longest driver has half of that. Its tree takes a hundred times as
much, for as long as it is looked at."""
MAX_OF_ALL: Final = 8 * 1024 * 1024
"""Characters of all files that are read; PyMeasure has 3 million."""
MAX_STATEMENTS: Final = 20_000
"""Lines, and what stands beside another on one."""
MAX_BRACES: Final = 20_000
"""A formatted text costs the square of the braces in it."""
MAX_NESTING: Final = 80
"""Brackets in brackets; indentation counts too."""
MAX_CLASSES: Final = 500
MAX_HOPS: Final = 12
"""Modules that a name is followed through."""
MAX_BASES: Final = 60
"""Classes that one inherits from, at any distance."""
DECLARING: Final = frozenset({"control", "measurement", "setting"})
LOOKED_INTO: Final = frozenset({"write", "__init__"})
_OPENING: Final = "([{"
_CLOSING: Final = ")]}"
_MUTATING: Final = frozenset(
    {
        "append", "extend", "insert", "remove", "pop", "clear", "update", "setdefault", "popitem",
        "add", "discard", "sort", "reverse",
    }
)  # fmt: skip


class UnreadableError(Exception):
    """A file that is not read; its text says why."""


@record(kw_only=False, eq=False)
class ClassSource:
    """A class as it stands in a file.

    Attributes:
        path: of its file, within the tree, with ``/``.
        name: with those of the classes around it, by dots.
        constants: what its body gives a value once.
    """

    path: str
    name: str
    node: ast.ClassDef
    constants: dict[str, ast.expr]

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.node.lineno


@record(kw_only=False, eq=False)
class Module:
    """A file's classes by name, its constants, and what its names stand for elsewhere."""

    path: str
    classes: dict[str, ClassSource] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    imports: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    """Name → (dotted module, level of a relative import, the name there; empty: the module)."""
    assigned: frozenset[str] = frozenset()
    """Attributes that some code of it assigns; of a name that is put together ``*`` and its end."""
    declaring: tuple[int, ...] = ()
    """The lines in which something is declared, wherever they stand."""


class SourceTree:
    """Files by path, parsed when they are asked for.

    Args:
        paths: every Python file of the tree, by ``/``.
        read: the text of one of them.

    Raises:
        UnreadableError: from ``read``, where a file is none that can be read.
    """

    def __init__(self, paths: Collection[str], read: Callable[[str], str]) -> None:
        self._paths = frozenset(paths)
        self._read = read
        self._modules: dict[str, Module | UnreadableError] = {}
        self._left = MAX_OF_ALL
        self._orders: dict[ClassSource, tuple[list[ClassSource], list[ast.expr]]] = {}
        self._by_tail: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            self._by_tail.setdefault(_dotted(path).rpartition(".")[2], []).append(path)

    def module(self, path: str) -> Module:
        """One file.

        Raises:
            UnreadableError: it cannot be parsed within bounds.
        """
        found = self._modules.get(path)
        if found is None:
            try:
                found = self._parsed(path)
            except UnreadableError as error:
                found = error
            self._modules[path] = found
        if isinstance(found, UnreadableError):
            raise found
        return found

    def _parsed(self, path: str) -> Module:
        text = self._read(path)
        self._left -= len(text)
        if self._left < 0:
            raise UnreadableError(f"All files together have more than {MAX_OF_ALL} characters.")
        return _module(path, text)

    def class_of(self, expression: ast.expr, module: Module) -> ClassSource | None:
        """The class that an expression names, wherever in the tree it stands."""
        match expression:
            case ast.Name(id=name):
                return self._class(name, module, MAX_HOPS)
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                inner = self._class(owner, module, MAX_HOPS)
                if inner is not None:
                    there = self._found(inner.path)
                    return there.classes.get(f"{inner.name}.{name}") if there else None
                other = self._imported(owner, module)
                return self._class(name, other, MAX_HOPS) if other is not None else None
            case _:
                return None

    def bases(self, of: ClassSource) -> tuple[list[ClassSource], list[ast.expr]]:
        """A class and all that it inherits from, nearest first, and the bases that are not here.

        In the order in which Python looks (C3); where that fails, depth first.
        """
        known = self._orders.get(of)
        if known is None:
            unknown: list[ast.expr] = []
            order = self._linear(of, unknown, (), [MAX_BASES])
            known = self._orders[of] = (order, unknown)
        return known

    def constant(
        self, expression: ast.expr, module: Module, scope: ClassSource | None
    ) -> ast.expr | None:
        """What a name stands for that is given a value once; ``None`` where nobody can tell."""
        match expression:
            case ast.Name(id=name):
                if scope is not None and name in scope.constants:
                    return scope.constants[name]
                return self._constant(name, module, MAX_HOPS)
            case ast.Attribute(value=owner, attr=name):
                of = self.class_of(owner, module)
                if of is not None:
                    order, unknown = self.bases(of)
                    found = (one.constants.get(name) for one in order)
                    value = None if unknown else next((one for one in found if one), None)
                    return value if value is not None and not _has_names(value) else None
                if isinstance(owner, ast.Name):
                    other = self._imported(owner.id, module)
                    return None if other is None else self._constant(name, other, MAX_HOPS)
        return None

    def _linear(
        self,
        of: ClassSource,
        unknown: list[ast.expr],
        above: tuple[ClassSource, ...],
        left: list[int],
    ) -> list[ClassSource]:
        left[0] -= 1
        if of in above or left[0] < 0:
            return []
        if of in self._orders:
            order, missing = self._orders[of]
            unknown += [base for base in missing if base not in unknown]
            return order[:MAX_BASES]
        module = self.module(of.path)
        orders: list[list[ClassSource]] = []
        for base in of.node.bases[:MAX_BASES]:
            found = self.class_of(base, module)
            if found is None:
                unknown.append(base)
            else:
                orders.append(self._linear(found, unknown, (*above, of), left))
        direct = [order[0] for order in orders if order]
        return [of, *_merged([*orders, direct])]

    def _class(self, name: str, module: Module, hops: int) -> ClassSource | None:
        if name in module.classes:
            return module.classes[name]
        other, there = self._target(name, module)
        if other is None or hops <= 0 or not there:
            return None
        return self._class(there, other, hops - 1)

    def _constant(self, name: str, module: Module, hops: int) -> ast.expr | None:
        if name in module.constants:
            return module.constants[name]
        other, there = self._target(name, module)
        if other is None or hops <= 0 or not there:
            return None
        value = self._constant(there, other, hops - 1)
        # A name inside of it would be looked up here and stand there.
        return value if value is not None and not _has_names(value) else None

    def _target(self, name: str, module: Module) -> tuple[Module | None, str]:
        found = module.imports.get(name)
        if found is None:
            return None, ""
        dotted, level, there = found
        return self._found(self._path_of(dotted, level, module.path)), there

    def _imported(self, name: str, module: Module) -> Module | None:
        """The module that a name stands for."""
        found = module.imports.get(name)
        if found is None:
            return None
        dotted, level, there = found
        whole = f"{dotted}.{there}".strip(".") if there else dotted
        return self._found(self._path_of(whole, level, module.path))

    def _found(self, path: str | None) -> Module | None:
        if path is None:
            return None
        try:
            return self.module(path)
        except UnreadableError:
            return None

    def _path_of(self, dotted: str, level: int, beside: str) -> str | None:
        """The file of a module; of an absolute name the one whose path ends so, if it is one."""
        if level:
            parts = list(PurePosixPath(beside).parent.parts)
            if level - 1 > len(parts):
                return None
            parts = parts[: len(parts) - (level - 1)]
            return self._file("/".join([*parts, *filter(None, dotted.split("."))]))
        tail = dotted.rpartition(".")[2]
        fits = [
            path
            for path in self._by_tail.get(tail, [])
            if _ends_alike(_dotted(path).split("."), dotted.split("."))
        ]
        return fits[0] if len(fits) == 1 else None

    def _file(self, stem: str) -> str | None:
        for path in (f"{stem}.py", f"{stem}/__init__.py".lstrip("/")):
            if path in self._paths:
                return path
        return None


def _ends_alike(path: list[str], dotted: list[str]) -> bool:
    """Whether one of them ends with the other: the tree may begin above or below the package."""
    least = min(len(path), len(dotted))
    return path[-least:] == dotted[-least:]


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _merged(orders: list[list[ClassSource]]) -> list[ClassSource]:
    """C3: the first head that stands in no other's tail; where there is none, the first head."""
    found: list[ClassSource] = []
    rest = [list(order) for order in orders if order]
    while rest:
        heads = [order[0] for order in rest]
        good = (head for head in heads if not any(head in order[1:] for order in rest))
        head = next(good, heads[0])
        if head not in found:
            found.append(head)
        rest = [[one for one in order if one is not head] for order in rest]
        rest = [order for order in rest if order]
    return found


def _module(path: str, text: str) -> Module:
    tree = _parsed(text)
    module = Module(
        path=path,
        assigned=frozenset(_assigned(tree)),
        declaring=tuple(call.lineno for call in calls_that_declare(tree)),
    )
    module.constants.update(_constants(tree.body, _global_names(tree)))
    module.imports.update(_imports(tree))
    for name, node in _classes(tree.body, "", 0):
        if len(module.classes) >= MAX_CLASSES:
            break
        module.classes.setdefault(
            name, ClassSource(path, name, node, dict(_constants(node.body, frozenset())))
        )
    _forget_code(tree)
    return module


def _forget_code(tree: ast.Module) -> None:
    """Empties the methods that nobody looks into any more: most of a file, and of its memory."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = node.body if node.name in LOOKED_INTO else []


def calls_that_declare(tree: ast.AST) -> Iterator[ast.Call]:
    """Every call of that kind below a node, wherever it stands."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in DECLARING
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id[:1].isupper()
        ):
            yield node


def _assigned(tree: ast.Module) -> Iterator[str]:
    """Attributes that are assigned to anything but by the body of a class."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.Call(func=ast.Name(id="setattr"), args=[_, named, *_]):
                texts = [
                    one.value
                    for one in ast.walk(named)
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                ]
                # Of a name that is put together, what stands before is known to nobody.
                begun = "" if isinstance(named, ast.Constant) else "*"
                yield begun + (texts[-1] if texts else "")
            case _:
                pass


def _parsed(text: str) -> ast.Module:
    if len(text) > MAX_CHARACTERS:
        raise UnreadableError(f"It has more than {MAX_CHARACTERS} characters.")
    if text.count("\n") + text.count(";") > MAX_STATEMENTS:
        raise UnreadableError(f"It has more than {MAX_STATEMENTS} lines.")
    if text.count("{") > MAX_BRACES:
        raise UnreadableError(f"It has more than {MAX_BRACES} braces.")
    if "\0" in text:
        raise UnreadableError("It holds a null byte.")
    if _nesting(text) > MAX_NESTING:
        raise UnreadableError(f"Its brackets are nested more than {MAX_NESTING} deep.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        line = error.lineno or 1
        raise UnreadableError(f"It is not Python of this version (line {line}).") from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise UnreadableError(f"It cannot be parsed ({type(error).__name__}).") from None


def _nesting(text: str) -> int:
    """Brackets that are open at once, texts and comments counted too: never too few."""
    deepest = depth = 0
    for mark in text:
        if mark in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif mark in _CLOSING:
            depth = max(0, depth - 1)
    return deepest


def _classes(body: list[ast.stmt], around: str, depth: int) -> Iterator[tuple[str, ast.ClassDef]]:
    if depth > MAX_HOPS:
        return
    for node in body:
        if isinstance(node, ast.ClassDef):
            name = f"{around}{node.name}"
            yield name, node
            yield from _classes(node.body, f"{name}.", depth + 1)


def _imports(tree: ast.Module) -> Iterator[tuple[str, tuple[str, int, str]]]:
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=module, names=names, level=level):
                for one in names:
                    yield one.asname or one.name, (module or "", level, one.name)
            case ast.Import(names=names):
                for one in names:
                    if one.asname or "." not in one.name:
                        yield one.asname or one.name, (one.name, 0, "")
            case _:
                pass


def _constants(body: list[ast.stmt], not_these: Collection[str]) -> Iterator[tuple[str, ast.expr]]:
    """Names of a scope that are given a value once, by a plain line, and changed by none."""
    stored = Counter(_stored(body))
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        if stored[name] == 1 and name not in not_these:
            yield name, value


def _stored(body: list[ast.stmt]) -> Iterator[str]:
    """Every name that a scope binds, or changes in place; inner scopes' own names are theirs."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
                yield from _changed(node)
                continue
            case ast.ClassDef(name=name):
                yield name
                yield from _changed(node)
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.alias(name=name, asname=asname):
                yield (asname or name).partition(".")[0]
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name
            case _:
                yield from _changed_here(node)
        waiting.extend(ast.iter_child_nodes(node))


def _changed(scope: ast.AST) -> Iterator[str]:
    for node in ast.walk(scope):
        yield from _changed_here(node)


def _changed_here(node: ast.AST) -> Iterator[str]:
    """A name whose value a node changes without binding it: ``X["k"] = …``, ``X.update(…)``."""
    match node:
        case (
            ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del())
            | ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del())
        ):
            yield name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in _MUTATING:
            yield name
        case _:
            pass


def _global_names(tree: ast.Module) -> frozenset[str]:
    return frozenset(
        name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names
    )


def _has_names(value: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        or (isinstance(node, ast.Name) and node.id not in ("range", "list", "tuple"))
        for node in ast.walk(value)
    )
