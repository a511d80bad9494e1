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

from tests.loader.installation import ITEM, Installation, make_installation
from tests.loader.processes import manage
from tests.loader.services.test_supervisor import wait_until

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

    def executors(self) -> list[int]:
        """Return the process ids of the executors that run now."""
        running = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                folder, command = (process / "cwd").readlink(), (process / "cmdline").read_bytes()
            except OSError:  # it has ended since
                continue
            if folder.is_relative_to(self._folder) and b"CoarseGrainedExecutorBackend" in command:
                running.append(int(process.name))
        return running

    def executors_ran(self) -> bool:
        return any((self._folder / f"work-{number}").glob("app-*/*") for number in (1, 2))

    def stop(self) -> None:
        for process in self._started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for executor in self.executors():
            os.kill(executor, signal.SIGKILL)
        self._started.clear()


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path / "cluster")
    yield cluster
    cluster.stop()


ROWS = 60_000


def big_shop(folder: Path, master: str) -> Installation:
    shop = make_installation(folder, servers={"SPARK_MASTER": master, "ELEVATA_DRIVER_MEMORY": "1g"})
    deliver(shop, "black")
    return shop


def deliver(shop: Installation, colour: str) -> None:
    shop.deliver(item=("id,name,price,colour", *(f"{n},Item {n},{n % 900},{colour}" for n in range(ROWS))))


def run_of(process: subprocess.Popen) -> dict:
    out, err = process.communicate(timeout=900)
    assert out, err
    assert "Traceback" not in err
    return json.loads(out)


def counts(run: dict) -> dict[str, int]:
    return next(row["counts"] for row in run["datasets"] if row["dataset"] == ITEM)


def test_a_load_goes_on_without_a_lost_executor(cluster, tmp_path):
    shop = big_shop(tmp_path / "data", cluster.master)
    load = shop.start("load", "--local", "--run-id", "one", "--json")
    wait_until(lambda: len(cluster.executors()) == 2, 120)
    time.sleep(15)  # into the load: the first job of a cluster takes longer to begin
    os.kill(cluster.executors()[0], signal.SIGKILL)
    run = run_of(load)
    assert (run["status"], counts(run)["new"]) == ("succeeded", ROWS)


@pytest.mark.nightly
def test_a_load_that_lost_its_cluster_goes_on_under_its_id_when_there_is_one(cluster, tmp_path):
    shop = big_shop(tmp_path / "data", cluster.master)
    load = shop.start("load", "--local", "--run-id", "one", "--json")
    wait_until(lambda: len(cluster.executors()) == 2, 120)
    time.sleep(15)
    cluster.stop()
    run = run_of(load)
    assert run["status"] == "failed"
    assert run["error"]["code"] in ("SPARK_STOPPED", "NO_EXECUTORS")
    other = Cluster(tmp_path / "other")
    try:
        shop.servers["SPARK_MASTER"] = other.master
        run = run_of(shop.start("load", "--local", "--run-id", "one", "--json"))
        assert run["status"] == "succeeded"
        assert shop.json("check_history", ITEM, "--local")["findings"] == 0
    finally:
        other.stop()


def test_the_contracts_cases_end_the_same_on_a_cluster(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_MASTER", cluster.master)
    done = manage(tmp_path / "data", "replay", str(CONTRACT), "--json", seconds=1200)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert {one["id"]: one["message"] for one in outcomes if not one["passed"]} == {}
    assert cluster.executors_ran()
