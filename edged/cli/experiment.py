"""``edged experiment``: check an experiment file, run it, follow its run and answer its questions.

FILE is a YAML file, or the name of one in EXPERIMENT_DIRS. RUN is the id of a run, or: last. The
run lives in the engine: Ctrl-C ends ``watch``, never the run. Exit statuses: 0 pass, marginal or
completed; 1 fail or incomplete; 2 the command line or the plan is wrong; 3 aborted, stopped or
interrupted; 4 an error.
"""

from __future__ import annotations

import argparse
import queue
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from edged.cli.shared import output
from edged.cli.shared.approval import call_telling
from edged.cli.shared.options import (
    WHEN,
    add_engine_options,
    connect,
    moment,
    parse_arguments,
)
from edged.errors import ErrorCode, Invalid, NotFound
from edged.host import ExitStatus
from edged.surfaces.rpc.client import RpcClient, ToolAnswer

CHECK: Final = "bench__check_experiment"
START: Final = "bench__start_experiment"
CONTROL: Final = "bench__control_run"
LAST: Final = "last"
KINDS: Final = ("map", "test", "log")
COLUMNS: Final = {
    "run_id": "run",
    "command_name": "experiment",
    "status": "status",
    "started": "started",
    "rows": "rows",
    "who": "who",
}
CONTROLS: Final = {
    "pause": "stop at the next step; what is on stays on",
    "resume": "continue a run that is paused, or was interrupted by a crash",
    "skip": "end the step that waits or settles, and go on",
    "abort": "end it; returns when its finally steps have run",
}
SHOWN: Final = ("run_id", "experiment", "state", "verdict", "done", "elapsed_s", "reason", "error")
OVER: Final = frozenset({"completed", "stopped", "failed", "interrupted"})
"""As in ``edged.runs.states``, which a light verb does not load."""
MOST_BYTES: Final = 1_000_000
"""Of a file: more than the engine takes, which says so."""
MOST_ROWS: Final = 10_000
"""Of the audit log, as the engine gives them at once."""
LOOK_EVERY_S: Final = 0.3
LINE_EVERY_S: Final = 2.0
CHECK_TIMEOUT_S: Final = 60.0
REHEARSAL_TIMEOUT_S: Final = 660.0
"""Longer than an engine gives a rehearsal."""
ABORT_TIMEOUT_S: Final = 3_600.0
"""As long as ``finally`` may take."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged experiment", description=__doc__)
    options = _add_verbs(parser).parse_args(arguments)
    try:
        if options.verb == "new":
            return _new(options)
        return VERBS[options.verb](connect(options), options)
    except Invalid as error:
        print(f"edged: {error}", file=sys.stderr)
        return ExitStatus.USAGE


def _add_verbs(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    verbs = parser.add_subparsers(dest="verb", required=True)
    check = verbs.add_parser("check", help="judge a plan as a whole; nothing is sent")
    rehearse = verbs.add_parser("rehearse", help="check a plan, and run it on simulated twins")
    start = verbs.add_parser("start", help="check a plan, run it, and follow the run")
    start.add_argument(
        "--detach", action="store_true", help="return at once; it continues in the engine"
    )
    new = verbs.add_parser("new", help="print a plan to begin with")
    new.add_argument("kind", nargs="?", choices=KINDS, default=KINDS[0], help="which (map)")
    for verb in (check, rehearse, start):
        verb.add_argument("file", metavar="FILE", help="a YAML file, or the name of a saved one")
        verb.add_argument("words", nargs="*", metavar="key=value", help="the plan's parameters")
    for verb in (check, rehearse, start, new):
        verb.add_argument(
            "--role",
            action="append",
            default=[],
            metavar="ROLE=UNIT",
            help="another unit for a role; may be repeated",
        )
    watch = verbs.add_parser("watch", help="follow a run; its questions are answered here")
    controls = [verbs.add_parser(name, help=said) for name, said in CONTROLS.items()]
    answer = verbs.add_parser("answer", help="answer the open question of a run")
    note = verbs.add_parser("note", help="write a note into a run, also when it is over")
    for verb in (watch, *controls, answer, note):
        verb.add_argument("run_id", metavar="RUN", help="its id, or: last, for the newest")
    answer.add_argument("value", metavar="VALUE", help="yes, no, pass, fail, a number or a text")
    answer.add_argument(
        "--question", type=int, metavar="N", help="only if this question is still open"
    )
    note.add_argument("value", metavar="TEXT")
    listing = verbs.add_parser("list", help="the newest runs first")
    listing.add_argument("--limit", type=int, default=50, help="at most this many (50)")
    history = verbs.add_parser(
        "from-history", help="print a draft of a plan, made from what was sent by hand"
    )
    history.add_argument("--since", required=True, metavar="WHEN", help=WHEN)
    history.add_argument("--until", metavar="WHEN", help="the same; now, unless it is given")
    history.add_argument("--unit", default="", help="only what was sent to this one")
    for verb in (new, history):
        verb.add_argument("--output", type=Path, metavar="FILE", help="write it there instead")
    for verb in (check, rehearse, start, watch, *controls, answer, note, listing, history):
        add_engine_options(verb)
    return parser


def _new(options: argparse.Namespace) -> int:
    # Late: the other verbs do not need the texts.
    from edged.experiments.examples import EXAMPLES

    text = EXAMPLES[options.kind]
    for role, unit in _roles(options).items():
        # All examples have their roles in one line.
        found = re.search(rf"(?m)^roles: .*\b{re.escape(role)}: (\w+)", text)
        if found is None:
            raise Invalid(f"The plan {options.kind} has no role {role}.")
        text = text[: found.start(1)] + unit + text[found.end(1) :]
    _give(text, options)
    return ExitStatus.OK


def _give(text: str, options: argparse.Namespace) -> None:
    """Print a plan, or write it where it is wanted.

    Raises:
        Invalid: that file is there already.
    """
    if options.output is None:
        print(text, end="")
    elif options.output.exists():
        raise Invalid(f"{options.output} exists already; it was not changed.")
    else:
        output.write_text(options.output, text)


def _from_history(client: RpcClient, options: argparse.Namespace) -> int:
    # Late: the other verbs do not need it.
    from edged.experiments.draft import SentTo, draft, role_of

    units: dict[str, SentTo] = {}
    for one in client.call_tool("instruments").value:
        names = (one["id"], one["alias"], one["serial"])
        if options.unit in ("", *names):
            asked = {"name": "get_capabilities", "arguments": {"instrument_id": one["id"]}}
            (found,) = client.call_tool("tools/call", asked).value
            commands = {command["name"]: command for command in found["commands"]}
            called, model = one["alias"], str(one["model"])
            units[one["id"]] = SentTo(
                role=role_of(called, model), called=called or one["id"], commands=commands
            )
    if options.unit and not units:
        raise Invalid(f"There is no instrument {options.unit!r}.")
    ends = {"since_ms": moment(options.since), "until_ms": moment(options.until)}
    wanted = {name: at for name, at in ends.items() if at is not None}
    rows = client.call("audit.list", {**wanted, "limit": MOST_ROWS})["rows"]
    if len(rows) == MOST_ROWS:
        print(f"edged: only the newest {MOST_ROWS} rows were read.", file=sys.stderr)
    text = draft(rows, units)
    if not text:
        raise Invalid("No command was sent by hand in that time.")
    checked = client.call_tool("tools/call", _call(CHECK, {"text": text})).value
    if options.json:
        output.print_json({"plan": text, **checked})
        return ExitStatus.OK if checked["ok"] else ExitStatus.USAGE
    _give(text, options)
    for problem in checked["errors"]:
        print(output.cell(_error_line(problem, "draft"), limit=2_000), file=sys.stderr)
    for place in checked.get("left_on", ()):
        print(f"edged: it leaves {place} on", file=sys.stderr)
    return ExitStatus.OK if checked["ok"] else ExitStatus.USAGE


def _check(client: RpcClient, options: argparse.Namespace) -> int:
    is_rehearsed = options.verb == "rehearse"
    wanted = {**_plan(options), **({"rehearse": True} if is_rehearsed else {})}
    answer = client.call_tool("tools/call", _call(CHECK, wanted), timeout_s=_within(options))
    if answer.error is not None:
        return _shown(answer, options)
    if options.json:
        output.print_json(answer.result)
    else:
        _print_checked(answer.result, options.file)
    if not answer.result["ok"]:
        return ExitStatus.USAGE
    rehearsal = answer.result.get("rehearsal")
    if rehearsal is None:
        return ExitStatus.OK
    if not options.json:
        _print_rehearsal(rehearsal)
    return status_of(rehearsal["result"])


def _print_rehearsal(rehearsal: Mapping[str, Any]) -> None:
    """What a run on twins came to."""
    told = rehearsal["result"]
    print("On simulated twins:")
    output.print_fields(
        {
            **{name: told.get(name) for name in SHOWN if told.get(name) is not None},
            "in the run's own time": _time(rehearsal["virtual_s"]),
            "units without a model": ", ".join(rehearsal["no_model"]),
            "interlocks left out": ", ".join(rehearsal["left_out"]),
        }
    )


def _start(client: RpcClient, options: argparse.Namespace) -> int:
    wanted = _call(CHECK, _plan(options))
    checked = client.call_tool("tools/call", wanted, timeout_s=_within(options))
    if checked.error is not None:
        return _shown(checked, options)
    told = checked.result
    if not options.json:
        _print_checked(told, options.file)
    elif not told["ok"]:
        output.print_json(told)
    if not told["ok"]:
        return ExitStatus.USAGE
    wanted = _call(START, {"plan_id": told["plan_id"]})
    started = call_telling(client, "tools/call", wanted, timeout_s=options.timeout)
    if started.error is not None or (options.detach and options.json):
        return _shown(started, options)
    run_id = started.result["run_id"]
    if options.detach:
        print(f"{run_id} runs; `edged experiment watch {run_id}` follows it")
        return ExitStatus.OK
    return _follow(client, run_id, is_quiet=options.json)


def _plan(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of a check.

    Raises:
        Invalid: there is no such file, or an option has no ``name=value``.
    """
    path = Path(options.file)
    is_file = path.is_file() or path.suffix or path.name != options.file
    source = {"text": _text(path)} if is_file else {"name": options.file}
    parameters = parse_arguments(options.words, None)
    return {**source, "roles": _roles(options), "parameters": parameters}


