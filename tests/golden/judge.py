"""Judges raw lines with the code beside it: one side of the oracle (``oracle.py``).

``python tests/golden/judge.py QUESTIONS ANSWERS`` from the root of a tree. A question is one JSON
line with a profile's ``key``, its ``text`` files, ``benches`` and ``lines``; its answer one JSON
line with, for each bench file, the complaint about it or a verdict on each line. Another commit's
own copy is run where it has one, so that this file may follow the code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

TREE: Final = Path.cwd()
sys.path.insert(0, str(TREE))

import edged  # noqa: E402
from edged.actions.action import SendScpi  # noqa: E402
from edged.actions.caller import Caller, Route  # noqa: E402
from edged.clock import SystemClock  # noqa: E402
from edged.commands.path import CommandPath  # noqa: E402
from edged.commands.target import Catalog  # noqa: E402
from edged.errors import EdgedError, Invalid  # noqa: E402
from edged.operations.commands import OPERATIONS  # noqa: E402
from edged.profiles.bench_file import parse_bench  # noqa: E402
from edged.profiles.library import ProfileLibrary  # noqa: E402
from edged.profiles.loading import load_library  # noqa: E402
from edged.profiles.model import Profile  # noqa: E402
from edged.profiles.owner_rules import tighten  # noqa: E402
from edged.profiles.raw import RawPart  # noqa: E402
from tests.bench.command_path import command_path  # noqa: E402
from tests.bench.fake_instruments import FakeInstrument, FakePool  # noqa: E402

UNIT: Final = "psu1"


def main(questions: Path, answers: Path, profiles: Path) -> None:
    if TREE not in Path(edged.__file__).parents:
        raise SystemExit(f"edged is not read from {TREE} but from {edged.__file__}")
    library = load_library([profiles]).profiles
    with questions.open(encoding="utf-8") as asked, answers.open("w", encoding="utf-8") as said:
        for line in asked:
            question = json.loads(line)
            profile = library.get(question["key"])
            found = (
                ["the profile cannot be read"]
                if profile is None
                else [_verdicts(profile, text, question["lines"]) for text in question["benches"]]
            )
            said.write(json.dumps(found) + "\n")


def _verdicts(profile: Profile, bench: str, lines: list[str]) -> str | list[str]:
    library = ProfileLibrary(profiles={profile.key: profile})
    try:
        rules = parse_bench(bench, "bench.yaml", library).rules_for("", UNIT)
        tightened = tighten(profile, rules)
    except Invalid as error:
        return _told(error)
    unit = FakeInstrument(id=UNIT, profile=tightened, rules=rules)
    unit.safe_by = profile
    catalog = Catalog()
    pool: Any = FakePool(unit)
    # Judged only: nothing is run, so the rows need nothing to work with.
    path = command_path(pool, catalog, {row.key: row for row in OPERATIONS}, SystemClock())
    return [_verdict(path, line) for line in lines]


def _verdict(path: CommandPath, line: str) -> str:
    action = SendScpi(
        tool="send_scpi",
        caller=Caller(route=Route.DIRECT),
        action_id="1",
        instrument_id=UNIT,
        scpi=line,
    )
    try:
        target = path.judge(action)
    except EdgedError as error:
        return _told(error)
    marks = ("dangerous", target.is_dangerous), ("safe", target.is_safe), ("write", target.is_write)
    words = ["passed", *(word for word, is_so in marks if is_so)]
    return " ".join(words) + ": " + "; ".join(map(_read_as, target.parts))


def _read_as(part: RawPart) -> str:
    """One message as it was understood: its class, and each command with the values it may have."""
    commands = (
        f"{match.command.name} {[dict(one) for one in match.choices]}" for match in part.matches
    )
    return " or ".join([f"{part.kind.value}", *commands])


def _told(error: EdgedError) -> str:
    return f"{error.code.value}: {error.message} [{error.remedy}]"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
