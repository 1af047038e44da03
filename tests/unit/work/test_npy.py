import struct
import zipfile
from array import array
from pathlib import Path

import pytest

from edged.runs.recordings.formats import finish_archive, member_bytes, npy_bytes, text_npy_bytes


def parse_npy(data: bytes) -> tuple[str, bytes]:
    """An independent reading of the format as numpy.lib.format describes it."""
    assert data[:8] == b"\x93NUMPY\x01\x00"
    (length,) = struct.unpack("<H", data[8:10])
    assert (10 + length) % 64 == 0
    header = data[10 : 10 + length].decode("latin-1")
    assert header.endswith("\n")
    return header.strip(), data[10 + length :]


def test_an_array_is_what_numpy_reads() -> None:
    samples = array("f", [1.5, -2.0, 0.25])
    header, data = parse_npy(npy_bytes("f", samples.tobytes()))
    assert header == "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"
    assert array("f", data) == samples


def test_texts_are_fixed_width_unicode() -> None:
    header, data = parse_npy(text_npy_bytes(["ok", "", "höher"]))
    assert "'<U5'" in header
    assert data.decode("utf-32-le").replace("\0", "|") == "ok|||" + "|||||" + "höher"


def test_an_archive_is_a_zip_that_anybody_reads(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(member_bytes("a.npy", b"123") + member_bytes("b.npy", b""))
    assert finish_archive(path) == 2
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.read("a.npy") == b"123"
        assert archive.namelist() == ["a.npy", "b.npy"]


@pytest.mark.parametrize("torn", [b"P", member_bytes("c.npy", b"4567")[:-1], b"\0" * 40])
def test_what_a_killed_writer_left_is_made_whole(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(member_bytes("a.npy", b"123") + torn)
    assert finish_archive(path) == 1
    assert finish_archive(path) == 1
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.read("a.npy") == b"123"


def test_an_archive_of_nothing_is_an_empty_zip(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(b"")
    assert finish_archive(path) == 0
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == []
