"""``edged completion bash | zsh``: a script for the shell that completes what may be typed.

Verbs, their options and the values of these, tools and instruments. In ~/.bashrc:
``source <(edged completion bash)``; in ~/.zshrc likewise with zsh.

What a verb takes, read from its own help: so that completion never lags behind the parsers.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
from collections.abc import Sequence
from typing import Final

from edged.cli.shared.options import add_engine_options, connect
from edged.cli.shared.verb import CliVerb
from edged.errors import EdgedError
from edged.host import ExitStatus
from edged.record import record

OPTION: Final = re.compile(r"--[a-z][a-z-]*")
OPTION_CHOICES: Final = re.compile(r"\[?(--[a-z][a-z-]*) \{([^}]*)\}")
CHOICES: Final = re.compile(r"(?<![-\w] )\{([^}]*)\}")


@record
class Usage:
    """The usage line of a verb, taken apart.

    Attributes:
        subverbs: what may stand next, where that is a closed set.
        options: every option.
        choices: option → the values that it takes, where those are a closed set.
    """

    subverbs: tuple[str, ...]
    options: tuple[str, ...]
    choices: dict[str, tuple[str, ...]]


def usage_of(verb: CliVerb, words: Sequence[str] = ()) -> Usage:
    """The usage of a verb, below the subverbs ``words`` if it has such."""
    text = io.StringIO()
    with (
        contextlib.redirect_stdout(text),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        verb.load()([*words, "--help"])
    usage = " ".join(text.getvalue().partition("\n\n")[0].split())
    choices = {option: tuple(values.split(",")) for option, values in OPTION_CHOICES.findall(usage)}
    found = CHOICES.search(usage)
    return Usage(
        subverbs=tuple(found.group(1).split(",")) if found else (),
        options=tuple(dict.fromkeys([*OPTION.findall(usage), "--help"])),
        choices=choices,
    )


WITH_INSTRUMENT: Final = ("scpi", "lockout", "trace")

BASH: Final = """_edged() {
  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
  local verb="${COMP_WORDS[1]}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="%(verbs)s"
  elif [[ "$current" == -* || "$before" == --* ]]; then
    words="$(edged completion words "$verb" "x${COMP_WORDS[2]}" "x$before" "x$current" 2>/dev/null)"
  elif [ "$COMP_CWORD" -eq 2 ]; then
    case "$verb" in
      call) words="$(edged completion tools 2>/dev/null)" ;;
      %(instrument_verbs)s) words="$(edged completion names 2>/dev/null)" ;;
      *) words="$(edged completion words "$verb" 2>/dev/null)" ;;
    esac
  elif [ "$COMP_CWORD" -eq 3 ] && [[ " sweep sequence stream " == *" $verb "* ]]; then
    words="$(edged completion names 2>/dev/null)"
  fi
  # Names of instruments hold colons, which readline takes for the ends of words.
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ -z "$words" ]; then COMPREPLY=($(compgen -f -- "$current")); fi
  # Not `declare -F`, which is about numbers in zsh.
  if type __ltrim_colon_completions >/dev/null 2>&1; then __ltrim_colon_completions "$current"; fi
}
complete -F _edged edged
"""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="edged completion",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # The last three are what the scripts ask for while the user types.
    parser.add_argument("what", choices=("bash", "zsh", "tools", "names", "words"))
    parser.add_argument("typed", nargs="*", help=argparse.SUPPRESS)
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    match options.what:
        case "bash":
            print(_script(), end="")
        case "zsh":
            print("autoload -U +X bashcompinit && bashcompinit")
            print(_script(), end="")
        case "words":
            print("\n".join(_words(options.typed)))
        case _:
            _print_names(options)
    return ExitStatus.OK


def _script() -> str:
    # Here, because main finds this module by its table.
    from edged.cli.main import VERBS

    return BASH % {"verbs": " ".join(VERBS), "instrument_verbs": "|".join(WITH_INSTRUMENT)}


def _words(typed: Sequence[str]) -> tuple[str, ...]:
    """What may come after a verb: its subverbs, its options, or the values of the last option.

    Args:
        typed: the verb; then, behind an x each, so that our own parser takes none for an option:
            the word after it, the word before the present one, the present one.
    """
    from edged.cli.main import VERBS

    verb, second, before, current = (*typed, "", "", "", "")[:4]
    if verb not in VERBS:
        return ()
    usage = usage_of(VERBS[verb])
    if second[1:] in usage.subverbs:
        usage = usage_of(VERBS[verb], [second[1:]])
    if current.startswith("x-"):
        return usage.options
    if before.startswith("x--"):
        return usage.choices.get(before[1:], ())
    return usage.subverbs


def _print_names(options: argparse.Namespace) -> None:
    """Nothing when no engine runs: a shell is no place for complaints."""
    try:
        client = connect(options)
        if options.what == "tools":
            names = [tool["name"] for tool in client.call("tools/list")["tools"]]
        else:
            rows = client.call_tool("instruments").value
            names = [row["alias"] or row["id"] for row in rows]
    except EdgedError:
        return
    print("\n".join(names))
