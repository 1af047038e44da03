"""The same raw lines, judged by another commit's code and by this tree's: do they say the same?

``make oracle COMMIT=…``. The profiles are this tree's. Each has twelve bench files, and 400 lines
that are made of its commands: within and beyond their limits, in other spellings, with other
units, several in one message, broken at random places. Both sides judge all of them (``judge.py``),
each in a process of its own. The first differences are printed; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from edged.profiles.model import Changes, Command, Parameter, ParameterType, Profile
from edged.profiles.template import render_lines
from tests.bench.engine_process import REPOSITORY
from tests.bench.shipped import PROFILES, shipped_library

LINES: Final = 400
WITHIN_S: Final = 600
MOST_SHOWN: Final = 20
JUDGE: Final = Path("tests", "golden", "judge.py")
Question = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.oracle", description=__doc__)
    parser.add_argument("commit", help="the commit to compare this tree with")
    parser.add_argument("--lines", type=int, default=LINES, help="raw lines for each profile")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profiles", nargs="*", help="only these")
    options = parser.parse_args()
    library = shipped_library().profiles
    keys = options.profiles or sorted(library)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        questions = [question(library[key], options.lines, options.seed) for key in keys]
        asked = directory / "questions.jsonl"
        asked.write_text("".join(json.dumps(one) + "\n" for one in questions), encoding="utf-8")
        other = _unpacked(options.commit, directory / "tree")
        before, now = _answers({"before": other, "now": REPOSITORY}, asked, directory)
        return _told(questions, before, now)


def question(profile: Profile, lines: int, seed: int) -> Question:
    """What both sides are asked about one profile."""
    made = _Lines(profile, random.Random(f"{seed} {profile.key}"))
    benches = list(bench_files(profile))
    return {"key": profile.key, "benches": benches, "lines": [made.line() for _ in range(lines)]}


def bench_files(profile: Profile) -> Iterator[str]:
    """Twelve: none, one for each kind of rule, and several rules together."""
    settable = [
        (command, parameter)
        for command in profile.commands.values()
        for parameter in command.parameters.values()
        if parameter.type in (ParameterType.FLOAT, ParameterType.INT)
        and parameter.max is not None
        and not command.is_query
        and not command.is_safe
    ]
    writes = [one.name for one in profile.commands.values() if not one.is_query and not one.is_safe]
    swept = [one.name for one in profile.commands.values() if one.sweep is not None]
    changing = [one.name for one in profile.commands.values() if one.changes is Changes.ANY]
    limits: dict[str, dict[str, Any]] = {}
    for command, parameter in settable:
        low, high = parameter.min or 0, parameter.max or 0
        half = int((low + high) / 2) if parameter.type is ParameterType.INT else (low + high) / 2
        limits.setdefault(command.name, {})[parameter.name] = {"max": max(low, half)}
    one_limit = dict(list(limits.items())[:1])
    rules: list[dict[str, Any]] = [
        {},
        {"raw_scpi": "known"},
        {"raw_scpi": "queries"},
        {"raw_scpi": "off"},
        {"limits": one_limit},
        {"limits": limits},
        {"deny": writes[::3]},
        {"is_dangerous": writes[::2]},
        {"requires_sweep": swept},
        {"limits": one_limit, "allow_raw": ["SYST:VERS?", 'DISP:TEXT "hands off"', "FOO:BAR 1"]},
        {"deny": writes[1::3], "allow_changes": changing, "max_rate": 0.5 if swept else 0},
        {"limits": limits, "deny": writes[::4], "raw_scpi": "queries", "confirm": writes[:1]},
    ]
    for rule in rules:
        kept = {key: value for key, value in rule.items() if value}
        yield "format: 1\n" + (f"psu1: {json.dumps(kept)}\n" if kept else "")


class _Lines:
    """Raw lines of one profile, at random."""

    def __init__(self, profile: Profile, chance: random.Random) -> None:
        self._commands = [one for one in profile.commands.values() if one.scpi]
        self._chance = chance

    def line(self) -> str:
        chance = self._chance
        pieces = [self._message() for _ in range(chance.choice((1, 1, 1, 1, 2, 3)))]
        line = chance.choice((";", ";", ";:", "; ")).join(pieces)
        for change in chance.choices(CHANGES, k=chance.choice((0, 0, 0, 1, 1, 2))):
            line = change(line, chance)
        return line[:1_000]

    def _message(self) -> str:
        chance = self._chance
        if not self._commands or chance.random() < 0.08:
            return chance.choice(STRANGE)
        command = chance.choice(self._commands)
        values = {name: self._value(one) for name, one in command.parameters.items()}
        try:
            return chance.choice(render_lines(command, values))
        except Exception:  # noqa: BLE001 - a value that fits no template is written as it is
            return _headers(command, chance) + " " + ",".join(map(str, values.values()))

    def _value(self, parameter: Parameter) -> Any:
        chance = self._chance
        if parameter.type is ParameterType.BOOL:
            return chance.random() < 0.5
        if parameter.options:
            return chance.choice(parameter.options)
        if parameter.type is ParameterType.STRING:
            return chance.choice(("a", "a b", "a,b", 'a"b', ""))
        low = 0 if parameter.min is None else parameter.min
        high = low + 100 if parameter.max is None else parameter.max
        value = chance.choice(
            (low, high, (low + high) / 2, high * 1.01 + 1, low - 1, low + (high - low) * 0.6)
        )
        return round(value) if parameter.type is ParameterType.INT else value


def _headers(command: Command, chance: random.Random) -> str:
    return chance.choice(command.scpi).split(" ")[0].replace("{", "").replace("}", "")


STRANGE: Final = (
    "*IDN?", "*RST", "*CLS", "*RCL 1", "*SAV 1", "*TST?", "SYST:ERR?", "SYST:VERS?", "FOO:BAR 1",
    "FOO?", 'DISP:TEXT "hands off"', "OUTP ON", "VOLT 1", "VOLT MAX", "CURR 1e3", ":SOUR1:VOLT 5",
    "*TRG", "INIT", "ABOR", "OUTP?", "", ";", "?", '"', "#15hello", "VOLT #HFF",
)  # fmt: skip


def _other_case(line: str, chance: random.Random) -> str:
    return chance.choice((line.lower(), line.upper(), line.swapcase()))


def _unit(line: str, chance: random.Random) -> str:
    return line + chance.choice(("V", "mV", " MV", "kHz", "A", "uA", " S", "furlong", "e3", "E-3"))


def _without_root(line: str, _chance: random.Random) -> str:
    return line.lstrip(":") if line.startswith(":") else f":{line}"


def _spaced(line: str, chance: random.Random) -> str:
    at = chance.randrange(len(line) + 1)
    return line[:at] + chance.choice((" ", "\t", "  ")) + line[at:]


def _broken(line: str, chance: random.Random) -> str:
    at = chance.randrange(len(line) + 1)
    return line[:at] + chance.choice("A1:;?,'\"#(@) .-") + line[at + chance.choice((0, 1)) :]


def _word(line: str, chance: random.Random) -> str:
    head, _, _ = line.rpartition(" ")
    return f"{head or line} " + chance.choice(("MAX", "MIN", "DEF", "UP", "ON", "0", "1", "#B101"))


def _question(line: str, _chance: random.Random) -> str:
    return line.partition(" ")[0] + "?"


CHANGES: Final = (_other_case, _unit, _without_root, _spaced, _broken, _word, _question)


def _unpacked(commit: str, tree: Path) -> Path:
    """Another commit's code, with the judge of this tree where it has none."""
    tree.mkdir()
    words = ["git", "archive", commit, "edged", "tests", "conftest.py"]
    packed = subprocess.run(words, cwd=REPOSITORY, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tree, filter="data")
    judge = tree / JUDGE
    if not judge.exists():
        judge.parent.mkdir(exist_ok=True)
        judge.write_bytes((REPOSITORY / JUDGE).read_bytes())
    return tree


