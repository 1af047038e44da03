"""The YAML that profiles and bench files are written in: what is read, and how it complains."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import ErrorCode, Invalid
from edged.profiles.library import MAX_BYTES, parse_yaml, read_file
from edged.yaml.tree import ListNode, MapNode, Node, ScalarNode
from tests.promises import promise


def plain(node: Node) -> object:
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, ListNode):
        return [plain(item) for item in node.items]
    return {name: plain(entry) for name, entry in node.entries.items()}


def refused(text: str) -> Invalid:
    with pytest.raises(Invalid) as caught:
        parse_yaml(text, "p.yaml")
    assert caught.value.code is ErrorCode.BAD_PROFILE
    assert caught.value.data["path"] == "p.yaml"
    return caught.value


def test_on_off_yes_and_no_are_strings_as_in_yaml_1_2() -> None:
    text = "[on, off, yes, no, ON, y, true, False, null, ~, '', \"true\"]"
    assert plain(parse_yaml(text, "p.yaml")) == [
        "on", "off", "yes", "no", "ON", "y", True, False, None, None, "", "true",
    ]  # fmt: skip


def test_numbers_are_read_as_yaml_1_2_says() -> None:
    text = "[1, -2, 0x1F, 0o17, 017, 1.5, .5, 5., 1e3, 1_000, 12:30, 1.2.3, 0b1]"
    assert plain(parse_yaml(text, "p.yaml")) == [
        1, -2, 31, 15, 17, 1.5, 0.5, 5.0, 1000.0, "1_000", "12:30", "1.2.3", "0b1",
    ]  # fmt: skip


@pytest.mark.parametrize("number", [".inf", "-.Inf", ".nan", "1e999", "-1e999"])
def test_a_number_that_is_not_finite_is_refused_where_it_stands(number: str) -> None:
    error = refused(f"commands:\n  max: {number}\n")
    assert (error.data["line"], error.data["column"]) == (2, 8)
    assert "not a finite number" in error.message


def test_every_node_knows_its_line_and_column_counted_from_one() -> None:
    root = parse_yaml("a: 1\nb:\n  - {c: x}\n", "p.yaml")
    assert isinstance(root, MapNode)
    items = root.entries["b"]
    assert isinstance(items, ListNode)
    inner = items.items[0]
    assert isinstance(inner, MapNode)
    assert inner.keys["c"].mark.place == "p.yaml:3:6"
    assert inner.entries["c"].mark.place == "p.yaml:3:9"


def test_a_key_that_stands_twice_names_both_lines() -> None:
    error = refused("a: 1\nb: 2\na: 3\n")
    assert error.data["line"] == 3
    assert "line 1" in error.message


def test_a_tab_is_refused_with_advice() -> None:
    error = refused("a:\n\tb: 1\n")
    assert error.data["line"] == 2
    assert "not tabs" in str(error)


def test_an_alias_stands_for_its_anchor() -> None:
    assert plain(parse_yaml("a: &x {k: 1}\nb: *x\n", "p.yaml")) == {"a": {"k": 1}, "b": {"k": 1}}


@pytest.mark.parametrize(
    "text",
    ["a: *x", "a: &x [*x]", "<<: {a: 1}", "? [1]\n: 2", "a: !!python/object x", "a: !x 1"],
)
def test_what_has_no_place_in_a_profile_is_refused(text: str) -> None:
    refused(text)


@promise("config.hostile-file")
def test_a_yaml_bomb_is_refused_before_it_is_walked() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    error = refused("\n".join(lines))
    assert "aliases written out" in error.message


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 5_000, "? " * 5_000])
def test_deep_nesting_is_refused_and_needs_no_deep_stack(text: str) -> None:
    assert "deeper than" in refused(text).message


@pytest.mark.parametrize("text", ["", "\n\n", "# only words\n", "---\na: 1\n---\nb: 2\n"])
def test_anything_but_one_document_is_refused(text: str) -> None:
    refused(text)


def test_what_is_quoted_in_a_complaint_is_short_and_printable() -> None:
    error = refused('"\\e[31m' + "x" * 900 + '": 1\n"\\e[31m' + "x" * 900 + '": 2\n')
    assert error.data["message"].isprintable()
    assert len(error.data["message"]) <= 400


@given(st.text(alphabet="{}[]:,-?&*!|>'\"%@`#\t\n\r abc01.~<=\x00\ufeff\ud800", max_size=60))
def test_no_text_raises_anything_but_invalid(text: str) -> None:
    try:
        parse_yaml(text, "p.yaml")
        place = (1, 1)
    except Invalid as error:
        place = (error.data["line"], error.data["column"])
    assert min(place) >= 1


# ----------------------------------------------------------------------------- files


def unreadable(path: Path) -> Invalid:
    with pytest.raises(Invalid) as caught:
        read_file(path)
    assert caught.value.data["path"] == str(path)
    return caught.value


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_file(path) == "a: 1\n"


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [(b"a: 1\nb: \xe4\n", 2, 4), ("a: 1\n".encode("utf-16"), 1, 1), (b"\xff\xfea", 1, 1)],
)
def test_a_byte_that_is_not_utf_8_is_named_with_its_place(
    tmp_path: Path, data: bytes, line: int, column: int
) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(data)
    error = unreadable(path)
    assert (error.data["line"], error.data["column"]) == (line, column)
    assert "UTF-8" in str(error)


def test_a_file_of_50_mb_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    assert str(MAX_BYTES) in unreadable(path).message


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    unreadable(tmp_path / "none.yaml")
    unreadable(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="Windows needs a privilege to make links")
def test_a_symlink_loop_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.symlink_to(path)
    unreadable(path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs in directories")
def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    os.mkfifo(path)
    assert "regular file" in unreadable(path).message
