"""``edged completion bash | zsh``: a script for the shell that completes verbs, tools and names.

In ~/.bashrc: ``source <(edged completion bash)``; in ~/.zshrc likewise with zsh.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from edged.cli.options import add_engine_options, connect
from edged.errors import EdgedError
from edged.host import ExitStatus

__all__ = ["run"]

SUBVERBS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "audit": "list follow verify export",
        "stream": "start list stop",
        "runs": "list show export",
        "completion": "bash zsh",
    }
)
OPTIONS: Final = "--config --set --state-dir --json --timeout --help"
WITH_INSTRUMENT: Final = ("scpi", "lockout", "trace", "sweep")

BASH: Final = """_edged() {
  local current="${COMP_WORDS[COMP_CWORD]}" verb="${COMP_WORDS[1]}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="%(verbs)s"
  elif [[ "$current" == -* ]]; then
    words="%(options)s"
  elif [ "$COMP_CWORD" -eq 2 ]; then
    case "$verb" in
%(cases)s
      call) words="$(edged completion tools 2>/dev/null)" ;;
      %(instrument_verbs)s) words="$(edged completion names 2>/dev/null)" ;;
    esac
  fi
  # Names of instruments hold colons, which readline takes for the ends of words.
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ -z "$words" ]; then COMPREPLY=($(compgen -f -- "$current")); fi
  if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$current"; fi
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
    # The last two are what the scripts ask for while the user types.
    parser.add_argument("what", choices=("bash", "zsh", "tools", "names"))
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    match options.what:
        case "bash":
            print(_script(), end="")
        case "zsh":
            print("autoload -U +X bashcompinit && bashcompinit")
            print(_script(), end="")
        case _:
            _print_names(options)
    return ExitStatus.OK


def _script() -> str:
    # Here, because main finds this module by its table.
    from edged.cli.main import VERBS

    cases = "\n".join(f'      {verb}) words="{words}" ;;' for verb, words in SUBVERBS.items())
    return BASH % {
        "verbs": " ".join(VERBS),
        "options": OPTIONS,
        "cases": cases,
        "instrument_verbs": "|".join(WITH_INSTRUMENT),
    }


def _print_names(options: argparse.Namespace) -> None:
    """Nothing when no engine runs: a shell is no place for complaints."""
    try:
        client = connect(options)
        if options.what == "tools":
            names = [tool["name"] for tool in client.call("tools/list")["tools"]]
        else:
            rows = client.call_tool("instruments").result or []
            names = [row["alias"] or row["id"] for row in rows]
    except EdgedError:
        return
    print("\n".join(names))