def _roles(options: argparse.Namespace) -> dict[str, str]:
    """Role → unit, as ``--role`` says.

    Raises:
        Invalid: one has another form.
    """
    roles: dict[str, str] = {}
    for word in options.role:
        role, _, unit = word.partition("=")
        if not role or not unit:
            raise Invalid(f"--role {word}: write ROLE=UNIT, such as gate=smu3.")
        roles[role] = unit
    return roles


def _text(path: Path) -> str:
    # Late: not every verb reads a file.
    from edged.yaml.file import read_text

    return read_text(path, MOST_BYTES)


def _call(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": tool, "arguments": dict(arguments)}


def _within(options: argparse.Namespace) -> float:
    usual_s = REHEARSAL_TIMEOUT_S if options.verb == "rehearse" else CHECK_TIMEOUT_S
    return float(options.timeout or usual_s)


def _print_checked(told: Mapping[str, Any], file: str) -> None:
    """What a plan does, or each of its errors as compilers print them."""
    if not told["ok"]:
        for problem in told["errors"]:
            print(output.cell(_error_line(problem, file), limit=2_000), file=sys.stderr)
        return
    points, duration = told["points"], told["duration_s"]
    output.print_fields(
        {
            "experiment": told["experiment"],
            "plan": told["plan_id"],
            **{f"role {role}": unit for role, unit in told["units"].items()},
            "points": points
            if isinstance(points, int)
            else f"{points['least']} to {points['most']}",
            "duration": f"{_time(duration['likely'])} (at most {_time(duration['most'])})",
            "columns": "; ".join(map(_column, told["columns"])),
            "asks a person": ", ".join(told["needs"]) or "no",
        }
    )
    for title, lines in (
        ("It sends these commands:", told["envelope"]),
        ("Only the run can tell:", told["later"]),
        ("It leaves on:", told["left_on"]),
    ):
        if lines:
            print(title)
            output.print_lines([f"  {line}" for line in lines])


def _error_line(problem: Mapping[str, Any], file: str) -> str:
    place = f"{file}:{problem['line']}:{problem['column']}" if problem["line"] else file
    where = f"{problem['path']}: " if problem["path"] else ""
    return f"{place}: {where}{problem['message']} {problem['remedy'] or ''}".rstrip()


def _column(column: Mapping[str, Any]) -> str:
    unit = f" ({column['unit']})" if column["unit"] else ""
    loops = f" over {', '.join(column['loops'])}" if column["loops"] else ""
    return f"{column['name']}{unit}{loops}"


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _watch(client: RpcClient, options: argparse.Namespace) -> int:
    return _follow(client, _run_id(client, options), is_quiet=options.json)


def _run_id(client: RpcClient, options: argparse.Namespace) -> str:
    """The run that is named.

    Raises:
        NotFound: UNKNOWN_RUN, there is none yet.
    """
    if options.run_id != LAST:
        return str(options.run_id)
    found = _runs(client, 1)
    if not found:
        raise NotFound("No experiment has run yet.", code=ErrorCode.UNKNOWN_RUN)
    return str(found[0]["run_id"])


def _runs(client: RpcClient, limit: int) -> list[dict[str, Any]]:
    asked = {"limit": limit, "kind": "experiment", "instrument": ""}
    found: list[dict[str, Any]] = client.call("runs.list", asked)["runs"]
    return found


def _control(client: RpcClient, options: argparse.Namespace) -> int:
    wanted = {"run_id": _run_id(client, options), "action": options.verb}
    for name in ("value", "question"):
        if getattr(options, name, None) is not None:
            wanted[name] = getattr(options, name)
    within = options.timeout or (ABORT_TIMEOUT_S if options.verb == "abort" else None)
    # A run whose approval is lost waits for another one.
    call = partial(call_telling, client) if options.verb == "resume" else client.call_tool
    return _shown(call("tools/call", _call(CONTROL, wanted), timeout_s=within), options)


def _shown(answer: ToolAnswer, options: argparse.Namespace) -> int:
    """Print an answer; a refusal is an error and no verdict."""
    status = output.show(answer, options, _print_end)
    return ExitStatus.ERROR if status == ExitStatus.FAILED else status


def _list(client: RpcClient, options: argparse.Namespace) -> int:
    found = _runs(client, options.limit)
    if options.json:
        output.print_json(found)
    elif found:
        rows = [{**run, "started": output.local_time(run["started_ms"])} for run in found]
        output.print_table(rows, COLUMNS)
    else:
        print("no experiment has run yet")
    return ExitStatus.OK


def _follow(client: RpcClient, run_id: str, *, is_quiet: bool) -> int:
    """Show how a run proceeds until it is over; returns its exit status."""
    try:
        told = _Follower(client, run_id, is_quiet=is_quiet).end()
    except KeyboardInterrupt:
        print(
            f"edged: {run_id} continues in the engine. `edged experiment watch {run_id}` follows "
            f"it, `edged experiment abort {run_id}` ends it.",
            file=sys.stderr,
        )
        return ExitStatus.INTERRUPTED
    if is_quiet:
        output.print_json(told)
    else:
        _print_end(told)
    return status_of(told)


def status_of(told: Mapping[str, Any]) -> ExitStatus:
    """The exit status of a run that is over."""
    state, verdict = told["state"], told["verdict"]
    if state == "failed" or verdict == "error":
        return ExitStatus.ERROR
    if state != "completed" or verdict == "aborted":
        return ExitStatus.STOPPED
    return ExitStatus.FAILED if verdict in {"fail", "incomplete"} else ExitStatus.OK


class _Follower:
    """Prints a line when something has changed, and asks the open question on a terminal.

    Args:
        is_quiet: nothing is printed, and nothing is asked.
    """

    def __init__(self, client: RpcClient, run_id: str, *, is_quiet: bool) -> None:
        self._client = client
        self._run_id = run_id
        self._is_quiet = is_quiet
        self._is_asking = not is_quiet and sys.stdin is not None and sys.stdin.isatty()
        self._typed: queue.SimpleQueue[str] | None = None
        self._asked = 0
        self._line = ""
        self._printed: dict[str, Any] = {}
        self._notes: list[str] = []
        self._tested = 0
        self._waited_s = 0.0

    def end(self) -> dict[str, Any]:
        """How the run ended.

        Raises:
            Failed: the engine, or the run, is gone.
        """
        pause = threading.Event()
        while True:
            told = self._status()
            if not self._is_quiet:
                self._draw(told)
            if told["state"] in OVER:
                return told
            if self._is_asking:
                self._ask(told["question"])
            pause.wait(LOOK_EVERY_S)
            self._waited_s += LOOK_EVERY_S

    def _status(self, **more: Any) -> dict[str, Any]:
        told: dict[str, Any] = self._client.call_tool(
            "tools/call", _call(CONTROL, {"run_id": self._run_id, **more})
        ).value
        return told

    def _draw(self, told: Mapping[str, Any]) -> None:
        for note in told["notes"]:
            if note not in self._notes:
                self._notes.append(note)
                print(f"{self._run_id}  note: {output.cell(note, limit=500)}", flush=True)
        for unit in (told.get("units") or ())[-1:]:
            key = f"{unit['unit']} try {unit['try']}"
            if self._printed.get("unit") != key:
                self._printed["unit"] = key
                print(f"{self._run_id}  {output.cell(key)}: {unit['verdict']}", flush=True)
        question = told["question"]
        if question and not self._is_asking and question["number"] != self._asked:
            self._asked = question["number"]
            print(f"{self._run_id}  {_how_answered(question, self._run_id)}", flush=True)
        line = line_of(told)
        is_news = told["state"] != self._printed.get("state") or question
        if line != self._line and (is_news or self._waited_s >= LINE_EVERY_S):
            self._line, self._waited_s = line, 0.0
            self._printed["state"] = told["state"]
            print(line, flush=True)

    def _ask(self, question: Mapping[str, Any] | None) -> None:
        """Show the question once; send what was typed since."""
        if question is None:
            return
        typed = self._lines()
        if question["number"] != self._asked:
            # What was typed before the question is no answer to it.
            while not typed.empty():
                typed.get()
            self._asked = question["number"]
            self._prompt(question)
        elif not typed.empty():
            self._send(question, typed.get())

    def _prompt(self, question: Mapping[str, Any]) -> None:
        print(
            f"{output.cell(question['text'], limit=500)} [{_choices(question)}]: ",
            end="",
            flush=True,
        )

    def _send(self, question: Mapping[str, Any], value: str) -> None:
        wanted = {"run_id": self._run_id, "action": "answer", "value": value}
        wanted["question"] = question["number"]
        answer = self._client.call_tool("tools/call", _call(CONTROL, wanted))
        if answer.error is not None:
            print(f"edged: {output.cell(answer.error.get('message'))}", file=sys.stderr, flush=True)
            self._prompt(question)

    def _lines(self) -> queue.SimpleQueue[str]:
        """What is typed, read by a thread: on Windows a terminal cannot be polled."""
        if self._typed is None:
            self._typed = queue.SimpleQueue()
            threading.Thread(target=_read, args=(self._typed,), name="typed", daemon=True).start()
        return self._typed


def _read(typed: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        typed.put(line.strip())


def _choices(question: Mapping[str, Any]) -> str:
    known = {"confirm": "yes/no", "pass_fail": "pass/fail", "number": "number", "text": "text"}
    return "/".join(question.get("options") or (known.get(question["type"], "text"),))


def _how_answered(question: Mapping[str, Any], run_id: str) -> str:
    """The question, and the verb that answers it."""
    said = f"{output.cell(question['text'], limit=500)} [{_choices(question)}]"
    return f"{said}  Answer it with: edged experiment answer {run_id} VALUE"


def line_of(told: Mapping[str, Any]) -> str:
    """One line for where a run stands."""
    done, total, question = told["done"], told["total"], told["question"]
    parts = [
        f"{told['run_id']}  {told['state']}",
        f"{done} of {total} rows" if total else f"{done} rows",
        ", ".join(f"{name} {place}" for name, place in told["loops"].items()),
        f"at {told['step']}" if told["step"] else "",
        f"asks {question['name']}" if question else "",
        f"about {_time(told['eta_s'])} left" if told["eta_s"] else "",
    ]
    return output.cell("  ".join(filter(None, parts)), limit=500)


def _print_end(told: Mapping[str, Any]) -> None:
    """How a run stands, or ended."""
    fields = {name: told[name] for name in SHOWN if told.get(name) is not None}
    question = told.get("question")
    if question:
        fields["question"] = _how_answered(question, told["run_id"])
    for unit in told.get("units") or ():
        failed = f" ({', '.join(unit['failed'])})" if unit["failed"] else ""
        fields[f"unit {unit['unit']}"] = f"{unit['verdict']}{failed}"
    if told.get("notes"):
        fields["notes"] = "; ".join(told["notes"])
    output.print_fields(fields)


VERBS: Final[Mapping[str, Callable[[RpcClient, argparse.Namespace], int]]] = {
    "check": _check,
    "rehearse": _check,
    "start": _start,
    "watch": _watch,
    "answer": _control,
    "note": _control,
    "list": _list,
    "from-history": _from_history,
    **dict.fromkeys(CONTROLS, _control),
}
