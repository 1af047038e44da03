"""The locks on STATE_DIR and DATA_DIR; each belongs to an open file, not to the process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edged.errors import Conflict
from edged.service import StateLock, lock_data, lock_holder


def test_a_second_lock_on_a_data_directory_names_the_holder_and_its_state_directory(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    first = lock_data(data, tmp_path / "first")
    assert first is not None
    with pytest.raises(Conflict) as refused:
        lock_data(data, tmp_path / "second")
    assert refused.value.data == {"pid": str(os.getpid()), "state_dir": str(tmp_path / "first")}
    assert f"PID {os.getpid()}, STATE_DIR {tmp_path / 'first'}" in refused.value.message
    assert str(data) in refused.value.message
    assert "another DATA_DIR" in (refused.value.remedy or "")
    first.release()
    again = lock_data(data, tmp_path / "second")
    assert again is not None
    again.release()


def test_a_data_directory_that_cannot_be_made_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    assert lock_data(tmp_path / "file" / "data", tmp_path) is None


def test_a_state_directory_is_held_by_one_whose_pid_others_can_read(tmp_path: Path) -> None:
    lock = StateLock(tmp_path)
    assert lock_holder(tmp_path) == ""
    lock.take()
    assert lock_holder(tmp_path) == str(os.getpid())
    with pytest.raises(Conflict, match="another STATE_DIR"):
        StateLock(tmp_path).take()
    lock.release()
    assert lock_holder(tmp_path) == ""
