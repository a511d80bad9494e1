"""The same tables on a standalone cluster, selected by SPARK_MASTER alone.

Nothing depends on the driver's machine.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.loader.installation import ITEM, Installation, make_installation
from tests.loader.processes import manage, wait_until
from tests.services.spark_cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.servers]

CONTRACT = Path(__file__).parents[1] / "reference" / "cases" / "contract.json"


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


def test_load_succeeds_after_the_loss_of_an_executor(cluster, tmp_path):
    shop = big_shop(tmp_path / "data", cluster.master)
    load = shop.start("load", "--local", "--run-id", "one", "--json")
    wait_until(lambda: len(cluster.executors()) == 2, 120)
    time.sleep(15)  # into the load: the first job of a cluster takes longer to begin
    os.kill(cluster.executors()[0], signal.SIGKILL)
    run = run_of(load)
    assert (run["status"], counts(run)["new"]) == ("succeeded", ROWS)


@pytest.mark.nightly
def test_load_that_lost_its_cluster_succeeds_if_repeated_on_another_cluster(cluster, tmp_path):
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


@pytest.mark.nightly
def test_history_cases_pass_on_a_cluster(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_MASTER", cluster.master)
    done = manage(tmp_path / "data", "replay", str(CONTRACT), "--json", seconds=1200)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert {outcome["id"]: outcome["message"] for outcome in outcomes if not outcome["passed"]} == {}
    assert cluster.executors_ran()
