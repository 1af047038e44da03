from benchmarks.compare.history import fallen
from benchmarks.compare.ratios import ADDED, QUOTIENTS, SAME, ratios_of
from benchmarks.compare.rows import ROWS


def test_each_row_has_a_ratio_and_each_ratio_a_row() -> None:
    price = {"price.query", "price.write"}
    assert {row.key for row in ROWS} == QUOTIENTS.keys() | SAME.keys() | ADDED.keys() | price


def test_a_ratio_that_got_worse_by_more_than_a_fifth_is_told_whichever_way_worse_is() -> None:
    before = {"cached.echo": 0.8, "cached.cpu": 1.2, "list.sdk": 50.0, "idle.sdk": 0.9}
    now = {"cached.echo": 0.6, "cached.cpu": 1.5, "list.sdk": 45.0, "idle.sdk": 0.5}
    told = list(fallen(now, before))
    assert [sentence.split(":")[0] for sentence in told] == ["FELL", "FELL"]
    assert "0.80" in told[0]
    assert "1.20" in told[1]


def test_what_an_instrument_adds_is_told_against_what_a_peer_adds() -> None:
    figures = {
        "hardware.bare_us": 100.0,
        "hardware.ours_us": 300.0,
        "hardware.sdk_us": 1_100.0,
        "hardware.fastmcp_us": 2_100.0,
    }
    assert ratios_of(figures) == {"hardware.added": 0.2, "hardware.added.fastmcp": 0.1}
