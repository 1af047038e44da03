"""``python -m edged`` is the ``edged`` program."""

import sys

from edged.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
