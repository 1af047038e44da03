"""What people see, and what scripts read."""

from __future__ import annotations

import argparse
import io
import json

import pytest

from edged.cli.shared.output import (
    cell,
    print_fields,
    print_json,
    print_lines,
    print_result,
    print_table,
    show,
)
from edged.surfaces.rpc.client import ToolAnswer


def test_a_table_in_a_pipe_is_aligned_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"id": "a", "n": 1}, {"id": "long", "ok": True}], {"id": "id", "ok": "ok"})
    assert capsys.readouterr().out.splitlines() == ["ID    OK", "a", "long  yes"]


def test_a_table_on_a_terminal_takes_labels_literally(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", screen)
    print_table([{"id": "[red]x[/red]"}], {"id": "id"})
    assert "[red]x[/red]" in screen.getvalue()


@pytest.mark.parametrize(("width", "is_table"), [("35", True), ("34", False)])
def test_a_table_on_a_narrow_terminal_cuts_no_id_in_pieces(
    width: str, is_table: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", width)
    row = {"id": "TCPIP::127.0.0.1::33801::SOCKET", "of": "a b c d"}
    print_table([row, row], {"id": "id", "of": "of"})
    assert screen.getvalue().count(row["id"]) == 2
    assert ("─" in screen.getvalue()) is is_table


def test_a_long_line_is_wrapped_on_a_terminal_with_no_address_cut_and_stays_one_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["WRONG:", "  psu1: TCPIP::127.0.0.1::33801::SOCKET is not connected, of-a-sort"]
    print_lines(lines)
    assert capsys.readouterr().out.splitlines() == lines
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", "45")
    print_lines(lines)
    assert screen.getvalue().splitlines() == [
        "WRONG:",
        "  psu1: TCPIP::127.0.0.1::33801::SOCKET is",
        "    not connected, of-a-sort",
    ]


def test_inner_fields_have_dotted_names_and_empty_ones_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_fields({"a": {"port": 1, "on": None, "is_on": False}, "sweeps": [], "x": [0], "y": {}})
    assert capsys.readouterr().out.splitlines() == ["a.port   1", "a.is_on  no", "x        [0]"]
    print_fields({"success": None, "data": {"set": {}, "readback": ""}})
    assert capsys.readouterr().out == "(none)\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": 1}, "a  1\n"),
        ([{"a": 1}, {"b": 2}], "A  B\n1\n   2\n"),
        ([{"a": {"b": 1}}, {"a": 2}], "a.b  1\n\na  2\n"),
        ([], "(nothing)\n"),
        ([1, 2], "[1, 2]\n"),
        ("text", "text\n"),
        (None, "\n"),
    ],
)
def test_a_result_is_shown_in_the_form_that_fits(
    value: object, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_result(value)
    assert capsys.readouterr().out == shown


def test_control_characters_never_reach_the_terminal() -> None:
    assert cell("a\x1b[31mb\nc\u202e") == "a [31mb c "


def test_long_text_is_cut() -> None:
    assert len(cell("x" * 1000)) == 200


def test_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": "\u2028"})
    assert json.loads(capsys.readouterr().out) == {"a": "\u2028"}


def test_what_is_to_be_done_about_a_lease_is_told_by_the_verbs_of_the_shell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = {"message": "It has ended.", "remedy": "Reserve again with bench__reserve."}
    show(ToolAnswer(result=None, error=error), argparse.Namespace(json=False), print_result)
    assert capsys.readouterr().err == (
        "edged: It has ended. Reserve again with `edged lease reserve`.\n"
    )
