"""Imports that find less than there is."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edged.lean_imports import shallow, without

WANTED = "lean_imports_wanted"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of that name can be imported."""
    (tmp_path / f"{WANTED}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(WANTED, None)


@pytest.mark.usefixtures("module")
def test_a_module_is_hidden_inside_and_found_again_outside() -> None:
    with without(WANTED), pytest.raises(ModuleNotFoundError) as refused:
        importlib.import_module(WANTED)
    assert refused.value.name == WANTED
    assert importlib.import_module(WANTED).__name__ == WANTED


@pytest.mark.usefixtures("module")
def test_what_was_imported_before_is_found_inside() -> None:
    importlib.import_module(WANTED)
    with without(WANTED):
        assert importlib.import_module(WANTED).__name__ == WANTED


@pytest.mark.usefixtures("module")
def test_another_thread_finds_what_this_one_does_without() -> None:
    found: list[str] = []
    with without(WANTED):
        other = threading.Thread(
            target=lambda: found.append(importlib.import_module(WANTED).__name__)
        )
        other.start()
        other.join(20)
    assert found == [WANTED]


def test_nothing_stays_behind_when_an_import_inside_fails() -> None:
    before = list(sys.meta_path)
    with pytest.raises(ZeroDivisionError), without(WANTED):
        _ = 1 // 0
    assert sys.meta_path == before


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package whose ``__init__`` says when it runs, and has one thing of its own."""
    place = tmp_path / WANTED
    place.mkdir()
    (place / "__init__.py").write_text(
        '__version__ = "1.2"\n'
        "from . import log\n"
        'log.said.append("begun")\n'
        "from . import heavy\n"
        "from .heavy import Client\n"
        'log.said.append("done")\n'
    )
    (place / "log.py").write_text("said: list[str] = []\n")
    (place / "light.py").write_text(f"from {WANTED} import log, __version__\n")
    (place / "heavy.py").write_text(f"import {WANTED}\nclass Client:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield WANTED
    for name in [name for name in sys.modules if name.split(".")[0] == WANTED]:
        del sys.modules[name]


def test_the_modules_of_a_shallow_package_are_imported_without_the_rest(package: str) -> None:
    shallow(package)
    light = importlib.import_module(f"{package}.light")
    assert (light.__version__, light.log.said) == ("1.2", [])
    assert f"{package}.heavy" not in sys.modules


def test_a_shallow_package_is_whole_as_soon_as_somebody_asks_for_more(package: str) -> None:
    shallow(package)
    whole = importlib.import_module(package)
    assert whole.Client.__name__ == "Client"
    assert whole.log.said == ["begun", "done"]
    assert whole.heavy.Client is whole.Client
    with pytest.raises(AttributeError):
        _ = whole.nothing
    assert whole.log.said == ["begun", "done"]
    assert importlib.import_module(package) is whole


def test_a_shallow_package_inside_another_is_found_there(package: str) -> None:
    inner = Path(importlib.import_module(package).__file__ or "").with_name("inner")
    inner.mkdir()
    # As ruamel.yaml has it.
    (inner / "__init__.py").write_text("data = dict(\n    __version__='1.2',\n)\nfull = True\n")
    (inner / "part.py").touch()
    importlib.invalidate_caches()
    shallow(f"{package}.inner")
    assert importlib.import_module(f"{package}.inner.part").__name__ == f"{package}.inner.part"
    found = importlib.import_module(package).inner
    assert "full" not in vars(found)
    assert found.full


def test_only_one_of_many_threads_makes_a_package_whole(package: str) -> None:
    shallow(package)
    whole = importlib.import_module(package)
    start = threading.Barrier(8)
    found: list[str] = []

    def ask() -> None:
        start.wait(5)
        found.append(whole.Client.__name__)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == ["Client"] * 8
    assert whole.log.said == ["begun", "done"]


def test_a_package_that_is_imported_already_or_not_there_is_left_alone(package: str) -> None:
    before = importlib.import_module(package)
    shallow(package)
    assert sys.modules[package] is before
    shallow("no_such_package_anywhere")
    assert "no_such_package_anywhere" not in sys.modules


def test_an_engine_has_its_http_server_without_aiohttp_s_client() -> None:
    program = """
import sys
from edged.lean_imports import shallow
shallow("aiohttp")
import edged.http.server, aiohttp.web
print(*("aiohttp." + name in sys.modules for name in ("web", "client", "connector")))
import aiohttp
print(aiohttp.ClientSession.__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().split() == ["True", "False", "False", "ClientSession"]
