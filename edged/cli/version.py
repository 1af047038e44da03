"""``edged version``: the versions of this program, of Python and of the libraries it uses."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence

from edged import __version__
from edged.cli.shared.output import print_json
from edged.host import ExitStatus


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged version", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(arguments)
    if options.json:
        print_json({"edged": __version__, "python": platform.python_version()})
    else:
        print(f"edged {__version__} (Python {platform.python_version()})")
    return ExitStatus.OK
