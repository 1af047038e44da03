"""The configuration's YAML: what it means, where it stood, and what is refused."""

from __future__ import annotations

import contextlib
import os
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from edged.config.kinds import MAX_BYTES, parse_scalar, parse_text, read_file
from edged.yaml.source import _events
from edged.yaml.tree import ListNode, MapNode, YamlProblem
from tests.bench.engine_process import REPOSITORY
from tests.bench.plain import plain_tree
from tests.promises import promise


def plain(text: str) -> object:
    root = parse_text(text)
    return None if root is None else plain_tree(root)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("12", 12),
        ("-3", -3),
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 17),
        ("1_000", "1_000"),
        ("2.5", 2.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("on", "on"),
        ("off", "off"),
        ("no", "no"),
        ("yes", "yes"),
        ("~", None),
        ("", None),
        ("1:30", "1:30"),
        ("2026-11-21", "2026-11-21"),
        ("TCPIP::192.168.1.2::5025::SOCKET", "TCPIP::192.168.1.2::5025::SOCKET"),
    ],
)
def test_plain_scalars_mean_what_yaml_1_2_says(text: str, meant: object) -> None:
    value = parse_scalar(text).value
    assert value == meant
    assert type(value) is type(meant)


def test_quoted_scalars_are_texts() -> None:
    assert plain("a: '12'\nb: \"true\"\nc: |\n  12\n") == {
        "a": "12",
        "b": "true",
        "c": "12\n",
    }


def test_values_know_their_lines() -> None:
    root = parse_text("# head\nA: 1\n\nB:\n  - x\n  - y\n")
    assert isinstance(root, MapNode)
    assert root.entries["A"].mark.line == 2
    assert root.keys["B"].mark.line == 4
    inside = root.entries["B"]
    assert isinstance(inside, ListNode)
    assert [item.mark.line for item in inside.items] == [5, 6]


@promise("config.hostile-file")
@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: 1\na: 2\n", 2, "is here twice"),
        ("a: &x 1\nb: *x\n", 1, "Anchors"),
        ("a: !!python/object:os.system x\n", 1, "tag"),
        ("a: b\n---\nc: d\n", 2, "second document"),
        ("a:\n  b: [1, 2\n", 3, "expected"),
        ("a:\n\t- b\n", 2, "token"),
        ("[" * 100_000, 1, "nested"),
        ("- " * 5_000, 1, "nested"),
        ("a: [" + "1," * 50_000 + "]", 1, "20000 entries"),
        ("? [a]\n: b\n", 1, "plain text"),
        ("\x00", 1, "not YAML"),
        ('a: "\\ud800"', 1, "surrogate"),
        ("a" * (MAX_BYTES + 1), 1, "longer"),
    ],
)
def test_hostile_text_is_refused_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(YamlProblem) as caught:
        parse_text(text)
    assert said in caught.value.message
    assert caught.value.mark.line == line


@promise("config.hostile-file")
def test_the_alias_bomb_of_old_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(YamlProblem, match="Anchors"):
        read_file(path)


@promise("config.hostile-file")
def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    with pytest.raises(YamlProblem, match="over the maximum"):
        read_file(path)


def test_a_file_that_is_no_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "latin1.yaml"
    path.write_bytes("a: 1\nb: Gerät\n".encode("latin-1"))
    with pytest.raises(YamlProblem, match="UTF-8") as caught:
        read_file(path)
    assert caught.value.mark.line == 2


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(YamlProblem, match="cannot be read"):
        read_file(tmp_path / "missing.yaml")


@promise("config.hostile-file")
def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)
    with pytest.raises(YamlProblem, match="not a regular file"):
        read_file(path)


@pytest.mark.parametrize("text", [".inf", "-.Inf", ".nan", "1e999"])
def test_a_number_without_end_is_refused(text: str) -> None:
    with pytest.raises(YamlProblem, match="not a finite number"):
        parse_scalar(text)
    with pytest.raises(YamlProblem, match="not a finite number"):
        parse_text(f"a: {text}")


LINES = (
    "",
    " ",
    "#",
    "# a: 1",
    "  # é",
    "\t# a",
    "#\r",
    "#\x07",
    "# \u2028a: 1",
    "#\x85a: 1",
    "a: 1",
)


@given(st.lists(st.sampled_from(LINES), max_size=5))
def test_comments_are_nothing_with_the_parser_and_without(lines: list[str]) -> None:
    text = "\n".join(lines)
    # An empty mapping behind it, so that there is something to parse.
    found: list[object] = []
    for one in (text, f"{text}\n{{}}\n"):
        try:
            found.append(plain(one) or None)
        except YamlProblem:
            found.append("refused")
    assert (found[0] is None) is (found[1] is None)


def test_an_empty_file_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text("# nothing\n")
    assert read_file(path) is None


@given(st.text(max_size=200))
def test_any_text_is_a_value_or_a_problem(text: str) -> None:
    with contextlib.suppress(YamlProblem):
        plain(text)


@given(st.text(alphabet="[]{}:,-?&*!|>'\"%@` \n\t#ab1" + string.digits, max_size=120))
def test_any_pile_of_indicators_is_a_value_or_a_problem(text: str) -> None:
    with contextlib.suppress(YamlProblem):
        plain(text)


def _told(events: Iterator[object]) -> list[object]:
    """What events say and where, and how reading ended."""
    found: list[object] = []
    try:
        for event in events:
            found.append((repr(event), repr(vars(event).get("start_mark"))))  # noqa: PERF401 - an error ends it
    except Exception as error:  # noqa: BLE001 - whatever it is, it has to be the same
        found.append((type(error), str(error)))
    return found


ODD = (
    "%YAML 1.1\n---\na: 1\n", "%TAG ! t:\n---\na: !x 1\n", "? x\n: y\n", "[a: b, ? c, : d]",
    "{'a': 1, \"b\":2}", "a: |\n  x\n y\n", "#c\na: 1 # d\n\n# e\n", "a: 'x", "\x00",
    "a: b: c", "a:\t1",
)  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_odd_text_is_read_as_the_whole_of_ruamel_yaml_reads_it(text: str) -> None:
    assert _told(_events(text)) == _told(YAML(typ="safe", pure=True).parse(text))


def test_profiles_are_read_as_the_whole_of_ruamel_yaml_reads_them() -> None:
    for path in sorted((REPOSITORY / "profiles").glob("*.yaml"))[::8]:
        text = path.read_text()
        assert _told(_events(text)) == _told(YAML(typ="safe", pure=True).parse(text))


@given(text=st.text(alphabet="ab:-?[]{}#&*!|>'\"%@,\n\t \\", max_size=40))
def test_any_text_is_read_as_the_whole_of_ruamel_yaml_reads_it(text: str) -> None:
    assert _told(_events(text)) == _told(YAML(typ="safe", pure=True).parse(text))
