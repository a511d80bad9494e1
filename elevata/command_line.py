"""Entry point of every command: ``elevata COMMAND`` of an installed wheel, ``manage.py COMMAND`` of a checkout."""

import os
import sys

from elevata.bootstrap import command as bootstrap
from elevata.bootstrap.places import VENV
from elevata.core.installation import IS_INSTALLED, version

# Commands before which a wheel is set up, as ``make`` does it in a checkout: Java and jars, which a wheel cannot have.
_NEEDING_SET_UP = ("demo", "serve")
# Set for the processes that such a command starts.
_IS_SET_UP = "ELEVATA_IS_SET_UP"


def main() -> None:
    """Run the command of the arguments; ``setup`` and the version need no settings."""
    name = sys.argv[1] if len(sys.argv) > 1 else "help"
    if name in ("version", "--version"):
        print(version())
        return
    if name == "setup":
        sys.exit(bootstrap.main(sys.argv[1:]))
    if IS_INSTALLED and name in _NEEDING_SET_UP and not {"-h", "--help"} & {*sys.argv[2:]}:
        _set_up()
    _run_django_command()


def _set_up() -> None:
    # A user who may not write into the environment uses it as its owner has set it up.
    if os.environ.get(_IS_SET_UP) or not os.access(VENV, os.W_OK):
        return
    # Both commands migrate the database of their own data folder.
    if code := bootstrap.main(["setup", "--without", "database"]):
        sys.exit(code)
    os.environ[_IS_SET_UP] = "1"


def _run_django_command() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "elevata.settings")
    from django.core.management import execute_from_command_line

    from elevata.core.garbage_collection import collect_less

    collect_less()
    if sys.argv[1:] in ([], ["help"], ["--help"], ["-h"]):
        from elevata.command_list import command_list

        print(command_list(os.path.basename(sys.argv[0])))
        return
    execute_from_command_line(sys.argv)
