"""The JSON Schema of the profile format: what the grammar takes, it takes; broken structure not."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from edged.errors import Invalid
from edged.profiles.format.profile import SENT, read_profile
from edged.profiles.format.schema import TABLES, UNIONS, profile_schema
from edged.profiles.library import parse_yaml
from edged.profiles.loading import parse_profile
from edged.schema.json_schema import schema_text
from edged.schema.tables import Table
from edged.sdk.specs import plain_node
from edged.yaml.tree import ListNode, MapNode, Node
from tests.bench.plain import plain_tree

ROOT = Path(__file__).parents[3]
SCHEMA = profile_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
HEAD = """\
format: 1
profile_key: acme_one
manufacturer: Acme
model: One
instrument_class: power_supply
source: "guide"
match: {idn: 'acme,one\\b'}
"""
COMMANDS = "commands: {a: {scpi: A}}\n"


def complaints(text: str) -> list[str]:
    tree: Any = plain_tree(parse_yaml(text, "profile.yaml"))
    return [error.message for error in VALIDATOR.iter_errors(tree)]


def test_it_is_a_schema_that_editors_understand() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_file_in_the_documentation_is_the_schema_of_the_grammar() -> None:
    kept = (ROOT / "docs" / "profile.schema.json").read_text(encoding="utf-8")
    # As text, since an order that came from a set would be another one in each process.
    assert kept == schema_text(SCHEMA), "run `make docs`"


@pytest.mark.parametrize("path", sorted((ROOT / "profiles").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_shipped_profile_validates(path: Path) -> None:
    assert complaints(path.read_text(encoding="utf-8")) == []


def test_a_small_profile_validates() -> None:
    assert complaints(HEAD + COMMANDS) == []


@pytest.mark.parametrize(
    "text",
    [
        COMMANDS,
        HEAD,
        HEAD + COMMANDS + "colour: red\n",
        HEAD.replace("format: 1", "format: 2") + COMMANDS,
        HEAD.replace("acme_one", "Acme-One") + COMMANDS,
        HEAD.replace("acme_one", "acme__one") + COMMANDS,
        HEAD.replace("model: One", "model: [One]") + COMMANDS,
        HEAD.replace("{idn: 'acme,one\\b'}", "{ids: []}") + COMMANDS,
        HEAD + "commands: {}\n",
        HEAD + "commands: [a]\n",
        HEAD + "commands: {Set: {scpi: A}}\n",
        HEAD + "commands: {a: A}\n",
        HEAD + "commands: {a: {scpi: A, dangerous: true}}\n",
        HEAD + "commands: {a: {scpi: []}}\n",
        HEAD + "commands: {a: {scpi: A, is_dangerous: very}}\n",
        HEAD + COMMANDS + "connection: {gpib: {baud_rate: 9600}}\n",
        HEAD + COMMANDS + "connection: {lan: {parity: none}}\n",
        HEAD + COMMANDS + "connection: {usb: {flow: none}}\n",
        HEAD + COMMANDS + "connection: {usb: {heartbeat: false}}\n",
        HEAD + COMMANDS + "connection: {gpib: {shared: true}}\n",
        HEAD + COMMANDS + "connection: {serial: {chunk_bytes: 64}}\n",
        HEAD + "commands: {a: {scpi: A, timeout_ms: 0}}\n",
        HEAD + "commands: {a: {scpi: 'A {x}', parameters: {x: {min: 1}}}}\n",
        HEAD + "commands: {a: {scpi: 'A {x}', parameters: {x: {type: number}}}}\n",
        HEAD + "commands: {a: {scpi: 'A {x}', parameters: {x: {type: float, mim: 1}}}}\n",
        HEAD + "commands: {a: {scpi: 'A {x}', parameters: {x: {type: float, step: 0}}}}\n",
        HEAD + "commands: {a: {scpi: 'A?', returns: {}}}\n",
        HEAD + "commands: {a: {scpi: 'A?', returns: {type: float, bits: {fields: []}}}}\n",
        HEAD + "commands: {a: {scpi: 'A?', returns: {fields: []}}}\n",
        HEAD + "commands: {a: {scpi: 'A?', returns: {bits: {base: 8, fields: []}}}}\n",
        HEAD + "commands: {a: {returns: {waveform: {data: 'D?', dtype: i3}}}}\n",
        HEAD + "commands: {a: {returns: {image: {mime: text/plain, data: 'D?'}}}}\n",
        HEAD + "commands: {a: {scpi: A, verify: {tolerance: 1}}}\n",
        HEAD + "commands: {a: {scpi: A, sweep: {parameter: v}}}\n",
        HEAD + "commands: {a: {scpi: A, complete: {poll: 'B?'}}}\n",
        HEAD + "commands: {a: {scpi: A, complete: soon}}\n",
        HEAD + COMMANDS + "sequences: {s: {steps: []}}\n",
        HEAD + COMMANDS + "sequences: {s: {steps: [{pause: 1}]}}\n",
        HEAD + COMMANDS + "sequences: {s: {steps: [{wait_ms: 1, command: a}]}}\n",
        HEAD + COMMANDS + "sequences: {s: {steps: [{query: 'Q?'}]}}\n",
        HEAD + COMMANDS + "sequences: {s: {steps: [{for: i, in: {exp: [1, 2, 3]}, steps: []}]}}\n",
        HEAD + COMMANDS + "connection: {baud_rate: 1}\n",
        HEAD + COMMANDS + "connection: {parity: maybe}\n",
        HEAD + COMMANDS + "connection: {errors: {query: 'E?'}}\n",
        HEAD + COMMANDS + "settings: {v: {put: 'V'}}\n",
    ],
)
def test_broken_structure_fails_the_schema_and_the_loader(text: str) -> None:
    assert complaints(text) != []
    with pytest.raises(Invalid):
        parse_profile(text)


def test_a_member_of_a_family_may_leave_out_what_it_inherits() -> None:
    member = "format: 1\nprofile_key: b\nmodel: B\nmatch: {idn: b}\nextends: a\n"
    changes = "commands: {x: null, y: {parameters: {v: {max: 5}}}}\n"
    assert complaints(member + changes) == []
    assert complaints(member.replace("extends: a\n", "") + changes) != []


RICH = Path(__file__).with_name("rich_profile.yaml").read_text(encoding="utf-8")
"""A profile that has every key of the format."""
STRANGE = (None, "none", 1, [], {})


def tables() -> Iterator[Table[Any]]:
    yield from TABLES
    for union in UNIONS.values():
        yield from union.values()


def test_every_key_says_what_it_means_and_has_its_field_in_the_model() -> None:
    for table in tables():
        for key in table.keys.values():
            assert key.sentence or key.name in UNIONS["returns"], f"{table.name}.{key.name}"
            if dataclasses.is_dataclass(table.model) and key.kind.read is not None:
                fields = {field.name for field in dataclasses.fields(table.model)}
                assert (key.field or key.name) in fields, f"{table.name}.{key.name}"


def test_every_table_is_in_the_schema_and_on_the_page() -> None:
    page = (ROOT / "docs" / "profiles.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^### ([a-z_]+)$", page, re.MULTILINE))
    assert named == {table.name for table in TABLES} | set(UNIONS)
    referred = set(re.findall(r"#/\$defs/([a-z_]+)", schema_text(SCHEMA)))
    assert referred <= set(SCHEMA["$defs"])
    assert set(SCHEMA["$defs"]) - referred == set()


def changed(node: Node) -> Iterator[Node]:
    """The node with one thing in it changed, each once."""
    if isinstance(node, MapNode):
        for key, entry in node.entries.items():
            others = {name: value for name, value in node.entries.items() if name != key}
            for one in changed(entry):
                yield MapNode(node.mark, {**node.entries, key: one}, node.keys)
            yield MapNode(node.mark, others, {name: node.keys[name] for name in others})
    elif isinstance(node, ListNode):
        for index, entry in enumerate(node.items):
            for one in changed(entry):
                yield ListNode(node.mark, (*node.items[:index], one, *node.items[index + 1 :]))
    for value in STRANGE:
        yield plain_node(value, node.mark)


def test_whatever_the_grammar_takes_the_schema_takes() -> None:
    taken = 0
    # Every fifth: validating a whole profile takes long.
    for root in itertools.islice(changed(parse_yaml(RICH, "rich.yaml")), 0, None, 5):
        try:
            read_profile(root, "rich.yaml")
        except Invalid:
            continue
        taken += 1
        found = [error.message for error in VALIDATOR.iter_errors(plain_tree(root))]
        assert found == []
    assert taken > 50


def test_every_key_whose_value_is_sent_is_known_as_such() -> None:
    tables = [*TABLES, *(one for union in UNIONS.values() for one in union.values())]
    sent = {
        key.name
        for table in tables
        for key in table.keys.values()
        if re.search(r"\bSCPI\b|\bquery\b|question", key.kind.word)
    }
    assert sent | {"abort"} == SENT
