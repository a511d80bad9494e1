"""The same tables on a standalone cluster, selected by SPARK_MASTER alone.

Nothing depends on the driver's machine.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.loader.processes import manage

pytestmark = [pytest.mark.spark, pytest.mark.servers]

CONTRACT = Path(__file__).parents[1] / "reference" / "cases" / "contract.json"
DEPLOY = "org.apache.spark.deploy"


class Cluster:
    """Spark master and workers, started by pyspark's own scripts."""

    def __init__(self, folder: Path):
        self._folder, self._started = folder, []
        folder.mkdir()
        self.master = self._master()
        for number in (1, 2):
            self._start(
                f"worker-{number}",
                *(f"{DEPLOY}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1"),
                *("--memory", "1g", "--work-dir", str(folder / f"work-{number}"), self.master),
            )
        self._wait_for("master", r"(?s)Registering worker.*Registering worker")

    def _master(self) -> str:
        self._start("master", f"{DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        return self._wait_for("master", r"Starting Spark master at (spark://\S+)").group(1)

    def _start(self, name: str, *command: str) -> None:
        import pyspark

        script = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with (self._folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                [str(script), *command],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1"},
            )
        self._started.append(process)

    def _wait_for(self, name: str, pattern: str) -> re.Match:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = re.search(pattern, (self._folder / f"{name}.log").read_text())
            if found:
                return found
            time.sleep(0.2)
        raise AssertionError((self._folder / f"{name}.log").read_text()[-2000:])

    def executors_ran(self) -> bool:
        return any((self._folder / f"work-{number}").glob("app-*/*") for number in (1, 2))

    def stop(self) -> None:
        for process in self._started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path / "cluster")
    yield cluster
    cluster.stop()


def test_the_contracts_cases_end_the_same_on_a_cluster(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_MASTER", cluster.master)
    done = manage(tmp_path / "data", "replay", str(CONTRACT), "--json", seconds=1200)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert {one["id"]: one["message"] for one in outcomes if not one["passed"]} == {}
    assert cluster.executors_ran()
