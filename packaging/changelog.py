"""``debian/changelog`` from CHANGELOG.md: the same versions and days, and where to read on.

python packaging/changelog.py > debian/changelog
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path
from typing import Final

from edged import __version__

CHANGES: Final = Path(__file__).resolve().parent.parent / "CHANGELOG.md"
RELEASE: Final = re.compile(r"^## (\d\S*) \((\d{4}-\d\d-\d\d)\)$", re.MULTILINE)
ENTRY: Final = """edged ({version}) unstable; urgency=medium

  * {sentence}

 -- The edged developers <edged@localhost.localdomain>  {day}
"""


def main() -> int:
    releases = RELEASE.findall(CHANGES.read_text())
    if not releases or releases[0][0] != __version__:
        print(f"{CHANGES} does not begin with version {__version__}.", file=sys.stderr)
        return 1
    for version, day in releases:
        # Noon, so that the day is the same one nearly everywhere.
        noon = datetime.datetime.fromisoformat(f"{day}T12:00:00+00:00")
        print(
            ENTRY.format(
                version=version,
                sentence="See NEWS.md.gz beside this file, written for the owner of a bench.",
                day=noon.strftime("%a, %d %b %Y %H:%M:%S +0000"),
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
