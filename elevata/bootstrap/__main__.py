"""Entry point ``python3 -m elevata.bootstrap COMMAND``, called by the Makefile.

The version is checked before any other import, so that an old Python gets a message instead of a syntax error.
"""

import sys

MINIMUM = (3, 11)

if sys.version_info < MINIMUM:
    sys.exit(
        "setup: Python {}.{} is too old - install Python 3.11 or newer and name it: "
        "make setup PYTHON=python3.11".format(*sys.version_info[:2])
    )

from elevata.bootstrap.command import main  # noqa: E402 - only after the version check

sys.exit(main(sys.argv[1:]))
