"""``edged profile lint | new | import | test | docs | schema``: write profiles, and try them."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from edged.record import record

__all__ = ["run"]


@record(kw_only=False)
class ProfileVerb:
    """A verb of ``edged profile``: its module and its line in the help."""

    module: str
    sentence: str


VERBS: Final[Mapping[str, ProfileVerb]] = MappingProxyType(
    {
        "lint": ProfileVerb("edged.cli.profile.lint", "all faults, as file:line:column"),
        "new": ProfileVerb("edged.cli.profile.new", "draft a profile from an instrument's answers"),
        "import": ProfileVerb(
            "edged.cli.profile.importing", "drafts of profiles from drivers for PyMeasure"
        ),
        "test": ProfileVerb("edged.cli.profile.test", "send every query of a profile, and report"),
        "docs": ProfileVerb("edged.cli.profile.docs", "a Markdown page for each profile"),
        "schema": ProfileVerb(
            "edged.cli.profile.schema", "the JSON Schema of the format, for editors"
        ),
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
    status: int = importlib.import_module(VERBS[options.verb].module).run(arguments[1:])
    return status
