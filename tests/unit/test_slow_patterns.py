"""Regular expressions of files: what is refused, what is not, and how long the latter take."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.patterns import (
    MAX_SEARCHED,
    compiled,
    found_in,
    needed_text,
    why_slow,
    without_restarts,
)
from tests.promises import promise

ROOT = Path(__file__).parents[2]
LIMIT_S = 0.02
"""For ``MAX_SEARCHED`` characters, whatever they are."""


@promise("patterns.linear")
@pytest.mark.parametrize(
    "pattern",
    [
        # Bounds that multiply: an answer of 60 characters took for ever.
        "((?:a{0,16}){8})b",
        "(?:.?){16}(?:.?){16}x",
        "(?:a?b?){0,30}y",
        "(?:[a-z]{1,8}[0-9]?){1,8}!",
        ".{0,40}x.{0,40}y",
        r"\w{1,32}=\w{1,32}",
        # Without a bound.
        "(a+)+b",
        "(?:a*)*b",
        "(a|aa)*b",
        "(?:a|b|ab)*c",
        "^.*,.*$",
        "^a*a*b",
        ".*a.*b",
        # One that starts anew at each character.
        "acme.*psu",
        r"[+-]?\d+x",
        "(?:acme|foo)+,",
        "(?s).*x",
        "(?m)^a.*b",
        "a(?=.*b)c",
        # What is not known.
        r"(a+)\1",
        r"(a)?(?(1)b|c)",
        r"(?a)\w+x",
        "(?<=aa|b.)c",
        "(?:a{200}){200}",
    ],
)
def test_a_pattern_that_is_not_known_as_linear_is_refused(pattern: str) -> None:
    assert why_slow(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "^PSU",
        "acme,one\\b",
        "([0-9]+)x",
        r"(\d+)",
        r"\d+\.\d+x",
        ".*",
        "^acme.*psu",
        "acme.{0,20}psu",
        r"[+-]?\d{1,16}x",
        "^[^,]*,[^,]*,([^,]*)",
        "([^,]*),([^,]*)",
        r",(\d+),",
        r'^\s*"?SCPI"?\s*$',
        r"(?i)foo.{0,8}bar",
        "(?<!a)b",
        "a(?!.{0,8}b)",
        r"(?:[A-Z]{2,4}-){1,3}\d{2,6}",
        r"^([-+]?[0-9.]+([eE][-+]?[0-9]+)?) ?([A-Za-z]*)$",
    ],
)
def test_what_benches_write_is_taken(pattern: str) -> None:
    assert why_slow(pattern) == ""


def shipped() -> list[str]:
    found = set()
    for place in (ROOT / "profiles", ROOT / "tests/flows/data/v0.1.0/profiles"):
        for file in place.glob("*.yaml"):
            text = file.read_text(encoding="utf-8")
            found |= set(re.findall(r"\b(?:idn|expect|pattern): ?'([^']*)'", text))
    return sorted(found)


def hostile_texts(marks: str) -> list[str]:
    chance = random.Random(7)
    units = [*marks, *(one + other for one in marks for other in marks if one != other)]
    repeated = [unit * (MAX_SEARCHED // len(unit)) for unit in units]
    return [*repeated, "".join(chance.choices(marks, k=MAX_SEARCHED))]


def seconds(pattern: str, text: str) -> float:
    """Of the processor, for one search; what else runs on the machine is no fault of a pattern."""
    expression = compiled(pattern)
    best = 1.0
    for _ in range(5):
        begun = time.thread_time()
        expression.search(text, 0, MAX_SEARCHED)
        best = min(best, time.thread_time() - begun)
        if best <= LIMIT_S:
            break
    return best


def made_up(chance: random.Random, depth: int = 0) -> str:
    """A pattern of pieces that overlap, repeat and nest more than anybody's does."""
    pieces = []
    for _ in range(chance.randint(1, 4)):
        piece = chance.choice(["a", "b", "1", ".", "[ab]", "[^,]", r"\d", r"\w", "ab", "[a1]"])
        if depth < 2 and chance.random() < 0.4:
            ways = "|".join(made_up(chance, depth + 1) for _ in range(chance.randint(1, 2)))
            piece = chance.choice(["(", "(?:", "(?=", "(?>"]) + ways + ")"
        if piece == "ab" or not chance.random() < 0.6:
            pieces.append(piece)
            continue
        most = chance.choice([2, 4, 8, 16, 40])
        bounds = ["?", "*", "+", f"{{0,{most}}}", f"{{1,{most}}}", f"{{{most}}}"]
        pieces.append(piece + chance.choice(bounds) + chance.choice(["", "", "?"]))
    return chance.choice(["", "", "^"] if depth == 0 else [""]) + "".join(pieces)


