"""Loads and requests on a file system of a few megabytes that is full.

DuckDB reads the tables afterwards; the expected rows are computed from the deliveries alone.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.loader.installation import ITEM, Installation, make_installation, working
from tests.services.small_disk import small_disk

# Embedded stores, even if the session uses servers: each test has a data folder of its own.
pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.takes(seconds=120)]

FEW, MANY = 100, 120_000
# The disk is filled after the sign-in, which writes a session.
REQUEST = """
import json
from django.test import Client
from elevata.accounts.services.users import user_named
from tests.elevata.web.forms import typed
client = Client(raise_request_exception=False, SERVER_NAME="localhost")
client.force_login(user_named("edda"))
form = typed(client.get("/systems/shop/edit/").content.decode(), name="Another shop")
with open("{filling}", "wb", buffering=0) as file:
    for size in (1 << 16, 1):
        try:
            while True:
                file.write(bytes(size))
        except OSError:
            pass
fields = dict(short_name="full", name="Full", kind="files", location="{{{{ data_dir }}}}/landing")
api = client.post("/api/v1/systems/", json.dumps(fields), content_type="application/json")
answers = [api, client.post("/systems/shop/edit/", form)]
print(json.dumps([[answer.status_code, answer.content.decode()] for answer in answers]))
"""


def rows_of(count: int, seed: int) -> list[tuple[int, str, int]]:
    """Return rows whose names no compression makes smaller."""
    chance = random.Random(seed)
    return [(key, f"{chance.getrandbits(512):x}", key) for key in range(count)]


def deliver(shop: Installation, rows: list[tuple[int, str, int]]) -> None:
    lines = (f"{key},{name},{price},red" for key, name, price in rows)
    shop.deliver(item=("id,name,price,colour", *lines))


def check(shop: Installation, rows: list[tuple[int, str, int]]) -> None:
    """Check the current rows and open versions in DuckDB, and the invariants of the history."""
    columns = "SELECT id, name, price FROM"
    queries = (f"{columns} {ITEM} ORDER BY id", f"{columns} {ITEM}_hist WHERE version_ended_at IS NULL ORDER BY id")
    for answer in shop.read_in_duckdb(*queries):
        assert [tuple(row) for row in answer] == rows
    shop.check_invariants()


def errors_of(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [part["error"] for part in run["datasets"] if part.get("error")]


def test_load_names_the_full_disk_of_the_warehouse_and_succeeds_after_room_was_made(tmp_path: Path):
    with small_disk(tmp_path / "disk", megabytes=12) as disk:
        shop = make_installation(tmp_path / "data", servers={"ELEVATA_WAREHOUSE": str(disk.folder / "warehouse")})
        with working(shop):
            before, after = rows_of(FEW, seed=1), rows_of(MANY, seed=2)
            deliver(shop, before)
            shop.load("one")
            deliver(shop, after)
            run = shop.load("two", status="failed")
            errors = errors_of(run)
            assert {error["code"] for error in errors} <= {"DISK_FULL", "INPUT_FAILED"}, run
            error = next(error for error in errors if error["code"] == "DISK_FULL")
            assert "no space is left on the disk" in error["message"]
            assert str(disk.folder) in error["message"]
            check(shop, before)
            disk.resize(megabytes=400)
            shop.load("two")
            check(shop, after)


def test_page_api_and_load_name_the_full_disk_of_the_control_database(tmp_path: Path):
    with small_disk(tmp_path / "disk", megabytes=60) as disk:
        shop = make_installation(disk.folder / "data", servers={"ELEVATA_WAREHOUSE": str(tmp_path / "warehouse")})
        filling = disk.folder / "filling"
        for status, text in json.loads(shop.shell(REQUEST.format(filling=filling)).splitlines()[-1]):
            assert (status, "No space is left on the disk of the control database" in text) == (503, True), text
        done = shop.run("load", "--local", "--run-id", "full")
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        assert "no space is left" in (done.stdout + done.stderr).lower(), done.stdout + done.stderr
