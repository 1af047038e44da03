"""Compiles the simulated WaveForms library that ``fake_dwf.c`` is."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_dwf.c")


def compile_fake_dwf(directory: Path) -> Path:
    """The library's path; needs a C compiler."""
    library = directory / "libdwf.so"
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    done = subprocess.run(
        [*command, "-o", str(library), str(SOURCE), "-lm"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return library
