"""``edged profile docs``: a Markdown page for each profile, to be compared with its manual.

Pages go to standard output; ``--output DIR`` writes ``KEY.md`` for each into a directory, and
``index.md``, which lists them by class and maker with what was verified, on what and by whom.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from edged.cli.profile.library import choose
from edged.cli.shared.options import add_config_options, load
from edged.cli.shared.output import print_json, write_text
from edged.host import ExitStatus
from edged.profiles.authoring.checking import checking_section, library_lines, trial_lines
from edged.profiles.authoring.markdown import profile_markdown
from edged.profiles.authoring.verification import FOLDER, Trial, load_reports


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged profile docs", description=__doc__)
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
