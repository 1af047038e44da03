"""What edged drafts from PyMeasure's source, held against what PyMeasure itself sends.

The source is read a second time by its tokens, to count what could arrive; and each command that
did is worked by PyMeasure's own properties, in its own environment, over an adapter that only
writes down what was sent. No limit, no option, no label and no line may differ.
"""

from __future__ import annotations

import io
import json
import re
import resource
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edged.errors import EdgedError
from edged.profiles.arguments import compile_parameters
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import load_library
from edged.profiles.model import Command, Parameter, ParameterType, Profile, ScalarAnswer
from edged.profiles.template import optional_names, render_lines
from tests.promises import promise

REPOSITORY = Path(__file__).resolve().parents[2]
ENVIRONMENT = REPOSITORY / ".venv-clients" / "pymeasure"
SCRIPT = REPOSITORY / "tests" / "clients" / "pymeasure_sent.py"
WITHIN_S = 120.0
KINDS = ("control", "measurement", "setting")
LITERAL_NAMES = {"True", "False", "None"}
VALIDATORS = {
    "strict_range", "truncated_range", "strict_discrete_set", "truncated_discrete_set",
}  # fmt: skip
CASTS = {"int", "float", "str", "bool"}
NUMBER = re.compile(r"(?<![A-Za-z_])[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class Run:
    """One import of the whole tree."""

    told: dict[str, Any]
    output: Path
    root: Path
    took_s: float
    """Of one processor: how long it waits for one is the machine's affair."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    (packages,) = ENVIRONMENT.glob("lib/python*/site-packages")
    output = tmp_path_factory.mktemp("drafts")
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = ["profile", "import", "--all", str(packages / "pymeasure"), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "edged", *words, "--output", str(output)],
        capture_output=True,
        text=True,
        check=False,
    )
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    took_s = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    assert done.returncode == 0, done.stderr[-2000:]
    return Run(json.loads(done.stdout), output, packages / "pymeasure", took_s)


@pytest.fixture(scope="module")
def library(run: Run) -> ProfileLibrary:
    """The drafts beside the shipped profiles."""
    return load_library([run.output, REPOSITORY / "profiles"])


# How many could arrive, read by tokens


def literal_declarations(path: Path) -> Iterator[int]:
    """The lines of the declarations of a file that are literal throughout, by its tokens."""
    text = path.read_text(encoding="utf-8")
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in (tokenize.NL, tokenize.COMMENT)
    ]
    for index, token in enumerate(tokens[:-3]):
        is_call = (
            token.string in KINDS
            and tokens[index - 1].string == "."
            and tokens[index - 2].type == tokenize.NAME
            and tokens[index - 3].string == "="
            and tokens[index + 1].string == "("
        )
        if is_call and all(map(is_literal, arguments(tokens, index + 2))):
            yield tokens[index - 2].start[0]


def arguments(tokens: list[tokenize.TokenInfo], at: int) -> Iterator[list[str]]:
    """The tokens of each argument of the call whose bracket has just been opened."""
    depth, found = 0, list[str]()
    for token in tokens[at:]:
        if token.string in ("(", "[", "{"):
            depth += 1
        elif token.string in (")", "]", "}"):
            depth -= 1
            if depth < 0:
                break
        if token.string == "," and depth == 0:
            yield found
            found = []
        elif token.type not in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            found.append(token.string)
    if found:
        yield found


def is_literal(argument: list[str]) -> bool:
    if len(argument) > 2 and argument[1] == "=":
        name, value = argument[0], argument[2:]
        if name == "validator":
            return len(value) == 1 and value[0] in VALIDATORS
        if name == "cast":
            return len(value) == 1 and value[0] in CASTS
        argument = value
    return all(word[0] in "'\"0123456789.[](){},:+-*" or word in LITERAL_NAMES for word in argument)


@promise("profile.import-arrives")
def test_seven_tenths_of_the_literal_declarations_arrive_within_two_minutes(
    run: Run, record_testsuite_property: Callable[[str, object], None]
) -> None:
    could, did = 0, 0
    arrived = {
        (entry["path"], entry["line"])
        for draft in run.told["drafts"]
        for entry in draft["commands"]
    }
    listed = {(one["path"], one["line"]) for one in run.told["left_out"]}
    silent = []
    for path in sorted(run.root.rglob("*.py")):
        name = path.relative_to(run.root).as_posix()
        for line in literal_declarations(path):
            could += 1
            did += (name, line) in arrived
            if (name, line) not in arrived | listed:
                silent.append(f"{name}:{line}")
    assert could > 1500
    assert did / could >= 0.70, f"{did} of {could}"
    assert not silent, "neither in a draft nor in the list"
    assert run.took_s < WITHIN_S
    record_testsuite_property("literal declarations", could)
    record_testsuite_property("of them arrived", did)
    record_testsuite_property("seconds", round(run.took_s, 1))


@promise("profile.import-arrives")
def test_every_draft_is_a_profile_that_lint_takes(run: Run, library: ProfileLibrary) -> None:
    from edged.profiles.authoring.lint import lint_profile

    assert not library.complaints
    drafts = [profile for profile in library.profiles.values() if profile.is_imported]
    assert len(drafts) == len(run.told["drafts"]) > 100
    bad = [
        finding.sentence
        for profile in drafts
        for finding in lint_profile(profile, library)
        if finding.severity == "error"
    ]
    assert not bad


# What PyMeasure sends


def orders(
    run: Run, library: ProfileLibrary
) -> Iterator[tuple[dict[str, Any], Profile, Command, Parameter | None]]:
    """Every command of every draft, with what is asked of PyMeasure about it."""
    for draft in run.told["drafts"]:
        profile = library.profiles[draft["profile_key"]]
        for entry in draft["commands"]:
            command = profile.commands[entry["command"]]
            own = [p for name, p in command.parameters.items() if name != "channel"]
            parameter = own[0] if own else None
            ids = entry["ids"] or [None]
            for identity in dict.fromkeys([ids[0], ids[-1]]):
                yield (
                    {
                        "module": module_of(draft["path"]),
                        "class": draft["class"],
                        "property": entry["declared"],
                        "side": entry["side"],
                        "channel_module": module_of(entry["channel_path"]),
                        "channel_class": entry["channel_class"],
                        "id": identity,
                        "numbers": numbers_of(parameter),
                        "answers": answers_of(command),
                    },
                    profile,
                    command,
                    parameter,
                )


def module_of(path: str) -> str:
    return f"pymeasure.{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"


def numbers_of(parameter: Parameter | None) -> list[float]:
    """Both ends, the middle, and what lies beyond each end."""
    if parameter is None or parameter.type not in (ParameterType.INT, ParameterType.FLOAT):
        return []
    if parameter.min is None or parameter.max is None:
        return [1, 2]
    low, high = parameter.min, parameter.max
    middle = (low + high) / 2
    if parameter.type is ParameterType.INT:
        middle = int(middle)
    beyond = (
        max(1, (high - low) // 10)
        if parameter.type is ParameterType.INT
        else (max(high - low, abs(high), 1.0) / 10)
    )
    return [low, high, middle, low - beyond, high + beyond]


def answers_of(command: Command) -> list[str]:
    return list(command.returns.map) if isinstance(command.returns, ScalarAnswer) else []


def label(value: Any) -> str:
    """What callers say for a value of Python."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:.12g}"
    return str(value).strip().strip("\"'")


def same_label(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def same_line(one: str, other: str | None) -> bool:
    """Equal, but for how a number is written."""
    if other is None or NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(float(a) == float(b) for a, b in pairs)


class Sender:
    """What edged sends for a command of a draft, its limits held."""

    def __init__(self, command: Command, identity: Any) -> None:
        self.command = command
        self.given = {}
        if "channel" in command.parameters:
            is_int = command.parameters["channel"].type is ParameterType.INT
            self.given = {"channel": identity if is_int else str(identity)}
        self.check = compile_parameters(
            command.name, command.parameters, (), optional_names(command.scpi)
        )

    def line(self, **values: Any) -> str | None:
        """The line, or nothing where the value is refused."""
        try:
            valid = self.check.validate({**self.given, **values})
            (line,) = render_lines(self.command, valid)
        except EdgedError:
            return None
        return line


def differences(
    order: dict[str, Any], command: Command, parameter: Parameter | None, told: dict[str, Any]
) -> Iterator[str]:
    sender = Sender(command, order["id"])
    if order["side"] == "get":
        yield from different_question(sender, command, told)
    else:
        assert parameter is not None
        yield from different_numbers(sender, parameter, told)
        yield from different_options(sender, parameter, told)


def different_question(sender: Sender, command: Command, told: dict[str, Any]) -> Iterator[str]:
    line = sender.line() or ""
    if line != told["asked"]:
        yield f"asks {line!r}, not {told['asked']!r}"
    if isinstance(command.returns, ScalarAnswer) and command.returns.map:
        for answer, meant in told["meant"]:
            mine = command.returns.map[answer]
            # Theirs compares with what its cast made (``inf`` is no "INF"), and finds nothing then.
            if meant != "KeyError" and not same_label(mine, label(meant)):
                yield f"takes {answer!r} for {mine!r}, not {meant!r}"


def different_numbers(sender: Sender, parameter: Parameter, told: dict[str, Any]) -> Iterator[str]:
    name = parameter.name
    lines = [line for _, line in told["numbers"]]
    for index, (value, theirs) in enumerate(told["numbers"]):
        mine = sender.line(**{name: value})
        is_beyond = index >= 3
        if is_beyond:
            if mine is not None:
                yield f"takes {value} beyond its limits"
            # Theirs refuses it too, or sends what it sends for an end.
            if theirs is not None and theirs not in lines[:2]:
                yield f"refuses {value}, which is sent as {theirs!r}"
        elif mine is None or not (same_line(mine, theirs) or passes(parameter, theirs)):
            yield f"sends {mine!r} for {value}, not {theirs!r}"
    is_range = told["validator"] in ("strict_range", "truncated_range") and not told["is_map"]
    if is_range and [parameter.min, parameter.max] != told["ends"]:
        yield f"has limits {parameter.min} to {parameter.max}, not {told['ends']}"


def passes(parameter: Parameter, theirs: str | None) -> bool:
    """Whether what theirs sends was rounded past the limit, which edged never does."""
    low, high = ends_of(parameter)
    sent = float(NUMBER.findall(theirs or "")[-1])
    outside = max(low - sent, sent - high)
    return 0 < outside <= 1e-3 * max(abs(low), abs(high))


def ends_of(parameter: Parameter) -> tuple[float, float]:
    assert parameter.min is not None
    assert parameter.max is not None
    return parameter.min, parameter.max


def different_options(sender: Sender, parameter: Parameter, told: dict[str, Any]) -> Iterator[str]:
    if told["validator"] in ("strict_range", "truncated_range") and not told["is_map"]:
        return
    is_number = parameter.type in (ParameterType.INT, ParameterType.FLOAT)
    for value, theirs in told["listed"]:
        given: Any = label(value)
        if is_number:
            given = value
        elif parameter.type is ParameterType.BOOL:
            given = value if isinstance(value, bool) else None
        else:
            given = next((o for o in parameter.options if same_label(o, given)), given)
        mine = sender.line(**{parameter.name: given})
        if mine is None or not same_line(mine, theirs):
            yield f"sends {mine!r} for {value!r}, not {theirs!r}"
    if told["listed"] and not is_number:
        count = 2 if parameter.type is ParameterType.BOOL else len(parameter.options)
        if count != len(told["listed"]):
            yield f"has {count} options, not {len(told['listed'])}"
    if told["listed"] and is_number and len(told["listed"]) < 600:
        low, high = ends_of(parameter)
        if high - low + 1 != len(told["listed"]):
            yield f"has limits {parameter.min} to {parameter.max} for {told['listed'][:5]}"


@promise("profile.import-limits")
def test_every_limit_option_label_and_line_is_what_pymeasure_itself_sends(
    run: Run, library: ProfileLibrary
) -> None:
    asked = list(orders(run, library))
    lines = "".join(json.dumps(order) + "\n" for order, *_ in asked)
    done = subprocess.run(
        [ENVIRONMENT / "bin" / "python", SCRIPT],
        input=lines,
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(asked) > 2_000, done.stderr[-2000:]
    wrong, unknown = [], []
    for (order, profile, command, parameter), told in zip(asked, answers, strict=True):
        where = f"{profile.key}.{command.name} ({order['class']}.{order['property']})"
        if "error" in told:
            unknown.append(f"{where}: {told['error']}")
            continue
        wrong += [f"{where} {one}" for one in differences(order, command, parameter, told)]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:40])
    assert len(unknown) <= len(asked) / 50, "\n".join(unknown[:20])
