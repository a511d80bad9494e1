"""The engines' processes, seen from the process a person started."""

import json
import os
import subprocess
from pathlib import Path

from bench.problem import BenchProblem
from elevata.bootstrap.java import java_home
from elevata.bootstrap.places import ROOT


class Failed(Exception):
    """An engine could not do what it was asked; its own words, one line."""


class Worker:
    """A warm engine process; used as a context manager, its end is the end of the process.

    What it prints goes to ``log``.
    """

    def __init__(self, name: str, python: Path, log: Path, **start) -> None:
        self.name, self._log = name, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [python, "-m", "bench.worker", name],
                cwd=ROOT,
                env=_environment(python),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        try:
            self._ask(start)
        except BaseException:
            self.close()
            raise

    def ask(self, do: str, **arguments):
        """Have the engine do something; raises Failed with its reason."""
        return self._ask({"do": do, "with": arguments})

    def close(self) -> None:
        """End the process; the JVM follows, because its standard input ends too."""
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _ask(self, request: dict):
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise BenchProblem(f"the process of {self.name} ended unexpectedly: see {self._log}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["value"]


def _environment(python: Path) -> dict[str, str]:
    """Spark must be the one of the engine's own environment, whatever else the machine has set up."""
    clean = {
        name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONPATH", "PYSPARK_PYTHON")
    }
    home = java_home()
    return clean | {"PYSPARK_PYTHON": str(python), "PYTHONUNBUFFERED": "1"} | ({"JAVA_HOME": home} if home else {})
