"""Warehouse, landing and archive on an object store: a real S3 server, reached by reference to secrets."""

import json
from pathlib import Path

import pytest

from tests.fixtures.spark import BY_NIGHT
from tests.loader.installation import INTERPRETED, ITEM, SHOP, Installation, files_with, make_installation, working
from tests.services.object_store import ACCESS_KEY, BUCKET, JARS, SECRET_KEY, ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.takes(seconds=120)]

CONF = """
spark.hadoop.fs.s3a.endpoint {endpoint}
spark.hadoop.fs.s3a.endpoint.region us-east-1
spark.hadoop.fs.s3a.path.style.access true
spark.hadoop.fs.s3a.access.key {{{{ secret ELEVATA_SPARK_SECRET_ID }}}}
spark.hadoop.fs.s3a.secret.key {{{{ secret ELEVATA_SPARK_SECRET_KEY }}}}
spark.hadoop.fs.s3a.attempts.maximum 2
spark.hadoop.fs.s3a.retry.limit 2
"""
HISTORY = f"{ITEM}_hist"


@pytest.fixture
def store(tmp_path):
    store = ObjectStore(tmp_path / "buckets")
    yield store
    store.stop()


@pytest.fixture
def shop(tmp_path, store) -> Installation:
    conf = tmp_path / "spark.conf"
    conf.write_text(CONF.format(endpoint=store.endpoint) + ("" if BY_NIGHT else INTERPRETED.read_text()))
    return make_installation(
        tmp_path / "data",
        SHOP.replace("{{ data_dir }}/landing", f"s3a://{BUCKET}/landing"),
        {
            "ELEVATA_WAREHOUSE": f"s3a://{BUCKET}/tables",
            "ELEVATA_SOURCE_ROOTS": f"s3a://{BUCKET}/landing/",
            "ELEVATA_SPARK_CONF": str(conf),
            "ELEVATA_SPARK_JARS": str(JARS),
            "ELEVATA_SPARK_SECRET_ID": ACCESS_KEY,
            "ELEVATA_SPARK_SECRET_KEY": SECRET_KEY,
        },
    )


def deliver(store: ObjectStore, *rows: str) -> None:
    store.put("landing/item.csv", "\n".join(("id,name,price,colour", *rows)) + "\n")


def command_lines() -> str:
    return "".join(path.read_text(errors="replace") for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())


FIRST = ("1,Anvil,100,black", "2,Bell,7,", "3,Cup,12,red")
CHANGED = ("1,Anvil,110,black", "3,Cup,12,red")


def test_shop_on_an_object_store_is_loaded_renamed_and_historized(shop, store):
    deliver(store, *FIRST)
    with working(shop):
        shop.load("r1")
        assert shop.rows(ITEM, "id", "name") == [("1", "Anvil"), ("2", "Bell"), ("3", "Cup")]
        assert (store.folder / BUCKET / "tables").is_dir()
        assert SECRET_KEY not in command_lines()

        shop.edit_columns(ITEM, "edda", price={"name": "cost", "former_names": ["price"]})
        deliver(store, *CHANGED)
        shop.load("r2")
        assert shop.rows(ITEM, "id", "cost") == [("1", "110"), ("3", "12")]
        assert shop.rows(HISTORY, "id", "cost") == [("1", "100"), ("1", "110"), ("2", "7"), ("3", "12")]
    assert files_with(shop.folder, SECRET_KEY) == []


@pytest.mark.nightly
def test_load_survives_refusals_of_an_object_store_and_its_history_is_pruned_into_an_archive(shop, store):
    deliver(store, *FIRST)
    with working(shop):
        shop.load("r1")
        deliver(store, *CHANGED)
        with store.refusing(400, "ExpiredToken", after_writes=4):
            failed = json.dumps(shop.load("r2", status="failed"))
        assert "the credentials of the object store have expired" in failed
        shop.load("r2")
        assert shop.rows(ITEM, "id", "price") == [("1", "110"), ("3", "12")]
        assert len(shop.rows(HISTORY, "id")) == 4

        with store.refusing(403, "AccessDenied"):
            denied = json.dumps(shop.load("r3", status="failed"))
        assert "the object store refuses the credentials or the request" in denied
        assert "damaged" not in denied

        archive = f"s3a://{BUCKET}/archive/items"
        pruned = shop.json(
            *("prune_history", ITEM, "--older-than-days", "0", "--archive", archive, "--reason", "old"), by="aron"
        )
        assert pruned["datasets"][0]["counts"]["removed"] == 2
        assert list((store.folder / BUCKET / "archive" / "items").rglob("*.parquet"))
        assert len(shop.rows(HISTORY, "id")) == 2
    assert files_with(shop.folder, SECRET_KEY) == []
