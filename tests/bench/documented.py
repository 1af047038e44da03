"""The whole profiles that docs/profiles.md shows, by key."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "profiles.md"


def documented_profiles() -> dict[str, str]:
    blocks = re.findall(r"```yaml\n(format: 1\n.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    keyed = ((re.search(r"^profile_key: (\w+)$", block, re.MULTILINE), block) for block in blocks)
    return {found[1]: block for found, block in keyed if found is not None}
