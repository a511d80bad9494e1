"""Engine processes, controlled from the main process."""

import json
import os
import subprocess
from pathlib import Path

from bench.problem import BenchProblem
from elevata.bootstrap.java import java_home
from elevata.bootstrap.places import ROOT


class Failed(Exception):
    """Failure of an engine, with its one-line message."""


class Worker:
    """Warm engine process as a context manager, which ends the process. Its output goes to ``log``."""

    def __init__(self, name: str, python: Path, log: Path, **start) -> None:
        self.name, self._log = name, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [python, "-m", "bench.processes.worker", name],
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
        """Send a request to the engine and return its answer; raise Failed with its message."""
        return self._ask({"do": do, "with": arguments})

    def close(self) -> None:
        """End the process and with it the JVM, whose standard input also closes."""
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
    """Return an environment in which Spark comes from the engine's own Python, whatever else is installed."""
    clean = {
        name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONPATH", "PYSPARK_PYTHON")
    }
    home = java_home()
    return clean | {"PYSPARK_PYTHON": str(python), "PYTHONUNBUFFERED": "1"} | ({"JAVA_HOME": home} if home else {})
