from edged.cli.stream import sparkline


def test_a_sparkline_spans_from_the_lowest_to_the_highest_value() -> None:
    assert sparkline([0.0, 7.0, 3.5]) == "▁█▅"


def test_a_sparkline_of_one_level_or_of_nothing_is_flat() -> None:
    assert sparkline([4.2, 4.2]) == "▁▁"
    assert sparkline([]) == ""
