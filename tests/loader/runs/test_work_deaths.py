"""Loads of models, decisions on quarantined rows and compactions whose runner is killed, and that are repeated.

DuckDB reads the tables afterwards; the expected rows are computed from the deliveries alone.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.loader.installation import ITEM, Installation, make_installation
from tests.loader.processes import wait_until
from tests.loader.runs.test_source_deaths import killable_worker

# Embedded stores, even if the session uses servers: each test has a data folder of its own.
pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.takes(seconds=240)]

MODEL = """
format: metadata/v1
schemas:
  - {name: mart, layer: serving}
dataset:
  schema: mart
  name: prices
  select: SELECT id, price * 2 AS doubled FROM rawcore.rc_shop_item
  materialization: table
  increment: {by: changed_keys, input: rawcore.rc_shop_item, columns: {id: id}}
  columns:
    - {name: id, business_key: 1}
    - {name: doubled}
"""
CHECK = {
    "name": "prices are positive",
    "kind": "range",
    "arguments": {"columns": ["price"], "minimum": "0"},
    "severity": "quarantine",
}
# Loads request a compaction of the model's table, too.
STATUSES = f"""
import json
from loader.models import LoadRun
runs = LoadRun.objects.filter(kind="compact", scope__name="{ITEM}").order_by("pk")
print(json.dumps(list(runs.values_list("status", flat=True))))
"""
COMPACT = """
from loader.services.maintenance.compactions import request_compaction
from metadata.models import TargetDataset
assert request_compaction(dataset_key=str(TargetDataset.objects.get(name="rc_shop_item").key)) is not None
"""
KEY = "from metadata.models import TargetDataset; print(TargetDataset.objects.get(name='{name}').key)"
# Loads of smaller tables leave no deleted rows in their files (loader/engine/historization/difference.py).
MANY = 240_000
STARTED, PHASE, FINISHED = "dataset_started", "dataset_phase", "dataset_finished"


@dataclass
class Shop:
    """Installation with a worker whose runner dies as ``death`` describes, and its delivered prices."""

    installation: Installation
    death: Path
    prices: dict[int, int] = field(default_factory=dict)

    def deliver(self, prices: dict[int, int]) -> None:
        self.prices = prices
        lines = (f"{key},n{key},{price},red" for key, price in prices.items())
        self.installation.deliver(item=("id,name,price,colour", *lines))

    def die_at(self, event: str, after: int = 0, **fields: str) -> None:
        due = {"event": event, "fields": fields, "after": after, "told": False, "who": "runner"}
        self.death.write_text(json.dumps(due))

    def died(self, run: dict[str, Any]) -> bool:
        return (run["status"], run["error"]["code"], self.death.exists()) == ("failed", "RUNNER_DIED", False)

    def key(self, name: str) -> str:
        return self.installation.shell(KEY.format(name=name)).strip()

    def decide(self) -> dict[str, Any]:
        decision = ("decide_quarantine", ITEM, "release", "--reason", "confirmed", "--run-id", "released", "--json")
        done = self.installation.run(*decision, by="aron")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def check(self, expected: dict[int, int]) -> None:
        """Check current rows, open versions and the model in DuckDB, and the invariants of the history."""
        rows = [list(pair) for pair in sorted(expected.items())]
        answers = self.installation.read_in_duckdb(
            f"SELECT id, price FROM {ITEM} ORDER BY id",
            f"SELECT id, price FROM {ITEM}_hist WHERE version_ended_at IS NULL ORDER BY id",
            "SELECT id, doubled FROM mart.prices ORDER BY id",
        )
        assert answers == [rows, rows, [[key, price * 2] for key, price in rows]]
        self.installation.check_invariants()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(make_installation(tmp_path / "data"), tmp_path / "death.json")
    with killable_worker(made.installation, made.death):
        made.deliver({key: key for key in range(100)})
        # A check of this kind needs an approval once rows are loaded.
        made.installation.edit_columns(ITEM, by="edda", facts={"checks": [CHECK]})
        made.installation.import_text(MODEL, by="edda")
        made.installation.load("first")
        yield made


def test_repeated_work_after_a_kill_has_the_result_of_uninterrupted_work(shop: Shop):
    loads_of_a_model(shop)
    release_of_quarantined_rows(shop)
    compactions(shop)


def loads_of_a_model(shop: Shop) -> None:
    last = (FINISHED, {"dataset": shop.key("prices")})
    deaths = ((PHASE, {"phase": "computing"}), (PHASE, {"phase": "writing"}), last)
    for number, (event, fields) in enumerate(deaths, start=1):
        shop.deliver({key: key + number if key < 50 else key for key in range(100)})
        shop.die_at(event, **fields)
        assert shop.died(shop.installation.load(f"model-{number}", status=""))
        shop.installation.load(f"model-{number}")
        shop.check(shop.prices)


def release_of_quarantined_rows(shop: Shop) -> None:
    before = dict(shop.prices)
    shop.deliver(before | {7: -5})
    shop.installation.load("quarantined")
    shop.check(before)
    for event, fields in ((STARTED, {}), (PHASE, {"phase": "deciding"}), (FINISHED, {})):
        shop.die_at(event, **fields)
        assert shop.died(shop.decide())
    decided = shop.decide()
    assert (decided["status"], decided["datasets"][0]["counts"]) == ("succeeded", {"released": 1})
    shop.installation.load("after-release")
    shop.check(shop.prices)


def compactions(shop: Shop) -> None:
    shop.deliver(dict.fromkeys(range(MANY), 1))
    shop.installation.load("many")
    shop.die_at(PHASE, phase=f"compacting {ITEM}")
    shop.deliver(dict.fromkeys(range(MANY // 3), 1))
    shop.installation.load("many-deletes")
    wait_until(lambda: compacted(shop) == ["failed"], 240)
    for number, event in enumerate((STARTED, FINISHED), start=1):
        shop.die_at(event, dataset=shop.key("rc_shop_item"))
        shop.installation.shell(COMPACT)
        wait_until(lambda count=number + 1: compacted(shop) == ["failed"] * count, 240)
    assert not shop.death.exists()
    shop.check(shop.prices)
    shop.installation.shell(COMPACT)
    wait_until(lambda: compacted(shop)[3:] == ["succeeded"], 240)
    shop.installation.load("after-compaction")
    shop.check(shop.prices)


def compacted(shop: Shop) -> list[str]:
    return json.loads(shop.installation.shell(STATUSES))
