"""Publications in a Hive metastore whose runner or worker is killed between two calls of the metastore.

The next run loads another dataset. Afterwards the metastore's own database has every name once, and a plain Spark
session reads the rows by them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.loader.installation import ITEM, SHOP, Installation, make_installation
from tests.loader.processes import wait_until
from tests.loader.runner.test_metastore import findings, read
from tests.loader.runs.test_source_deaths import killable_worker
from tests.services.metastore import Metastore, running_metastore

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.nightly, pytest.mark.takes(seconds=300)]

BADGE = "rawcore.rc_shop_badge"
DESCRIBED = (
    SHOP
    + """
    - name: badge
      location: badge.csv
      columns:
        - {name: id, type: integer, business_key: 1}
"""
)
VIEWS = {"history_policy": {"views": ["current", "as_of"]}}
OWN = ("", "_hist", "_hist_as_of", "_hist_current")


@dataclass
class Shop:
    """Installation that publishes in a metastore, with a runner that dies as the file ``death`` describes."""

    installation: Installation
    metastore: Metastore
    death: Path
    item: str = ITEM

    def die_before(self, call: str, after: int = 0, who: str = "runner") -> None:
        """Make a process die before a call of the metastore, after so many calls of this kind."""
        due = {"event": "catalog_call", "fields": {"call": call}, "after": after, "told": False, "who": who}
        self.death.write_text(json.dumps(due))

    def rename(self, name: str) -> None:
        self.installation.edit_columns(self.item, by="edda", facts={"name": name})
        self.item = f"rawcore.{name}"

    def load(self, run_id: str, dataset: str) -> None:
        """Load a dataset; a runner that dies when all rows are written does not fail the run."""
        self.installation.load(run_id, "--dataset", dataset)

    def check(self, run_id: str) -> None:
        """Load the other dataset, and compare the names in the metastore's database with those to publish."""
        assert not self.death.exists()
        assert findings(self.installation, "--check"), "nothing was left to publish"
        self.load(run_id, BADGE)
        assert findings(self.installation, "--check") == {}
        names = [entry["name"] for entry in json.loads(self.installation.run("catalog").stdout)]
        names.append(f"{self.item}_hist_as_of")
        assert self.metastore.stored() == sorted(names)
        assert {f"{self.item}{part}" for part in OWN} <= set(names)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with running_metastore() as metastore:
        made = make_installation(tmp_path / "data", DESCRIBED, servers=metastore.variables)
        made.edit_columns(ITEM, by="edda", facts=VIEWS)
        made.deliver(badge=("id", "1"))
        yield Shop(made, metastore, tmp_path / "death.json")


def test_next_run_completes_a_publication_that_was_killed_at_any_call(shop: Shop, tmp_path: Path):
    with killable_worker(shop.installation, shop.death):
        first_publication(shop)
        renames(shop)
        replaced_views(shop)
    publication_of_a_killed_worker(shop)
    names = (f"{shop.item}_hist_current", f"{shop.item}_hist_as_of(TIMESTAMP '2999-01-01')")
    counts = read(shop.metastore, tmp_path, *(f"SELECT count(*) FROM {name}" for name in names))
    assert counts == [[[3]], [[3]]]


def first_publication(shop: Shop) -> None:
    shop.die_before("createTable", after=2)
    shop.installation.load("first", "--all")
    shop.check("after-first")


def renames(shop: Shop) -> None:
    deaths = (("dropTable", 1), ("createTable", 0), ("createTable", 2), ("createFunction", 0))
    for number, (call, after) in enumerate(deaths):
        shop.rename(f"rc_shop_item_{number}")
        shop.die_before(call, after)
        shop.load(f"renamed-{number}", shop.item)
        shop.check(f"after-rename-{number}")


def replaced_views(shop: Shop) -> None:
    """Kill between drop and creation of an entry, when its name is missing."""
    shop.installation.edit_columns(shop.item, by="edda", colour={"name": "shade"})
    shop.die_before("createTable")
    shop.load("changed", shop.item)
    shop.check("after-change")


def publication_of_a_killed_worker(shop: Shop) -> None:
    with killable_worker(shop.installation, shop.death):
        shop.rename("rc_shop_item_last")
        shop.die_before("createTable", after=1, who="worker")
        load = shop.installation.start("load", "--run-id", "lost", "--dataset", shop.item)
        wait_until(lambda: not shop.death.exists() or load.poll() is not None, 120)
    with killable_worker(shop.installation, shop.death):
        _, errors = load.communicate(timeout=120)
        assert load.returncode == 1, errors
        shop.check("after-lost")
        shop.load("lost", shop.item)
        assert findings(shop.installation, "--check") == {}
