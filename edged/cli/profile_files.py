"""``edged profile lint`` and ``docs``, and which profiles they are about.

A verb is given keys, files or directories. Lint looks for clashes, and a family stands in another
file, so the profiles of PROFILE_DIRS are always read besides what is named.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from edged.cli.shared.options import add_config_options, load
from edged.cli.shared.output import print_json, write_text
from edged.config.load import Config
from edged.errors import ErrorCode, Invalid, NotFound
from edged.host import ExitStatus
from edged.profiles.authoring.checking import checking_section, library_lines, trial_lines
from edged.profiles.authoring.lint import Finding, lint_profile
from edged.profiles.authoring.markdown import profile_markdown
from edged.profiles.authoring.verification import FOLDER, Trial, load_reports
from edged.profiles.library import Complaint, ProfileLibrary
from edged.profiles.library_cache import read_library
from edged.profiles.loading import complaints_of, load_profile, resolved_text
from edged.profiles.model import Profile
from edged.record import record
from edged.schema.fields import nearest

LINT: Final = """\
``edged profile lint``: everything that is wrong in profiles, as ``file:line:column: …``.

Without a name, all of PROFILE_DIRS. Exit status 1 where there is an error; warnings alone leave it
at 0. ``--resolved`` prints a profile with what it inherits.
"""
DOCS: Final = """\
``edged profile docs``: a Markdown page for each profile, to be compared with its manual.

Pages go to standard output; ``--output DIR`` writes ``KEY.md`` for each into a directory, and
``index.md``, which lists them by class and maker with what was verified, on what and by whom.
"""


def lint(arguments: Sequence[str]) -> int:
    """Run ``edged profile lint``; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged profile lint", description=LINT)
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


def docs(arguments: Sequence[str]) -> int:
    """Run ``edged profile docs``; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged profile docs", description=DOCS)
    parser.add_argument("what", nargs="*", help="profile keys, files or directories (all)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="write KEY.md files there")
    add_config_options(parser, ["--state-dir"])
    parser.add_argument("--json", action="store_true", help="print {key: page} as JSON")
    options = parser.parse_args(arguments)
    config = load(options).config
    chosen = choose(options.what, config)
    reports = load_reports(config.state_dir / FOLDER)
    pages = {
        profile.key: profile_markdown(profile)
        + checking_section(profile)
        + _tried(reports.get(profile.key, ()))
        for profile in chosen.profiles
    }
    if options.json:
        print_json(pages)
    elif options.output is None:
        sys.stdout.write("\n".join(pages.values()))
    else:
        for key, page in pages.items():
            write_text(options.output / f"{key}.md", page)
        rows = library_lines(chosen.profiles, reports, page="{}.md")
        index = "\n".join(["# Profiles", *rows]) + "\n"
        write_text(options.output / "index.md", index)
        print(f"{len(pages)} pages in {options.output}")
    for complaint in chosen.complaints:
        print(f"edged: {complaint.sentence}", file=sys.stderr)
    return ExitStatus.FAILED if chosen.complaints else ExitStatus.OK


def _tried(trials: Sequence[Trial]) -> str:
    """On which units it was tried; nothing where it was on none."""
    if not trials:
        return ""
    return "\n## Tried on\n\n" + "\n".join(trial_lines(trials)) + "\n"


@record
class Chosen:
    """The profiles that were named, what is wrong with the others, and all that there are."""

    profiles: tuple[Profile, ...]
    complaints: tuple[Complaint, ...]
    library: ProfileLibrary


def choose(words: Sequence[str], config: Config) -> Chosen:
    """What the words name; everything in PROFILE_DIRS where there are none.

    Raises:
        NotFound: a word that is no file, no directory and no key.
    """
    library = read_library(config.profile_dirs, config.state_dir)
    if not words:
        return Chosen(
            profiles=tuple(library.profiles.values()),
            complaints=library.complaints,
            library=library,
        )
    profiles: dict[str, Profile] = {}
    complaints: list[Complaint] = []
    for word in words:
        path = Path(word)
        if path.is_dir():
            found = read_library([path], config.state_dir)
            profiles.update(found.profiles)
            complaints += found.complaints
        elif path.suffix in (".yaml", ".yml") or path.exists():
            _add_file(path, profiles, complaints)
        else:
            _add_key(word, library, profiles, complaints)
    everything = {**library.profiles, **profiles}
    return Chosen(
        profiles=tuple(profiles.values()),
        complaints=tuple(complaints),
        library=ProfileLibrary(profiles=everything, complaints=library.complaints),
    )


def find_one(word: str, config: Config) -> tuple[Profile, tuple[Path, ...]]:
    """One profile by key or file, and the directories from which an engine would take it.

    Raises:
        NotFound, Invalid: it is not there, or cannot be loaded.
    """
    path = Path(word)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return load_profile(path), (*config.profile_dirs, path.resolve().parent)
    library = read_library(config.profile_dirs, config.state_dir)
    profiles: dict[str, Profile] = {}
    complaints: list[Complaint] = []
    _add_key(word, library, profiles, complaints)
    if complaints:
        told = "\n".join(dict.fromkeys(complaint.sentence for complaint in complaints))
        raise Invalid(told, code=ErrorCode.BAD_PROFILE)
    return profiles[word], config.profile_dirs


def _add_file(path: Path, profiles: dict[str, Profile], complaints: list[Complaint]) -> None:
    try:
        profile = load_profile(path)
    except Invalid as error:
        complaints += complaints_of(error, path)
    else:
        profiles[profile.key] = profile


def _add_key(
    word: str,
    library: ProfileLibrary,
    profiles: dict[str, Profile],
    complaints: list[Complaint],
) -> None:
    broken = [c for c in library.complaints if Path(c.path).stem == word]
    if word in library.profiles:
        profiles[word] = library.profiles[word]
        return
    if broken:
        complaints += broken
        return
    raise NotFound(
        f"There is no profile {word!r} in PROFILE_DIRS, and no such file.",
        code=ErrorCode.BAD_PROFILE,
        remedy=f"{nearest(word, library.profiles)} `edged config` shows PROFILE_DIRS.".strip(),
    )