@promise("patterns.linear")
def test_every_pattern_that_is_taken_is_quick_on_every_text() -> None:
    chance = random.Random(20)
    taken = shipped()
    while len(taken) < 130:
        pattern = made_up(chance) + chance.choice(["", "x", "[xy]", "$"])
        if not why_slow(pattern):
            taken.append(pattern)
    texts = hostile_texts("ab1,")

    slow = {p: s for p in taken for text in texts if (s := seconds(p, text)) > LIMIT_S}

    assert slow == {}
    for pattern in shipped():
        for text in hostile_texts("".join(sorted(set(pattern.lower()) - set("\\^$()|?*+")))[:6]):
            assert seconds(pattern, text) <= LIMIT_S, pattern


@given(
    st.sampled_from(
        ["([0-9]+)x", r"\d*a", "(a+?)b", "((?:1+)a)b?", "[^,]*,a", "a{2,}b", "([aA]+)1|b", ".+x"]
    ),
    st.text(alphabet="ab1,xA\n", max_size=24),
    st.booleans(),
)
def test_where_a_search_may_start_changes_nothing_of_what_it_finds(
    pattern: str, text: str, any_case: bool
) -> None:
    plain = re.compile(pattern, re.IGNORECASE if any_case else 0).search(text)
    found = found_in(text, pattern, any_case=any_case)

    assert (found is None) == (plain is None)
    if plain is not None and found is not None:
        assert (found.span(), found.groups()) == (plain.span(), plain.groups())


def test_only_a_pattern_that_begins_with_an_open_run_is_compiled_otherwise() -> None:
    assert without_restarts("[0-9]+x") == r"(?<![\U00000030-\U00000039])(?:[0-9]+x)"
    for pattern in ("a[0-9]+x", "^[0-9]+x", "[0-9]{1,9}x", "[0-9]+x|y", "(?i)[a]+x", "(?:ab)+x"):
        assert without_restarts(pattern) == pattern


@promise("patterns.linear")
def test_a_pattern_sees_the_beginning_of_a_long_answer_alone() -> None:
    digits = "1" * 1_000_000

    assert found_in(digits + "x", "([0-9]+)x") is None
    assert found_in("1" * (MAX_SEARCHED - 1) + "x", "([0-9]+)x") is not None
    assert found_in("1" * MAX_SEARCHED + "x", "([0-9]+)x") is None
    assert seconds("([0-9]+)x", digits) <= LIMIT_S


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        (r"rigol technologies,dp832a?\b", "rigol technologies,dp832"),
        (r"(?:keysight|agilent) technologies,\s*34461a\b", " technologies,"),
        (r"(?:abc)+d?", "abc"),
        (r"a|b", ""),
        (r"(?:abc)?x", "x"),
        (r"ABC[def]", "abc"),
        (r"(?=abc)", ""),
    ],
)
def test_a_text_that_every_match_holds_is_known_beforehand(pattern: str, needed: str) -> None:
    assert needed_text(pattern) == needed


@given(
    pattern=st.text("abAK1(|)?:+*[]^$.,\\{}2s", max_size=12),
    text=st.text("abABkK1, \u212a\u017f\u0130sS", max_size=12),
)
def test_what_a_pattern_finds_holds_its_needed_text(pattern: str, text: str) -> None:
    try:
        found = re.search(pattern, text, re.IGNORECASE)
        needed = needed_text(pattern)
    except (re.error, OverflowError, FutureWarning):
        return
    assert found is None or needed in text.casefold()
