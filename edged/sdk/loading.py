"""A wrapper's file → its module and what it says of its tools; runs in the worker.

Where the import itself fails for want of a vendor's package, the specifications are read from the
source instead (they must be written as literals then), so that the tools are listed all the same.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from edged.sdk.results import json_ready
from edged.sdk.wrapper import SdkMissing

__all__ = ["SPECS_NAME", "Loading", "spec_lines", "told"]

SPECS_NAME: Final = "MCP_TOOL_SPECS"
CLASS_NAME: Final = "Wrapper"
CHECK_NAME: Final = "check_library"
CLOSE_NAME: Final = "close"
MAX_SOURCE: Final = 2_000_000
"""Bytes of a wrapper's file."""

Message = dict[str, Any]


class Loading:
    """One wrapper's file, imported as far as that is possible.

    Args:
        path: the file.
        stem: its name; it is imported under another, because a wrapper ``serial.py`` that needs
            the package ``serial`` must not find itself.
    """

    def __init__(self, path: Path, stem: str) -> None:
        self._path = path
        self._name = f"sdk_wrapper_{stem}"
        self._module: ModuleType | None = None
        self._instance: object | None = None

    def load(self) -> Message:
        """Import it and say what it offers.

        Returns:
            ``specs`` as they stand there, ``lines`` (where each begins), ``line`` of the whole,
            ``methods`` (name → what it takes and needs, null where it does not say; null for all
            where the import failed), ``missing`` (why its library cannot be used, or null).

        Raises:
            Exception: whatever the module raised; SyntaxError, OSError of the file.
        """
        lines, whole = spec_lines(self._source())
        missing: Message | None = None
        try:
            self._import()
        except (ImportError, OSError, SdkMissing) as error:
            literal = self._literal_specs()
            if literal is None:
                raise
            return {
                "specs": json_ready(literal),
                "lines": lines,
                "line": whole,
                "methods": None,
                "missing": told(error, self._path),
            }
        specs = getattr(self._module, SPECS_NAME, None)
        try:
            self._check_library()
        except SdkMissing as error:
            missing = told(error, self._path)
        return {
            "specs": json_ready(specs),
            "lines": lines,
            "line": whole,
            "methods": self._methods(specs),
            "missing": missing,
        }

    def call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Call one function; imports first what could not be imported before.

        Raises:
            Exception: whatever it raises.
        """
        if self._module is None:
            self._import()
        return self._callable(method)(**arguments)

    def close(self) -> None:
        """Tell the wrapper that it ends, if it wants to know."""
        own = getattr(self._instance, CLOSE_NAME, None)
        for close in (own, getattr(self._module, CLOSE_NAME, None)):
            if callable(close):
                close()

    def _source(self) -> str:
        with self._path.open("rb") as file:
            text = file.read(MAX_SOURCE + 1)
        if len(text) > MAX_SOURCE:
            raise OSError(f"{self._path} is over {MAX_SOURCE} bytes long")
        return text.decode("utf-8")

    def _import(self) -> None:
        importlib.invalidate_caches()
        spec = importlib.util.spec_from_file_location(self._name, self._path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{self._path} is no Python module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[self._name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(self._name, None)
            raise
        self._module = module

    def _check_library(self) -> None:
        check = getattr(self._module, CHECK_NAME, None)
        if callable(check):
            check()

    def _callable(self, name: str) -> Callable[..., Any]:
        """A method of the one ``Wrapper`` object, else a function of the module."""
        owner = getattr(self._module, CLASS_NAME, None)
        if owner is not None and hasattr(owner, name):
            if self._instance is None:
                self._instance = owner()
            found: Callable[..., Any] = getattr(self._instance, name)
            return found
        function: Callable[..., Any] = getattr(self._module, name)
        return function

    def _methods(self, specs: object) -> dict[str, Message | None]:
        """The functions that the specifications name and that are there, with what they take."""
        owner = getattr(self._module, CLASS_NAME, None)
        found: dict[str, Message | None] = {}
        for spec in specs if isinstance(specs, list | tuple) else ():
            name = spec.get("method") if isinstance(spec, Mapping) else None
            if not isinstance(name, str):
                continue
            if owner is not None and callable(getattr(owner, name, None)):
                plain = isinstance(inspect.getattr_static(owner, name), FunctionType)
                found[name] = _parameters(getattr(owner, name), is_bound=not plain)
            elif callable(function := getattr(self._module, name, None)):
                found[name] = _parameters(function, is_bound=True)
        return found

    def _literal_specs(self) -> object:
        """``MCP_TOOL_SPECS`` as the source has it, or None where that is no literal."""
        node = _specs_node(self._source())
        if node is None:
            return None
        try:
            literal: object = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
        return literal


def spec_lines(source: str) -> tuple[list[int], int]:
    """Where each specification begins, and where all do; 1 where that cannot be seen."""
    try:
        node = _specs_node(source)
    except (SyntaxError, ValueError, RecursionError):
        return [], 1
    if node is None:
        return [], 1
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
    return [item.lineno for item in items], node.lineno


def told(error: BaseException, path: Path) -> Message:
    """An exception as the engine is told of it: kind, text, remedy, and the line in this file."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    if isinstance(error, SyntaxError) and error.filename == str(path):
        lines.append(error.lineno)
    kinds = {cls.__name__ for cls in type(error).__mro__}
    kind = next((k for k in ("SdkMissing", "NotConnected", "ImportError") if k in kinds), "error")
    remedy = getattr(error, "remedy", "")
    if isinstance(error, ModuleNotFoundError) and error.name:
        remedy = f"Install what has the Python package {error.name} for {sys.executable}."
    return {
        "kind": kind,
        "type": type(error).__name__,
        "message": str(error)[:2_000],
        "remedy": str(remedy)[:2_000],
        "line": (lines[-1] if lines else None) or 0,
    }


def _specs_node(source: str) -> ast.expr | None:
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == SPECS_NAME:
                return value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if (
                name == SPECS_NAME
            ):
                return value
    return None


def _parameters(function: Callable[..., Any], *, is_bound: bool) -> Message | None:
    """The names it ``takes`` and those it ``needs``; None where it takes any, or does not say."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    if not is_bound:
        parameters = parameters[1:]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {
        "takes": [p.name for p in named],
        "needs": [p.name for p in named if p.default is p.empty],
    }
