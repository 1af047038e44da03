"""``edged profile lint``: everything that is wrong in profiles, as ``file:line:column: …``.

Without a name, all of PROFILE_DIRS. Exit status 1 where there is an error; warnings alone leave it
at 0. ``--resolved`` prints a profile with what it inherits.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from edged.cli.profile.library import Chosen, choose
from edged.cli.shared.options import add_config_options, load
from edged.cli.shared.output import print_json
from edged.host import ExitStatus
from edged.profiles.authoring.lint import Finding, lint_profile
from edged.profiles.loading import resolved_text


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged profile lint", description=__doc__)
    parser.add_argument("what", nargs="*", help="profile keys, files or directories")
    parser.add_argument(
        "--resolved", action="store_true", help="print the profiles with what they inherit"
    )
    add_config_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(arguments)
    chosen = choose(options.what, load(options).config)
    if options.resolved:
        for profile in chosen.profiles:
            sys.stdout.write(resolved_text(Path(profile.source_path)))
        return ExitStatus.OK if not chosen.complaints else ExitStatus.FAILED
    findings = findings_of(chosen)
    if options.json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        for finding in findings:
            print(finding.sentence)
        print(_summary(chosen, findings), file=sys.stderr)
    is_bad = any(finding.severity == "error" for finding in findings)
    return ExitStatus.FAILED if is_bad else ExitStatus.OK


def findings_of(chosen: Chosen) -> tuple[Finding, ...]:
    """What kept files from being loaded, and what lint says of the others."""
    refused = [
        Finding(
            path=complaint.path,
            line=complaint.line,
            column=complaint.column,
            severity="error",
            message=complaint.message,
            suggestion=complaint.remedy,
        )
        for complaint in chosen.complaints
    ]
    said = [f for profile in chosen.profiles for f in lint_profile(profile, chosen.library)]
    # A line of a family is found at each of its members.
    found = dict.fromkeys((*refused, *said))
    return tuple(sorted(found, key=lambda one: (one.path, one.line, one.column)))


def _summary(chosen: Chosen, findings: Sequence[Finding]) -> str:
    errors = sum(finding.severity == "error" for finding in findings)
    count = len(chosen.profiles)
    told = _counted(count, "profile")
    if not findings:
        return f"{told}, all clean"
    unread = len({complaint.path for complaint in chosen.complaints})
    if unread:
        files = f"{_counted(unread, 'file')} that cannot be read yet"
        told = f"{told} and {files}" if count else files
    told += f", {_counted(errors, 'error')}, {_counted(len(findings) - errors, 'warning')}"
    more = "\nA file may have more errors: run lint again when it can be read."
    return told + (more if unread else "")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
