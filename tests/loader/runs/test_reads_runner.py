"""A query of a viewer that takes all memory, beside a load, on the real engine."""

import json
from pathlib import Path

import pytest

from tests.loader.installation import ITEM, make_installation, working

# By day, tests/loader/runner/test_reads_runner.py tests the same without Spark.
pytestmark = [pytest.mark.spark, pytest.mark.nightly]

ROWS = 20_000
QUERY = f"""
SELECT length(concat_ws(',', collect_list(repeat(a.name, 3000)))) FROM {ITEM} a CROSS JOIN {ITEM} b
"""
ASK = """
import json
from pathlib import Path
from elevata.accounts.services.users import ensure_user
from elevata.jobs.models import Worker
from elevata.jobs.waiting import follow_job
from loader.services.reads.read_requests import request_query
read = follow_job(request_query({query!r}, 5, user=ensure_user(name="vera", roles=["viewer"])).read)
print(json.dumps([read.status, read.error, read.answer, Worker.objects.get().runner_pid]))
"""


@pytest.mark.takes(seconds=120)
def test_a_query_that_takes_all_memory_ends_no_load(tmp_path: Path):
    shop = make_installation(tmp_path / "data", servers={"ELEVATA_READS_MEMORY": "512m"})

    def ask(query: str) -> tuple:
        return tuple(json.loads(shop.shell(ASK.format(query=query)).splitlines()[-1]))

    with working(shop):
        shop.deliver(item=("id,name,price,colour", *(f"{number},Item {number},1,red" for number in range(ROWS))))
        shop.load("one")
        status, _, answer, loads_pid = ask(f"SELECT count(*) FROM {ITEM}")
        assert (status, answer["rows"]) == ("succeeded", [[ROWS]])
        shop.deliver(item=("id,name,price,colour", *(f"{number},Item {number},2,red" for number in range(ROWS))))
        loading = shop.start("load", "--run-id", "two", "--json")
        status, error, *_ = ask(QUERY)
        assert (status, error["code"]) == ("failed", "READS_ENDED"), error
        output, errors = loading.communicate(timeout=300)
        run = json.loads(output)
        assert (run["status"], run["attempt"]) == ("succeeded", 1), errors
        status, _, answer, pid = ask(f"SELECT min(price) FROM {ITEM}")
        assert (status, answer["rows"], pid) == ("succeeded", [[2]], loads_pid)
