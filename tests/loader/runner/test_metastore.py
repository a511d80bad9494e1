"""Names published in a real Hive metastore, read there by a second, plain Spark session."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from tests.loader.installation import ITEM, Installation, make_installation, working
from tests.services.metastore import VERSION, Metastore, running_metastore

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.takes(seconds=120)]

READER = Path(__file__).parents[2] / "readers" / "metastore_rows.py"
HISTORY = f"{ITEM}_hist"
THING = "rawcore.rc_shop_thing"
ONE_APPROVAL = {"approvals": {"safe": {"count": 1, "role": "approver"}}}


@pytest.fixture
def metastore() -> Iterator[Metastore]:
    with running_metastore() as started:
        yield started


@pytest.fixture
def prefix() -> str:
    """Return the prefix of the published schemas."""
    return ""


@pytest.fixture
def shop(tmp_path: Path, metastore: Metastore, prefix: str) -> Iterator[Installation]:
    """Yield a shop whose history has views, with a worker that publishes in the metastore, before its first load."""
    made = make_installation(tmp_path / "data", servers=metastore.variables | {"ELEVATA_CATALOG_PREFIX": prefix})
    made.edit_columns(ITEM, by="edda", facts={"history_policy": {"views": ["current", "as_of"]}})
    with working(made):
        yield made


def read(metastore: Metastore, folder: Path, *queries: str) -> list[list[list]]:
    """Return the rows of queries in a plain Spark session on the metastore."""
    done = subprocess.run(
        [sys.executable, str(READER), settings.SPARK_JARS, metastore.uri, VERSION, metastore.client_jars]
        + [str(folder / "spark-warehouse"), *queries],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def findings(shop: Installation, *options: str) -> dict[str, str]:
    """Run ``publish``; return the problems that remain, or that ``--check`` lists, by name."""
    done = shop.run("publish", *options, "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == (1 if answer["findings"] else 0), done.stderr
    return {row["name"]: row["problem"] for row in answer["findings"]}


@pytest.fixture
def of_another_environment(metastore, tmp_path) -> str:
    """Return the location of a table that another environment published under a name of the shop."""
    place = f"{tmp_path}/prod"
    table = f"CREATE TABLE {ITEM} USING delta LOCATION '{place}' AS SELECT 'of another environment' AS text"
    read(metastore, tmp_path, "CREATE SCHEMA rawcore", table)
    return place


@pytest.mark.parametrize("prefix", ["dev_"])
def test_load_publishes_tables_and_views_beside_the_names_of_another_environment(
    shop, metastore, tmp_path, prefix, of_another_environment
):
    shop.load("r1", "--at", "2024-01-01")
    assert findings(shop, "--check") == {}
    names = [entry["name"] for entry in json.loads(shop.run("catalog").stdout)]
    *counts, other = read(
        metastore,
        tmp_path,
        *(f"SELECT count(*) FROM {prefix}{name}" for name in names),
        f"SELECT count(*) FROM {prefix}{HISTORY}_as_of(TIMESTAMP '2024-06-01')",
        f"SELECT text FROM {ITEM}",
    )
    assert {f"{ITEM}", HISTORY, f"{HISTORY}_current", "stage.stg_shop_item"} <= set(names)
    assert counts == [[[3]]] * (len(names) + 1)
    assert other == [["of another environment"]]


@pytest.mark.nightly
@pytest.mark.parametrize("prefix", ["dev_"])
def test_executed_rename_publishes_the_new_name_and_removes_the_former_one(
    shop, metastore, tmp_path, prefix, of_another_environment
):
    shop.load("r1", "--at", "2024-01-01")
    shop.allow(**ONE_APPROVAL)
    shop.edit_columns(ITEM, by="edda", facts={"name": THING.partition(".")[2]})
    report = shop.json("plan", by="edda")
    shop.json("approve", report["fingerprint"], "--note", "agreed", by="aron")
    preview = shop.json("preview", report["fingerprint"], by="aron")
    done = shop.json("execute", report["fingerprint"], "--preview", preview["fingerprint"], by="aron")
    assert done["status"] == "succeeded"
    assert findings(shop, "--check") == {}
    tables, rows, current, other = read(
        metastore,
        tmp_path,
        f"SHOW TABLES IN {prefix}rawcore",
        f"SELECT id, name FROM {prefix}{THING} ORDER BY id",
        f"SELECT count(*) FROM {prefix}{THING}_hist_current",
        f"SELECT text FROM {ITEM}",
    )
    assert other == [["of another environment"]]
    assert not [row for row in tables if row[1].startswith("rc_shop_item")]
    assert rows == [[1, "Anvil"], [2, "Bell"], [3, None]]
    assert current == [[3]]


@pytest.mark.nightly
def test_a_foreign_table_keeps_its_name_and_publishing_repairs_the_rest(shop, metastore, tmp_path):
    foreign = tmp_path / "foreign"
    read(
        metastore,
        tmp_path,
        "CREATE SCHEMA rawcore",
        f"CREATE TABLE {ITEM} USING delta LOCATION '{foreign}' AS SELECT 'not ours' AS text",
    )
    shop.load("r1")
    assert findings(shop) == {ITEM: "foreign"}
    read(metastore, tmp_path, f"DROP TABLE {HISTORY}", f"DROP VIEW {HISTORY}_current", f"DROP TABLE {ITEM}")
    assert findings(shop, "--check") == {ITEM: "missing", HISTORY: "missing", f"{HISTORY}_current": "missing"}
    assert findings(shop) == {}
    assert findings(shop, "--check") == {}
    assert (foreign / "_delta_log").is_dir()


def purge(metastore: Metastore, name: str) -> None:
    """Make the metastore delete the files of a table when its entry is dropped."""
    metastore.execute(
        'INSERT INTO "TABLE_PARAMS" SELECT "TBL_ID", %s, %s FROM "TBLS" WHERE "TBL_NAME" = %s',
        *("external.table.purge", "true", name.partition(".")[2]),
    )


@pytest.mark.nightly
def test_entries_of_others_in_a_published_schema_stay_and_no_drop_deletes_files(shop, metastore, tmp_path):
    shop.load("r1")
    location = next(entry["location"] for entry in json.loads(shop.run("catalog").stdout) if entry["name"] == ITEM)
    # Hive 4 stores the first one as an external table, in the folder of the schema, whose files a drop deletes.
    read(
        metastore,
        tmp_path,
        "CREATE TABLE rawcore.theirs USING delta AS SELECT 'not ours' AS text",
        "CREATE TABLE rawcore.materialized USING parquet AS SELECT 1 AS a",
        f"CREATE TABLE rawcore.former USING delta LOCATION '{location}'",
    )
    metastore.execute('UPDATE "TBLS" SET "TBL_TYPE" = %s WHERE "TBL_NAME" = %s', "MATERIALIZED_VIEW", "materialized")
    purge(metastore, ITEM)
    purge(metastore, "rawcore.former")
    assert findings(shop, "--check") == {ITEM: "outdated", "rawcore.former": "failed"}
    assert findings(shop) == {"rawcore.former": "failed"}
    assert {"rawcore.theirs", "rawcore.materialized"} <= set(metastore.stored())
    read(metastore, tmp_path, f"DROP TABLE {ITEM}")
    assert findings(shop) == {"rawcore.former": "failed"}
    theirs, ours = read(metastore, tmp_path, "SELECT text FROM rawcore.theirs", f"SELECT count(*) FROM {ITEM}")
    assert (theirs, ours) == ([["not ours"]], [[3]])


@pytest.mark.nightly
def test_load_commits_while_the_metastore_is_down_and_publish_adds_the_names_later(shop, metastore, tmp_path):
    metastore.server.kill()
    shop.load("r1")
    assert len(shop.rows(ITEM, "id")) == 3
    down = shop.json("publish", "--check", code=1)["error"]
    assert (down["code"], metastore.uri in down["message"]) == ("CATALOG_DOWN", True)
    metastore.server.start_again()
    assert "missing" in findings(shop, "--check").values()
    assert findings(shop) == {}
    assert read(metastore, tmp_path, f"SELECT count(*) FROM {ITEM}") == [[[3]]]
