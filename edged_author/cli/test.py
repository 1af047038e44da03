"""``edged profile test KEY --address ADDRESS | --sim``: send each query of a profile, and report.

Only queries that are not dangerous are sent, each once, through the one command path: limits and
the owner's bench file hold. ``refused`` is an answer of the instrument itself, such as "no data
yet": the query is understood, and may need another state. Exit status 1 where one failed.

The report goes to the state directory, where list_profiles finds it as ``verified_on``.
"""

from __future__ import annotations

import argparse
import json
import math
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from edged import __version__
from edged.cli.profile_files import find_one
from edged.cli.shared.options import add_config_options, load, this_user
from edged.cli.shared.output import print_json, print_table, write_text
from edged.clock import Clock, SystemClock
from edged.config.load import LoadedConfig
from edged.errors import ErrorCode, Failed, Invalid
from edged.host import ExitStatus
from edged.profiles.authoring.verification import FOLDER, Trial, digest_of, report_name
from edged.profiles.model import Profile, head_of
from edged.scpi.errors import parse_error
from edged.scpi.kinds import ErrorKind
from edged.surfaces.rpc.client import RpcClient
from edged_author.cli.borrowing import (
    Borrowed,
    at_running_engine,
    borrowed,
    entry_for,
    errand_settings,
)
from edged_author.drafting import TrialQuestion, plan_trial
from edged_author.one_off_engine import errand_engine, registered

COLUMNS: Final = {
    "command": "command",
    "arguments": "arguments",
    "verdict": "verdict",
    "answer": "answer",
    "ms": "ms",
}
CALL_WITHIN_S: Final = 300.0
TAKEN_WITHIN_S: Final = 15.0
LOOK_EVERY_S: Final = 0.2
LONGEST_ANSWER: Final = 200
NAME: Final = "tried"


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged profile test", description=__doc__)
    parser.add_argument("profile", metavar="KEY", help="a profile's key, or its file")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--address", help="VISA address; alias, where a running engine has it")
    where.add_argument("--sim", action="store_true", help="the profile's own simulation")
    parser.add_argument("--report", type=Path, metavar="FILE", help="where the report goes")
    parser.add_argument("--by", default=this_user(), metavar="NAME", help="your name (this user)")
    add_config_options(parser, ["--state-dir"])
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    loaded = load(options)
    profile, directories = find_one(options.profile, loaded.config)
    trial = replace(_trial(options, loaded, profile, directories), by=options.by)
    path = options.report or loaded.config.state_dir / FOLDER / report_name(trial)
    if options.json:
        print_json(trial.as_json())
    else:
        print_table([{**r, "arguments": _words(r["arguments"])} for r in trial.results], COLUMNS)
        print(f"\n{_summary(trial)}\nreport: {path}")
    remedy = "Give another place with --report, or run this as the daemon's user."
    write_text(path, json.dumps(trial.as_json(), indent=1) + "\n", remedy)
    return ExitStatus.FAILED if trial.failed else ExitStatus.OK


def _trial(
    options: argparse.Namespace,
    loaded: LoadedConfig,
    profile: Profile,
    directories: Sequence[Path],
) -> Trial:
    clock = SystemClock()
    settings = {
        **errand_settings(loaded),
        "PROFILE_DIRS": [str(path.absolute()) for path in directories],
    }
    if options.sim:
        if profile.sim is None:
            raise Invalid(
                f"{profile.key} names no simulation.",
                remedy='Give it "sim", the name of a simulated instrument, or use --address.',
            )
        flags = ["--sim", "--instruments", f"{NAME}={profile.sim}"]
        if not profile.connection.asks_idn:
            flags += ["--profile", f"{NAME}={profile.key}"]
        with errand_engine(settings, clock=clock, arguments=flags) as client:
            known = registered(client, f"the simulation {profile.sim}", clock)
            there = Borrowed(client=client, known=known, is_running_engines=False)
            return _tried(there, profile, is_simulated=True)
    entry = entry_for(options.address, loaded.config, profile=profile.key)
    with borrowed(
        options.address, loaded, {**settings, "INSTRUMENTS": [entry]}, clock=clock
    ) as there:
        if there.is_running_engines:
            _await_taken(there.client, head_of(profile).files, clock)
            # It may be recognised by what was read only now.
            there = at_running_engine(options.address, loaded) or there
        return _tried(there, profile, is_simulated=False)


