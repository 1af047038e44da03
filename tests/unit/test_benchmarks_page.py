"""Tables of docs/benchmarks.md that a benchmark replaces."""

import pytest

from benchmarks.page import PAGE, not_kept, replaced

TEXT = """# Page
<!-- generated: bounds that are not kept -->
None.
<!-- end of bounds that are not kept -->
## Speed
<!-- generated: benchmarks.cost -->
old
<!-- end of benchmarks.cost -->
after
"""


def test_a_table_is_replaced_and_all_around_it_stays() -> None:
    made = replaced(TEXT, "benchmarks.cost", ["| a | 3 **not kept** | ≤ 2 |"])
    assert made == TEXT.replace("old", "| a | 3 **not kept** | ≤ 2 |")
    with pytest.raises(SystemExit, match=r"no place for benchmarks\.other"):
        replaced(TEXT, "benchmarks.other", [])


def test_what_is_not_kept_is_listed_with_its_section_whatever_the_columns() -> None:
    rows = "| a | 1 | ≤ 2 |\n| b | 3 **not kept** | ≤ 2 |\n| `p` | c | 4 x **not kept** | 3 | 2 |"
    assert list(not_kept(TEXT.replace("old", rows)))[2:] == [
        "| Speed: b | 3 | ≤ 2 |",
        "| Speed: `p`: c | 4 x | 3 |",
    ]
    assert list(not_kept(TEXT)) == ["None."]


def test_the_page_has_a_place_for_each_table_that_is_written() -> None:
    text = PAGE.read_text()
    for name in ("make bench", "benchmarks.cost", "benchmarks.long_list", "benchmarks.startup"):
        assert replaced(text, name, ["x"]) != text
