"""What edged finds its other packages by, where it is installed without pip.

``python packaging/entry_points.py DIRECTORY`` writes ``edged.dist-info`` there, from setup.cfg.
"""

from __future__ import annotations

import configparser
import sys
from pathlib import Path

from edged import __version__

SETUP = Path(__file__).resolve().parent.parent / "setup.cfg"


def main() -> int:
    setup = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    setup.read(SETUP, encoding="utf-8")
    groups = setup["options.entry_points"]
    told = "".join(f"[{group}]{lines}\n\n" for group, lines in groups.items())
    place = Path(sys.argv[1]) / "edged.dist-info"
    place.mkdir()
    (place / "entry_points.txt").write_text(told, encoding="utf-8")
    metadata = f"Metadata-Version: 2.1\nName: edged\nVersion: {__version__}\n"
    (place / "METADATA").write_text(metadata, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
