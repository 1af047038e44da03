"""``edged VERB …``: finds the verb's module, loads it alone, and turns errors into exit statuses.

Nothing heavy is imported here: ``edged status`` in a script must cost little more than an
interpreter. docs/cli.md lists verbs and exit statuses.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from edged import __version__
from edged.cli.shared.verb import CliVerb
from edged.errors import EdgedError, ErrorCode
from edged.host import ExitStatus

VERBS: Final[Mapping[str, CliVerb]] = MappingProxyType(
    {
        "engine": CliVerb("engine", "run the engine: instruments, MCP endpoint, RPC"),
        "supervisor": CliVerb(
            "supervisor", "keep an engine running, and its port open to the network"
        ),
        "restart": CliVerb("restart", "restart --when-idle: when nothing is running"),
        "expose": CliVerb("expose", "show who can reach this bench"),
        "connect": CliVerb("connect", "print the configuration of an MCP client for this bench"),
        "open": CliVerb("open", "open the bench page in a browser"),
        "relay": CliVerb("relay", "run a public front of the relay"),
        "dev-issuer": CliVerb(
            "dev-issuer", "issue tokens for development; never in production", "edged_relay"
        ),
        "sim": CliVerb("sim", "run a simulated bench; edged sim fault NAME KIND adds a fault"),
        "status": CliVerb("status", "show the state of the running engine"),
        "instruments": CliVerb("instruments", "list the instruments it knows"),
        "scan": CliVerb("instruments:scan", "search the buses now, and list what is new"),
        "probe": CliVerb(
            "probe", "find out the connection settings of an instrument", "edged_author"
        ),
        "call": CliVerb("call", "call a tool: edged call TOOL key=value …"),
        "scpi": CliVerb("call:scpi", "send one SCPI line: edged scpi INSTRUMENT LINE"),
        "stream": CliVerb("stream", "measure at intervals: edged stream start | list | stop"),
        "sweep": CliVerb("sweep", "ramp a set-point: edged sweep start | status | stop"),
        "sequence": CliVerb(
            "sequence", "run a profile's sequence: edged sequence start | list | stop"
        ),
        "experiment": CliVerb(
            "experiment",
            "a whole measurement in one file: edged experiment check | start | watch",
            failed=ExitStatus.ERROR,
        ),
        "stop": CliVerb("stop", "make the whole bench safe, now"),
        "runs": CliVerb("runs", "recorded data: edged runs list | show | export"),
        "audit": CliVerb("audit", "the audit log: edged audit list | follow | verify | export"),
        "lockout": CliVerb("lockout", "refuse writes to an instrument while somebody works on it"),
        "approve": CliVerb(
            "approve", "approve a call that waits for a person; without ID: list them"
        ),
        "deny": CliVerb("approve:deny", "deny a call that waits for a person"),
        "lease": CliVerb("lease", "reserve instruments: edged lease list | reserve | release"),
        "trace": CliVerb("instruments:trace", "the last exchanges on an instrument's line"),
        "profile": CliVerb(
            "profile", "write instrument profiles: lint | new | test | docs | schema"
        ),
        "bench": CliVerb("bench", "the limits that the bench file sets: edged bench show"),
        "doctor": CliVerb("doctor", "check everything, and say what to do"),
        "config": CliVerb("config", "show the configuration in force and its origins"),
        "completion": CliVerb("completion", "completion for bash and zsh"),
        "version": CliVerb("main:version", "print the version"),
    }
)

# What is not here is what the verb says: FAILED.
EXIT_STATUSES: Final[Mapping[ErrorCode, ExitStatus]] = MappingProxyType(
    {
        ErrorCode.BAD_CONFIG: ExitStatus.CONFIG,
        ErrorCode.NO_ENGINE: ExitStatus.UNAVAILABLE,
        ErrorCode.UNSUPPORTED_PLATFORM: ExitStatus.UNAVAILABLE,
        ErrorCode.BIND_FAILED: ExitStatus.UNAVAILABLE,
    }
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the entry point of the ``edged`` program."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _make_writable()
    try:
        status = _dispatch(words)
        sys.stdout.flush()
    except EdgedError as error:
        _complain(error, as_json="--json" in words)
        return EXIT_STATUSES.get(error.code, VERBS[words[0]].failed)
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough (`edged instruments | head -1`).
        _forget_output()
        return ExitStatus.FAILED
    except OSError as error:
        # What verbs do with files they tell themselves: what is left is their output (a full disk).
        _forget_output()
        place = error.filename or "standard output"
        print(f"edged: {place}: {error.strerror or error}", file=sys.stderr)
        return ExitStatus.FAILED
    except Exception as error:  # noqa: BLE001 - no traceback reaches a user
        print(f"edged: {_fault(error)}", file=sys.stderr)
        return ExitStatus.FAILED
    return status


def _fault(error: Exception) -> str:
    """A fault of ours in one line, with the place where it happened."""
    # Late: every verb would pay for it.
    import traceback
    from pathlib import Path

    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"this is a fault of edged {__version__}: {type(error).__name__}: {error} "
        f"({Path(place.filename).name}, line {place.lineno}). "
        "Please report it with what you called; is the engine of the same version (edged status)?"
    )


def _make_writable() -> None:
    """No output, and characters that it cannot carry, are no reason to fail.

    A program started with its output closed (``>&-``) has none at all; one that writes into a file
    on Windows has the machine's code page, in which there are no arrows.
    """
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """Python would complain when it flushes stdout at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in {"-h", "--help", "help"}:
        print(_help())
        return ExitStatus.OK if words else ExitStatus.USAGE
    if words[0] == "--version":
        words[0] = "version"
    verb = VERBS.get(words[0])
    if verb is None:
        return _unknown_verb(words[0])
    return verb.load()(words[1:])


def version(arguments: Sequence[str]) -> int:
    """Run ``edged version``; returns the exit status."""
    import argparse
    import platform

    parser = argparse.ArgumentParser(
        prog="edged version",
        description="``edged version``: the versions of this program, of Python and of the "
        "libraries it uses.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    if parser.parse_args(arguments).json:
        print(json.dumps({"edged": __version__, "python": platform.python_version()}, indent=2))
    else:
        print(f"edged {__version__} (Python {platform.python_version()})")
    return ExitStatus.OK


def _complain(error: EdgedError, *, as_json: bool) -> None:
    if as_json:
        told = {
            "code": error.code.value,
            "message": error.message,
            "remedy": error.remedy,
            "data": error.data,
        }
        print(json.dumps({"error": told}))
    for line in str(error).splitlines():
        print(f"edged: {line}", file=sys.stderr)


def _unknown_verb(word: str) -> int:
    # Imported late: difflib is for those who mistyped.
    import difflib

    near = difflib.get_close_matches(word, VERBS, n=1)
    hint = f"Did you mean `edged {near[0]}`?" if near else "`edged --help` lists the verbs."
    print(f"edged: there is no verb {word!r}. {hint}", file=sys.stderr)
    return ExitStatus.USAGE


def _help() -> str:
    lines = [
        f"edged {__version__}: the instruments of this bench as MCP tools",
        "",
        "usage: edged VERB [options]   (`edged VERB --help` for more)",
        "",
        *(f"  {name:<12} {verb.sentence}" for name, verb in VERBS.items()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
