"""A report as one HTML file whole, escaped, and in need of nothing."""

from __future__ import annotations

import html.parser
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.runs.report.document import POLICY, document_of
from edged.runs.report.facts import report_of
from edged.runs.report.parts import FactList, FactTable, Note, ReportDocument, Section
from tests.bench.reported import STANDING, material_of, meta_of, unit_of, whole_report
from tests.promises import promise

VOID = {"meta"}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></title><iframe src='http://evil.example/'>",
    "&lt;b&gt; \u202e\x00\x1b[31m",
    "a" * 400,
)


class Reader(html.parser.HTMLParser):
    """Sees that every element ends, and keeps what there is."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(report: ReportDocument) -> Reader:
    reader = Reader()
    reader.feed(document_of(report).decode())
    reader.close()
    assert reader.open == []
    return reader


def hostile_report(text: str) -> ReportDocument:
    unit = unit_of(
        text, text, serial=text, firmware=text, location=text, idn=text, model=text,
        settings=[{"name": text, "for": {text: text}, "unit": text, "value": text}],
        limits={text: {text: {"options": [text, text]}}},
    )  # fmt: skip
    meta = meta_of(
        instruments=[unit],
        instrument_id=text,
        command_name=text,
        parameters={text: text},
        details={text: [text]},
        columns=[{"name": text, "unit": text}],
        caller={"who": text, "client": text},
        summary={"reason": text, "error": text, "notes": [text]},
        host=text,
        error=text,
    )
    extract = replace(material_of().extract, columns=(text, text))
    return report_of(material_of(meta=meta, extract=extract, path=text), STANDING)


def test_everything_that_the_report_says_stands_in_the_page() -> None:
    text = " ".join(read(whole_report()).text)
    for word in ("SER-psu1", "2026-01-31 overdue", "cd" * 32, "ab" * 32, "target reached", "anna"):
        assert word in text


@promise("report.one-file")
@pytest.mark.parametrize("text", ["plain", *HOSTILE])
def test_whatever_others_call_things_is_text_in_the_page(text: str) -> None:
    reader = read(hostile_report(text))
    assert reader.tags <= read(whole_report()).tags | {"p"}
    assert not {name for name in reader.names if name.startswith("on")}
    assert not {"src", "href", "style", "action"} & reader.names
    assert "alert(1)" not in text or any("alert(1)" in found for found in reader.text)


@promise("report.one-file")
def test_the_page_refers_to_nothing_and_runs_nothing() -> None:
    page = document_of(whole_report()).decode()
    assert "<script" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert set(re.findall(r"https?://[^\"' <]+", page)) == {"http://www.w3.org/2000/svg"}
    assert POLICY.startswith("default-src 'none'; style-src 'sha256-")


@given(st.text(max_size=60), st.lists(st.text(max_size=30), min_size=2, max_size=2))
def test_any_text_makes_a_well_formed_page(text: str, cells: list[str]) -> None:
    parts = (
        FactList(rows=((text, cells[0]),)),
        Note(text=text),
        FactTable(columns=(text, text), rows=(tuple(cells),), caption=text, codes=frozenset({1})),
    )
    report = ReportDocument(
        title=text, subtitle=text, sections=(Section(heading=text, parts=parts),), foot=text
    )
    read(report)


def test_rows_that_are_left_out_leave_a_mark() -> None:
    table = FactTable(columns=("n",), rows=(("1",), ("9",)), gap=1)
    report = replace(whole_report(), sections=(Section(heading="", parts=(table,)),))
    assert "…" in read(report).text
