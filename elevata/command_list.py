"""List of all commands: those of the product first, each with a line."""

import re
import textwrap

import django
from django.core.management import get_commands, load_command_class

from elevata.core.installation import PACKAGES

_LONGEST = 90  # characters of a line's text
# Commands with which users begin, in the order in which they need them.
_FIRST = ("demo", "serve", "load", "plan", "sql")


def command_list(program: str) -> str:
    """Return the commands of the product with a line each, and the names of Django's and other packages' commands."""
    django.setup()
    commands = get_commands()
    ours = sorted(name for name, app in commands.items() if app.partition(".")[0] in PACKAGES)
    others = sorted(commands.keys() - {*ours})
    first = [name for name in _FIRST if name in ours]
    width = max(map(len, ours)) + 2
    lines = [f"Type '{program} help COMMAND' for the options of a command.", "", "Begin with:"]
    lines += [_line(name, commands[name], width) for name in first]
    lines += ["", "Other commands of elevata:"]
    lines += [_line(name, commands[name], width) for name in ours if name not in first]
    return "\n".join([*lines, "", "Commands of Django and packages:", f"  {', '.join(others)}"])


def _line(name: str, app: str, width: int) -> str:
    """Return the name of a command with the first sentence of its help."""
    text = " ".join(str(load_command_class(app, name).help).split())
    sentence = re.split(r"(?<=[.]) (?=[A-Z])", text)[0]
    return f"  {name:<{width}}{textwrap.shorten(sentence, _LONGEST, placeholder=' …')}"
