"""A disk that does not answer: for one process, by ``hanging_disk.c``, compiled here."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("hanging_disk.c")


@dataclass(frozen=True, slots=True)
class HangingDisk:
    """Hangs what is written below ``under`` while ``hanging`` is entered; needs a C compiler."""

    place: Path
    under: Path

    def environment(self) -> dict[str, str]:
        """What the process that is to suffer is started with."""
        library = self.place / "hanging_disk.so"
        command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        done = subprocess.run(
            [*command, "-o", str(library), str(SOURCE), "-ldl"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return {
            "LD_PRELOAD": str(library),
            "HANG_UNDER": str(self.under),
            "HANG_WHILE": str(self._mark),
        }

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """It does not answer."""
        self._mark.touch()
        try:
            yield
        finally:
            self._mark.unlink()

    @property
    def _mark(self) -> Path:
        return self.place / "it-hangs"
