"""What is seen from outside is what the golden files say."""

from __future__ import annotations

import pytest

from tests.golden.golden import FOLDER, MAKERS, differences

MOST_BYTES = 1_500_000


@pytest.mark.parametrize("maker", MAKERS)
def test_what_is_seen_from_outside_is_what_the_golden_file_says(maker: str) -> None:
    said = [line for name, lines in MAKERS[maker]().items() for line in differences(name, lines)]
    if said:
        pytest.fail("\n".join(said), pytrace=False)


def test_the_golden_files_stay_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < MOST_BYTES
