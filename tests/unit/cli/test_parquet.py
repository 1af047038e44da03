from __future__ import annotations

import sys

import pytest

from edged.cli import runs
from edged.errors import Failed


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Failed, match="written by pyarrow, which is not installed") as refused:
        runs._parquet(b"a\n1\n")
    assert "edged[parquet]" in refused.value.remedy
