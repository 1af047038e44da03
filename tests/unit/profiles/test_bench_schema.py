"""The JSON Schema of the bench file takes what the reader takes, and refuses what it can."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from edged.errors import Invalid
from edged.profiles.format.bench import BENCH, TABLES, bench_schema
from edged.profiles.interlocks import read_interlocks
from edged.profiles.library import parse_yaml
from edged.profiles.unit_rules import UNIT, UnitRules, read_unit
from edged.schema.fields import Fields, check_format, map_of
from tests.bench.plain import plain_tree
from tests.golden import bad_inputs, mutations

ROOT = Path(__file__).parents[3]
SCHEMA = bench_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
GOLDEN = ROOT / "tests" / "golden"
UNSAYABLE = re.compile(
    # What a schema cannot say: names of profiles, other keys, and what a text means.
    r"No unit that this entry matches|no profile has|is the same unit|the alias|is not YAML"
    r"|is here twice|twice poll_s|there are two called|is over \"min\"|\"min\" is over"
    r"|options beside min|limits nothing|looks like an address|is not a date|one command or query"
    r"|none of the allowed forms|needs no approval|interlock \w+: \w+ |The expression"
    r"|the expression|about nothing that is read|without a unit|gives no reading|control character"
    r"|alias \*"
    r"|anchor|Merge keys|second document|YAML 1|tag \"|plain text or a number|nested deeper"
    r"|surrogate|finite number|profile"
)


def complaints(text: str) -> list[str]:
    tree: Any = plain_tree(parse_yaml(text, "bench.yaml"))
    return [error.message for error in VALIDATOR.iter_errors(tree)]


def examples() -> Iterator[Any]:
    """Every bench file of the documentation, and those that the tests begin with."""
    yield pytest.param((GOLDEN / "bases" / "bench.yaml").read_text(encoding="utf-8"), id="golden")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        found = re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
        for number, text in enumerate(found):
            if is_bench(text):
                head = "" if "format:" in text else "format: 1\n"
                yield pytest.param(head + text, id=f"{page.name}-{number}")


def is_bench(text: str) -> bool:
    """Whether it has an entry with one of the keys of a unit, or interlocks."""
    try:
        tree: Any = plain_tree(parse_yaml(text, "an example"))
    except Invalid:
        return False
    if not isinstance(tree, dict) or "profile_key" in tree or "commands" in tree:
        return False
    entries = [value for key, value in tree.items() if key != "format"]
    return "interlocks" in tree or (
        tree.keys().isdisjoint({"identify", "connection", "match", "extends"})
        and bool(entries)
        and all(isinstance(one, dict) and set(UNIT.keys) >= set(one) > set() for one in entries)
    )


def test_it_is_a_schema_that_editors_understand() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_it_refers_to_nothing_that_is_not_there() -> None:
    referred = set(re.findall(r"#/\$defs/([a-z_]+)", json.dumps(SCHEMA)))
    assert referred == {table.name for table in TABLES} - {"bench"} == set(SCHEMA["$defs"])


def test_a_unit_has_a_key_for_each_rule_of_the_owner() -> None:
    fields = {key.field or name for name, key in UNIT.keys.items()}
    assert fields == set(UnitRules.__dataclass_fields__) - {"key", "marks"}


def test_the_documentation_has_examples() -> None:
    assert len(list(examples())) > 10


@pytest.mark.parametrize("text", list(examples()))
def test_every_example_validates(text: str) -> None:
    assert complaints(text) == []


def test_what_the_reader_refuses_the_schema_refuses_where_it_can() -> None:
    cases = map(json.loads, (GOLDEN / "complaints.jsonl").read_text("utf-8").splitlines())
    taken = {}
    seen = 0
    for case in cases:
        if case["of"] != "bench file" or all(map(UNSAYABLE.search, case["said"])):
            continue
        text = bad_inputs.text_of(case)
        try:
            told = complaints(text)
        except Invalid:
            continue
        seen += 1
        if not told:
            taken[text] = case["said"]
    assert taken == {}
    assert seen > 60


def test_what_the_reader_takes_the_schema_takes() -> None:
    refused = {}
    seen = 0
    for at, put in mutations.all_of("bench"):
        text = mutations.text_of("bench", at, put)
        root = map_of(parse_yaml(text, "bench.yaml"), "it")
        try:
            check_format(Fields(root, "it"))
            for key, node in root.entries.items():
                if key not in BENCH.keys:
                    read_unit(key, node)
            read_interlocks(Fields(root, "it").items("interlocks"))
        except Invalid:
            continue
        seen += 1
        if told := complaints(text):
            refused[text] = told
    assert refused == {}
    assert seen > 80
