"""Output of set-up: one line for each step or error; the rest is in a log file."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from elevata.bootstrap.places import LOG, ROOT, relative


class Problem(Exception):
    """Error with its reason and advice for the user."""

    def __init__(self, what: str, todo: str):
        super().__init__(f"{what} - {todo}")


def step(name: str, action: Callable[[], str]) -> None:
    """Run one step and print its line: name, result, duration."""
    started = time.monotonic()
    if sys.stdout.isatty():
        print(f"  {name} ...", end="\r", flush=True)
    result = action()
    # In one piece, since steps run side by side.
    print(f"  {name:<12} {result:<58} {time.monotonic() - started:6.1f} s\n", end="", flush=True)


def run(
    command: list[str | Path],
    *,
    failure: str,
    todo: str = "",
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a command quietly and return its output, which is logged.

    ``failure`` is the message if the command fails. Standard input is empty, so the command cannot prompt.
    """
    arguments = [str(word) for word in command]
    LOG.parent.mkdir(exist_ok=True)
    try:
        result = subprocess.run(
            arguments,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise Problem(failure, todo or f"{arguments[0]} could not be started: {error.strerror}") from error
    with LOG.open("a") as log:
        log.write(f"$ {' '.join(arguments)}\n{result.stdout}\n")
    if result.returncode != 0:
        raise Problem(f"{failure}: {_error_line(result.stdout)}", todo or f"all of it is in {relative(LOG)}")
    return result.stdout


def _error_line(output: str) -> str:
    """Return the line of a failed command's output that probably has the reason."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() and "complete log" not in line]
    return (errors or lines or ["it said nothing"])[-1][:300]
