"""Maintenance runs on the real engine, started by a user and performed by a worker."""

import json
from pathlib import Path

import pytest

from tests.loader.installation import Installation, working
from tests.loader.processes import make_folder

# Embedded stores, even if the session uses servers: the test has a data folder of its own.
pytestmark = pytest.mark.spark

ITEM = "rawcore.rc_shop_item"
SYSTEM = """
format: metadata/v1
system:
  short_name: shop
  name: Shop
  location: '{{ data_dir }}/landing'
  datasets:
    - name: item
      location: item.csv
      columns:
        - {name: id, type: integer, business_key: 1}
        - {name: name, type: string}
    - name: member
      location: member
      history_policy: {input: batch_files, time: _fivetran_start, unmodified_string: '<same>'}
      columns:
        - {name: id, type: integer, business_key: 1}
        - {name: label, type: string}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Installation:
    """Return an installation with an operator."""
    folder = tmp_path / "data"
    make_folder(folder)
    (folder / "landing").mkdir()
    made = Installation(folder)
    made.import_text(SYSTEM, by="")
    made.tokens["eve"] = made.json("create_user", "eve", "--role", "operator", "--token")["token"]
    return made


def run(shop: Installation, *arguments: str) -> tuple[int, dict]:
    done = shop.run(*arguments, "--json", by="eve")
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    return done.returncode, document


def load_right_and_wrong(shop: Installation) -> None:
    file = shop.folder / "landing" / "item.csv"
    file.write_text("id,name\n1,a\n2,b\n")
    assert run(shop, "load", "--at", "2024-01-01")[0] == 0
    file.write_text("id,name\n1,WRONG\n")
    code, loaded = run(shop, "load", "--at", "2024-01-05", "--run-id", "wrong")
    assert (code, len(loaded["datasets"])) == (0, 2)
    assert loaded["details"]["commits"]["name"] == "direct"


def revert(shop: Installation) -> None:
    code, reverted = run(shop, "revert_run", "wrong", ITEM, "--reason", "test data")
    assert (code, reverted["error"]) == (0, None)
    assert reverted["datasets"][0]["counts"] == {"versions": 2, "open": 2}
    versions = reverted["details"]["tables"][f"{ITEM}_hist"]
    assert versions["version_after"] == versions["version_before"] + 1


def maintenance_records(shop: Installation) -> list[tuple]:
    """Return kind, user and findings of each record, the newest first, and verify the chain."""
    records = json.loads(shop.run("maintenance_records", "--json").stdout)["records"]
    assert {record["document"]["commits"]["name"] for record in records} == {"direct"}
    assert shop.run("verify_audit").returncode == 0
    return [(record["document"]["kind"], record["document"]["requested_by"], record["findings"]) for record in records]


# By day, tests/loader/engine/maintenance/test_revert.py reverts, and the example of Fivetran starts a real worker.
@pytest.mark.nightly
def test_revert_is_recorded_and_leaves_a_valid_history(shop: Installation):
    with working(shop):
        load_right_and_wrong(shop)
        revert(shop)
        assert shop.run("check_history", ITEM).returncode == 0
    assert maintenance_records(shop) == [("revert", "eve", [])]


@pytest.mark.nightly
@pytest.mark.takes(seconds=40)
def test_batch_revert_and_prune_are_recorded_without_findings(shop: Installation):
    landing, item = shop.folder / "landing", ITEM
    with working(shop):
        load_right_and_wrong(shop)
        files = landing / "member.csv"
        files.write_text("id,label,_fivetran_start\n1,x,2024-01-01T00:00:00Z\n")
        code, batch = run(shop, "load_history_batch", "rawcore.rc_shop_member", "--upsert", str(files))
        assert (code, batch["datasets"][0]["counts"]["opened"]) == (0, 1)

        revert(shop)
        (landing / "item.csv").write_text("id,name\n1,A\n2,b\n")
        code, again = run(shop, "load", "--at", "2024-01-03")
        assert (code, again["datasets"][1]["counts"]["changed"]) == (0, 1)
        assert shop.run("check_history").returncode == 0

    # Without a worker, the command prunes in its own process.
    arguments = ("--ended-before", "2024-01-04", "--reason", "kept for a day")
    code, pruned = run(shop, "prune_history", item, *arguments, "--local")
    assert (code, pruned["datasets"][0]["counts"]) == (0, {"versions": 2, "open": 2, "removed": 1})

    assert maintenance_records(shop) == [("prune", "eve", []), ("revert", "eve", []), ("history_batch", "eve", [])]
