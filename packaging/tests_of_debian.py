"""The unit tests that may end otherwise on another Debian with the same Python.

    python packaging/tests_of_debian.py

Prints each file that imports a module which Debian brings in its own version or which reaches into
the system, or imports a module that does. The others run the same Python code everywhere, that of
edged and that which vendored.py carries.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OWN = ("edged", "edged_author", "edged_relay", "edged_sim", "pyvisa_edged", "tests")
OF_DEBIAN = frozenset(
    [
        "aiohttp",
        "cryptography",
        "ctypes",
        "greenlet",
        "jsonschema",
        "matplotlib",
        "multidict",
        "prometheus_client",
        "psutil",
        "pytest_aiohttp",
        "rich",
        "segno",
        "serial",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "yarl",
        "zeroconf",
    ]
)


def main() -> None:
    for file in sorted((ROOT / "tests/unit").rglob("test_*.py")):
        names = _imported(file)
        if _is_of_debian(names) or any(map(_is_of_debian, map(_imported, _files(names)))):
            print(file.relative_to(ROOT))


def _is_of_debian(names: frozenset[str]) -> bool:
    return any(name.split(".")[0] in OF_DEBIAN for name in names)


def _files(names: frozenset[str]) -> Iterator[Path]:
    """The files of this repository's modules among them."""
    for name in names:
        if name.split(".")[0] in OWN:
            place = ROOT / name.replace(".", "/")
            yield from filter(Path.is_file, (place.with_suffix(".py"), place / "__init__.py"))


@cache
def _imported(file: Path) -> frozenset[str]:
    """Modules, and what may be one, wherever in the file they are imported."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    return frozenset(names)


if __name__ == "__main__":
    main()
