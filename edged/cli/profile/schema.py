"""``edged profile schema``: the JSON Schema of the profile format.

Written beside profiles as ``profile.schema.json`` it lets YAML editors complete and check them:
their first line is then ``# yaml-language-server: $schema=profile.schema.json``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from edged.cli.shared.output import print_schema
from edged.host import ExitStatus


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged profile schema", description=__doc__)
    parser.add_argument("--output", type=Path, metavar="FILE", help="write it there instead")
    options = parser.parse_args(arguments)
    # Imported late: --help needs none of the grammar.
    from edged.profiles.format.schema import profile_schema

    print_schema(profile_schema(), options.output)
    return ExitStatus.OK
