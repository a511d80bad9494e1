"""Command of the product that kills itself before or after a chosen call.

ELEVATA_TEST_DEATH has JSON: ``call`` (``module:name``, also of a method), ``after`` (true to die when it has returned),
and ``due``, an expression that must be true; it may use ``calls``, the number of calls so far with this one, and
``arguments``, those of the call.
"""

import json
import os
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "elevata.settings")

import django
from django.core.management import execute_from_command_line


def arrange(call: str, due: str = "True", after: bool = False) -> None:
    module, _, path = call.partition(":")
    owner = import_module(module)
    *owners, name = path.split(".")
    for part in owners:
        owner = getattr(owner, part)
    real, calls = getattr(owner, name), 0

    def dying(*arguments, **more):
        nonlocal calls
        calls += 1
        is_due = eval(due, {"calls": calls, "arguments": arguments})
        if is_due and not after:
            die()
        result = real(*arguments, **more)
        if is_due:
            die()
        return result

    setattr(owner, name, dying)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()  # the signal is on its way


if __name__ == "__main__":
    django.setup()
    arrange(**json.loads(os.environ["ELEVATA_TEST_DEATH"]))
    execute_from_command_line(["manage.py", *sys.argv[1:]])
