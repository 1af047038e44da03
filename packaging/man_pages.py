"""Manual pages from the command line's own parsers and the table of configuration keys.

    python packaging/man_pages.py DIRECTORY

``edged(1)``, one page for each verb, and ``edged.yaml(5)``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from edged import __version__
from edged.cli.main import VERBS
from edged.config.keys import KEYS

FILES: Final = (
    ("/etc/edged/edged.yaml", "configuration; see edged.yaml(5)"),
    ("/etc/edged/bench.yaml", "what the owner says about this bench's units"),
    ("/etc/edged/profiles, /usr/share/edged/profiles", "profiles: the owner's, and the shipped"),
    ("/var/lib/edged", "database, identity and recorded data of the service"),
    ("/usr/share/doc/edged", "documentation"),
)
STATUSES: Final = (
    ("0", "done"),
    ("1", "it did not succeed; the reason is on standard error"),
    ("2", "the command line cannot be understood"),
    ("69", "there is no engine, or the platform or a port cannot be used"),
    ("78", "the configuration cannot be used"),
    ("130", "interrupted"),
)


class Caught(Exception):
    """Carries a parser out of the verb that made it."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def main(words: list[str]) -> int:
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    directory = Path(words[0])
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "edged.1").write_text("".join(overview()))
    for verb in VERBS:
        (directory / f"edged-{verb}.1").write_text("".join(verb_page(verb)))
    (directory / "edged.yaml.5").write_text("".join(configuration()))
    return 0


def overview() -> Iterator[str]:
    yield head("EDGED", 1, "edged", "the instruments of a lab bench as MCP tools")
    yield ".SH SYNOPSIS\n.B edged\n.I verb\n.RI [ options ]\n"
    yield ".SH DESCRIPTION\n"
    yield plain(
        "edged finds the instruments of a lab bench and offers every command of theirs as a typed, "
        "limit-checked tool of the Model Context Protocol at http://127.0.0.1:8767/mcp. Sweeps and "
        "streams live in the daemon. As a service it runs as edged.service. Software is no "
        "interlock."
    )
    yield ".SH VERBS\n"
    for name, verb in VERBS.items():
        yield f".TP\n.B {escaped(name)}\n{plain(verb.sentence)}"
    yield ".PP\nEach has a manual page of its own:\n.BR edged-status (1)\nand so on.\n"
    yield ".SH FILES\n" + "".join(f".TP\n.I {escaped(a)}\n{plain(b)}" for a, b in FILES)
    yield ".SH EXIT STATUS\n" + "".join(f".TP\n.B {a}\n{plain(b)}" for a, b in STATUSES)
    yield ".SH SEE ALSO\n.BR edged.yaml (5)\n"


def verb_page(verb: str) -> Iterator[str]:
    parser = parser_of(verb)
    yield head(f"EDGED-{verb.upper()}", 1, f"edged-{verb}", VERBS[verb].sentence)
    yield from parser_sections(parser)
    for name, child in subparsers(parser):
        yield f".SH {escaped(name.upper())}\n{plain(usage(child))}"
        if child.description:
            yield ".PP\n" + plain(child.description)
        yield from options(child)
    yield ".SH SEE ALSO\n.BR edged (1),\n.BR edged.yaml (5)\n"


# Until Python 3.12 the intermixed ones ended in the others.
PARSES: Final = (
    "parse_args",
    "parse_known_args",
    "parse_intermixed_args",
    "parse_known_intermixed_args",
)


def parser_of(verb: str) -> argparse.ArgumentParser:
    """The parser that a verb makes when it is run."""

    def catch(self: argparse.ArgumentParser, *_: Any, **__: Any) -> NoReturn:
        raise Caught(self)

    kept = {name: getattr(argparse.ArgumentParser, name) for name in PARSES}
    for name in PARSES:
        setattr(argparse.ArgumentParser, name, catch)
    try:
        VERBS[verb].load()([])
    except Caught as caught:
        return caught.parser
    finally:
        for name, method in kept.items():
            setattr(argparse.ArgumentParser, name, method)
    raise SystemExit(f"`edged {verb}` parses no arguments, so it cannot be described.")


def parser_sections(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield ".SH SYNOPSIS\n" + plain(usage(parser))
    yield ".SH DESCRIPTION\n" + plain(parser.description or "")
    found = list(options(parser))
    if found:
        yield ".SH OPTIONS\n"
        yield from found
    if parser.epilog:
        yield ".SH NOTES\n" + plain(parser.epilog)


def subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                yield f".TP\n.B {escaped(choice.dest)}\n{plain(choice.help or '')}"
            continue
        if action.help == argparse.SUPPRESS:
            continue
        names = ", ".join(f"\\fB{escaped(name)}\\fR" for name in action.option_strings)
        value = escaped(value_name(action))
        label = f"{names} \\fI{value}\\fR".strip() if names else f"\\fI{value}\\fR"
        yield f".TP\n{label if value else names}\n{plain(sentence_of(action))}"


def sentence_of(action: argparse.Action) -> str:
    values = {**vars(action), "prog": "edged"}
    return (action.help or "") % values if "%" in (action.help or "") else action.help or ""


def value_name(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if action.choices is not None:
        return " | ".join(str(choice) for choice in action.choices)
    name = action.metavar or action.dest.upper()
    return name if isinstance(name, str) else " ".join(name)


def usage(parser: argparse.ArgumentParser) -> str:
    return re.sub(r"\s+", " ", parser.format_usage().removeprefix("usage: ")).strip()


def configuration() -> Iterator[str]:
    yield head("EDGED.YAML", 5, "edged.yaml", "configuration of edged")
    yield ".SH SYNOPSIS\n.I /etc/edged/edged.yaml\n.br\n.I /etc/edged/edged.yaml.d/*.yaml\n"
    yield ".SH DESCRIPTION\n"
    yield plain(
        "A YAML mapping of the keys below; drop-ins are read after it, by name. Over both stand "
        "environment variables (EDGED_ before the key) and flags (--set KEY=VALUE). It is read at "
        "the start: a change needs a restart. `edged config` shows what is in force and where it "
        "came from. An unknown key, a wrong type or a value out of range ends the start with "
        "status 78, naming file, line, key and the nearest key there is."
    )
    yield ".SH KEYS\n"
    for key in KEYS.values():
        default = key.default_text or ("" if callable(key.default) else shown(key.default))
        label = f".B {escaped(key.name)}"
        yield f".TP\n{label}\n{plain(key.sentence)}"
        if default:
            yield ".br\nDefault: " + plain(default.replace(" ¹", "")) + ""
    yield ".SH SEE ALSO\n.BR edged (1),\n.BR edged-config (1)\n"


def shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    return ""


def head(title: str, section: int, name: str, sentence: str) -> str:
    return (
        f'.TH {escaped(title)} {section} "" "edged {__version__}" "edged"\n'
        f".SH NAME\n{escaped(name)} \\- {escaped(sentence)}\n"
    )


def plain(text: str) -> str:
    """Paragraphs of running text; double backquotes become bold."""
    paragraphs = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    return "\n.PP\n".join(_bold(escaped(part)) for part in paragraphs if part) + "\n"


def _bold(text: str) -> str:
    text = re.sub(r"(``|`)(.+?)\1", r"\\fB\2\\fR", text)
    # A line that begins with a dot or a quote would be an instruction.
    return f"\\&{text}" if text[:1] in ".'" else text


def escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("→", "\\(->")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