def _await_taken(client: RpcClient, files: Collection[str], clock: Clock) -> None:
    """Wait until the engine has read the profile's files as they are now.

    Raises:
        Failed: TIMEOUT, it does not.
    """
    changed_ms, newest = max((_changed_ms(Path(path)), path) for path in files)
    until_s = clock.monotonic() + TAKEN_WITHIN_S
    while _read_ms(client) < changed_ms:
        if clock.monotonic() >= until_s:
            raise Failed(
                f"The running engine has not read {newest} since it was changed.",
                code=ErrorCode.TIMEOUT,
                remedy="Is its directory one of the engine's PROFILE_DIRS? `edged status` tells "
                "what is wrong with profiles.",
            )
        threading.Event().wait(LOOK_EVERY_S)


def _read_ms(client: RpcClient) -> float:
    """When the engine read the profiles that are in force; one of another version may not say."""
    status = client.call_tool("get_status").value
    return float(status.get("profiles", {}).get("read_ms", math.inf))


def _changed_ms(path: Path) -> float:
    """When it was written or came to its place; of one that is gone 0."""
    try:
        status = path.stat()
    except OSError:
        return 0.0
    return max(status.st_mtime_ns, status.st_ctime_ns) / 1_000_000


def _tried(there: Borrowed, profile: Profile, *, is_simulated: bool) -> Trial:
    known = there.known
    if known["profile_name"] != profile.key:
        raise Failed(
            f"What answers at {known['address']} was recognised as "
            f"{known['profile_name'] or 'nothing'}, not as {profile.key}. {known['remark']}",
            code=ErrorCode.BAD_ANSWER,
            remedy="Look at the profile's match, or at INSTRUMENTS.",
        )
    results = tuple(_ask(there, question) for question in plan_trial(profile))
    counts = Counter(str(result["verdict"]) for result in results)
    return Trial(
        profile_key=profile.key,
        on=datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC).date().isoformat(),
        digest=digest_of(head_of(profile)),
        idn=", ".join(known[name] for name in ("manufacturer", "model", "serial", "firmware")),
        manufacturer=known["manufacturer"],
        model=known["model"],
        serial=known["serial"],
        firmware=known["firmware"],
        is_simulated=is_simulated,
        edged_version=__version__,
        passed=counts["ok"],
        refused=counts["refused"],
        failed=counts["failed"],
        skipped=counts["skipped"],
        results=results,
    )


def _ask(there: Borrowed, question: TrialQuestion) -> dict[str, Any]:
    told = {"command": question.command, "arguments": dict(question.arguments), "ms": None}
    if question.why_not:
        return {**told, "verdict": "skipped", "answer": question.why_not}
    asked = {
        "instrument_id": there.known["id"],
        "command_name": question.command,
        "parameters": dict(question.arguments),
    }
    answer = there.client.call_tool("execute_command", asked, timeout_s=CALL_WITHIN_S)
    result = answer.result if isinstance(answer.result, dict) else {}
    told["ms"] = result.get("execution_time_ms")
    if answer.error is None:
        return {**told, "verdict": "ok", "answer": _shown(result.get("data"))}
    return {**told, "verdict": _verdict(answer.error), "answer": str(answer.error["message"])}


def _verdict(error: Mapping[str, Any]) -> str:
    """An error of the instrument's own, but for "I do not know that command", is a refusal."""
    if error.get("code") != ErrorCode.INSTRUMENT_ERROR.value:
        return "failed"
    said = (error.get("data") or {}).get("errors", ())
    is_undefined = any(parse_error(ErrorKind.QUEUE, str(text)).is_undefined for text in said)
    return "failed" if is_undefined else "refused"


def _shown(data: Any) -> str:
    """An answer in short: of a block only what it is, not its bytes."""
    if isinstance(data, dict) and ("image" in data or "picture_id" in data):
        data = {"mime": data.get("mime"), "length": data.get("length")}
    text = data if isinstance(data, str) else json.dumps(data, default=str)
    return text if len(text) <= LONGEST_ANSWER else f"{text[: LONGEST_ANSWER - 1]}…"


def _words(arguments: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in arguments.items())


def _summary(trial: Trial) -> str:
    where = "its simulation" if trial.is_simulated else f"{trial.model} {trial.serial}".strip()
    return (
        f"{trial.profile_key} on {where} (firmware {trial.firmware or 'unknown'}): {trial.passed} "
        f"ok, {trial.refused} refused, {trial.failed} failed, {trial.skipped} skipped"
    )