def _answers(trees: dict[str, Path], asked: Path, directory: Path) -> Iterator[list[Any]]:
    """What each side says, both at the same time."""
    sides: list[tuple[Path, subprocess.Popen[bytes]]] = []
    try:
        for name, tree in trees.items():
            said = directory / f"{name}.jsonl"
            words = [sys.executable, str(JUDGE), str(asked), str(said), str(PROFILES)]
            # Of two limits that a line breaks, the order of a set decides which is named.
            environ = {**os.environ, "PYTHONHASHSEED": "0"}
            sides.append((said, subprocess.Popen(words, cwd=tree, env=environ)))
        ends = time.monotonic() + WITHIN_S
        for _, side in sides:
            if side.wait(timeout=max(0.0, ends - time.monotonic())):
                raise SystemExit("one side failed: the code that judges has moved; see judge.py")
    finally:
        for _, side in sides:
            side.kill()
            side.wait()
    return (
        [json.loads(line) for line in said.read_text(encoding="utf-8").splitlines()]
        for said, _ in sides
    )


def _told(questions: list[Question], before: list[Any], now: list[Any]) -> int:
    count = differing = 0
    kinds: Counter[str] = Counter()
    for asked, old, new in zip(questions, before, now, strict=True):
        for bench, was, says in zip(asked["benches"], old, new, strict=True):
            for line, one, other in _pairs(asked["lines"], was, says):
                count += 1
                kinds[other.partition(":")[0]] += 1
                if one == other:
                    continue
                differing += 1
                if differing <= MOST_SHOWN:
                    sys.stdout.write(
                        f"{asked['key']}, {line!r}\n  bench file: {bench!r}\n"
                        f"  before: {one}\n  now:    {other}\n"
                    )
    sys.stdout.write(f"{count} judgements ({dict(kinds.most_common())}), {differing} differ\n")
    return int(differing > 0)


def _pairs(lines: list[str], was: Any, says: Any) -> Iterator[tuple[str, str, str]]:
    """Line, verdict before, verdict now; of a bench file that is refused there is one."""
    if isinstance(was, str) or isinstance(says, str):
        return iter([("(the bench file)", str(was), str(says))])
    return zip(lines, was, says, strict=True)


if __name__ == "__main__":
    raise SystemExit(main())
