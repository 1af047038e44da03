"""Imports that find less than there is."""

from __future__ import annotations

import importlib
import os
import ssl
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edged.lean_imports import without, without_authorities

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


def test_a_client_that_trusts_nobody_asks_for_certificates_and_the_next_trusts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A machine may have no authorities; Python brings none.
    monkeypatch.setenv("SSL_CERT_FILE", "of-this-machine")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    with without_authorities():
        context = ssl.create_default_context()
        careless = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        careless.set_default_verify_paths()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    if sys.platform != "win32":
        assert context.cert_store_stats()["x509_ca"] == 0
    assert careless.cert_store_stats()["x509_ca"] == 0
    assert os.environ["SSL_CERT_FILE"] == "of-this-machine"
    assert "SSL_CERT_DIR" not in os.environ
