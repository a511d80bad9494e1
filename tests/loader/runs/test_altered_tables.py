"""Reads and exports by a real worker while another program with Spark alters the table, commit by commit.

Every commit sets all prices to one number or deletes one row, so rows of two versions in one answer would show.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elevata.bootstrap.places import SPARK_JARS
from tests.loader.installation import ITEM, Installation, make_installation, working

# Embedded stores, even if the session uses servers: each test has a data folder of its own.
pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.takes(seconds=150)]

OUTSIDE = Path(__file__).parents[2] / "readers" / "spark_rows.py"
ROWS, CHANGES = 3_000, 16
# Price and number of rows in each version.
STATES = {(0, ROWS)} | {(number, ROWS - number + left) for number in range(1, CHANGES + 1) for left in (1, 0)}
QUERY = f"""
SELECT (SELECT count(DISTINCT price) FROM {ITEM}) AS n, (SELECT max(price) FROM {ITEM}) AS price, count(*) AS c
FROM {ITEM}
"""
EXPORT = """
import csv, json
from elevata.jobs.waiting import follow_job
from loader.services.reads.exports import export_file
from loader.services.reads.read_requests import request_read
from metadata.models import TargetDataset
dataset = TargetDataset.objects.get(name="rc_shop_item")
read = follow_job(request_read(kind="export", dataset=dataset, arguments={"sort": "name"}).read)
rows = []
if read.status == "succeeded":
    with export_file(read).open(newline="") as file:
        rows = list(csv.DictReader(file))
print(json.dumps([read.error, len(rows), sorted({int(row["price"]) for row in rows})]))
"""


def statements(table: str) -> list[str]:
    """Return the statements of the other program."""
    commits = []
    for number in range(1, CHANGES + 1):
        if number % 5 == 0:
            changed = f"SELECT * EXCEPT (price), {number} AS price FROM {table}"
            commits.append(f"CREATE OR REPLACE TABLE {table} USING delta AS {changed}")
        else:
            commits.append(f"UPDATE {table} SET price = {number}")
        commits.append(f"DELETE FROM {table} WHERE id = {number}")
        if number % 4 == 0:
            commits.append(f"ALTER TABLE {table} ADD COLUMNS (extra_{number} STRING)")
    return commits


def export_prices(shop: Installation) -> tuple[int, int] | dict[str, Any]:
    """Return price and number of the rows of an export, or its error."""
    error, count, prices = json.loads(shop.shell(EXPORT).splitlines()[-1])
    if error:
        return error
    assert len(prices) == 1, f"an export has rows of several versions: {prices}"
    return prices[0], count


def query_prices(shop: Installation) -> tuple[int, int] | dict[str, Any]:
    """Return price and number of the rows of a query, or its error."""
    done = shop.run("sql", QUERY, "--format", "json")
    if done.returncode:
        return {"code": "SQL_FAILED", "message": done.stderr}
    (row,) = json.loads(done.stdout)
    assert row["n"] == 1, f"a query has rows of several versions: {row}"
    return row["price"], row["c"]


def test_reads_beside_another_program_have_rows_of_one_version(tmp_path: Path):
    shop = make_installation(tmp_path / "data")
    shop.deliver(item=("id,name,price,colour", *(f"{number},Item {number},0,red" for number in range(ROWS))))
    with working(shop):
        shop.load("one")
        places = {entry["name"]: entry["location"] for entry in json.loads(shop.run("catalog").stdout)}
        script = tmp_path / "statements.sql"
        script.write_text(";\n".join(statements(f"delta.`{places[ITEM]}`")))
        command = [sys.executable, str(OUTSIDE), str(SPARK_JARS), str(script), str(tmp_path / "outside")]
        outside = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        answers = []
        while outside.poll() is None:
            answers += [export_prices(shop), query_prices(shop)]
        _, errors = outside.communicate()
        assert outside.returncode == 0, errors
        last = [export_prices(shop), query_prices(shop)]
    states = [answer for answer in answers if isinstance(answer, tuple)]
    assert {answer["code"] for answer in answers if isinstance(answer, dict)} <= {"TABLE_MOVED", "SQL_FAILED"}
    assert set(states) <= STATES
    assert states == sorted(states, key=lambda state: (state[0], -state[1]))
    assert len(set(states)) > 2
    assert last == [(CHANGES, ROWS - CHANGES)] * 2
