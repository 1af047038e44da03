"""What is seen from outside, kept in files of text: ``make golden`` renews them.

Each entry has a line of its own, so that a difference can be read. What other tests hold already is
not held here: docs/rpc.md, verbs.md, errors.md, configuration.md, profile.schema.json and the
tables of profile keys are made from the code and compared with it.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from edged.cli.main import VERBS
from tests.bench.engine_process import REPOSITORY
from tests.golden import bad_inputs, outside

sys.path.insert(0, str(REPOSITORY / "packaging"))

from man_pages import parser_of, sentence_of, subparsers

FOLDER: Final = Path(__file__).parent
MOST_SHOWN: Final = 40
LONGEST_SHOWN: Final = 400
SHOWN_BEFORE: Final = 80
RENEW: Final = (
    "Where this is meant, `make golden` renews the file; say in the commit why it changed."
)


def help_of_verbs() -> Iterator[str]:
    """Every verb and subverb with its arguments, the same for every Python and terminal."""
    for verb, entry in VERBS.items():
        yield f"edged {verb}: {entry.sentence}"
        yield from _help(parser_of(verb), f"edged {verb}")


def _help(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    for text in (parser.description, parser.epilog):
        if text:
            yield f"  {name}: {' '.join(text.split())}"
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            yield f"  {name} {_argument(action)}"
    for word, child in subparsers(parser):
        yield from _help(child, f"{name} {word}")


def _argument(action: argparse.Action) -> str:
    facts = {
        "metavar": action.metavar,
        "nargs": action.nargs,
        "choices": None if action.choices is None else sorted(map(str, action.choices)),
        "default": action.default if isinstance(action.default, PLAIN) else "…",
        "required": action.required if action.option_strings else None,
    }
    told = ", ".join(f"{name} {fact!r}" for name, fact in facts.items() if fact is not None)
    kept = action.help == argparse.SUPPRESS
    sentence = "not shown" if kept else " ".join(sentence_of(action).split())
    return f"{'/'.join(action.option_strings) or action.dest} ({told}): {sentence}"


PLAIN: Final = (str, int, float, bool, list, tuple, type(None))
Maker = Callable[[], Mapping[str, list[str]]]
MAKERS: Final[Mapping[str, Maker]] = {
    "complaints": lambda: {"complaints.jsonl": list(bad_inputs.complaints())},
    "help": lambda: {"help.txt": list(help_of_verbs())},
    "outside": outside.golden,
}


def differences(name: str, lines: list[str]) -> list[str]:
    """How a golden file differs from these lines, shortened; empty where it does not."""
    path = FOLDER / name
    kept = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if kept == lines:
        return []
    said = [f"tests/golden/{name} (-) and today (+):"]
    matcher = difflib.SequenceMatcher(None, kept, lines, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag != "equal":
            was, now = kept[start:end], lines[other_start:other_end]
            said += _beside(start + 1, was, now)
    more = len(said) - MOST_SHOWN
    return [*said[:MOST_SHOWN], *([f"… and {more} lines more"] if more > 0 else []), RENEW]


def _beside(number: int, was: list[str], now: list[str]) -> Iterator[str]:
    """Lines that changed, each from shortly before its first difference on."""
    for offset, (old, new) in enumerate(itertools.zip_longest(was, now, fillvalue="")):
        pairs = enumerate(zip(old, new, strict=False))
        same = next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))
        begin = max(0, same - SHOWN_BEFORE)
        for mark, line in (("-", old), ("+", new)):
            if line:
                part = line[begin : begin + LONGEST_SHOWN]
                yield f"{number + offset}{mark} {'…' if begin else ''}{part}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.golden", description=__doc__)
    parser.add_argument("makers", nargs="*", metavar="MAKER", help=f"only: {', '.join(MAKERS)}")
    options = parser.parse_args()
    for maker in options.makers or MAKERS:
        for name, lines in MAKERS[maker]().items():
            changed = differences(name, lines)
            (FOLDER / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
            sys.stdout.write("\n".join(changed[:-1] or [f"{name}: as it was"]) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
