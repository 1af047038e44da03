"""``edged profile lint | new | import | test | docs | schema``: write profiles, and try them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from edged.cli.shared.output import print_schema
from edged.cli.shared.verb import CliVerb
from edged.host import ExitStatus

SCHEMA: Final = """\
``edged profile schema``: the JSON Schema of the profile format.

Written beside profiles as ``profile.schema.json`` it lets YAML editors complete and check them:
their first line is then ``# yaml-language-server: $schema=profile.schema.json``.
"""
VERBS: Final[Mapping[str, CliVerb]] = MappingProxyType(
    {
        "lint": CliVerb("profile_files:lint", "all faults, as file:line:column"),
        "new": CliVerb(
            "profile-new", "draft a profile from an instrument's answers", "edged_author"
        ),
        "import": CliVerb(
            "profile-import", "drafts of profiles from drivers for PyMeasure", "edged_author"
        ),
        "test": CliVerb(
            "profile-test", "send every query of a profile, and report", "edged_author"
        ),
        "docs": CliVerb("profile_files:docs", "a Markdown page for each profile"),
        "schema": CliVerb("profile:schema", "the JSON Schema of the format, for editors"),
    }
)


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="edged profile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:<8} {verb.sentence}" for name, verb in VERBS.items()),
    )
    parser.add_argument("verb", choices=VERBS, help="`edged profile VERB --help` says more")
    options = parser.parse_args(arguments[:1])
    return VERBS[options.verb].load()(arguments[1:])


def schema(arguments: Sequence[str]) -> int:
    """Run ``edged profile schema``; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged profile schema", description=SCHEMA)
    parser.add_argument("--output", type=Path, metavar="FILE", help="write it there instead")
    options = parser.parse_args(arguments)
    # Imported late: --help needs none of the grammar.
    from edged.profiles.format.schema import profile_schema

    print_schema(profile_schema(), options.output)
    return ExitStatus.OK
