"""Loads of a REST API by a real worker: the example of the documentation, a kill between pages, a repeated run."""

import json
import os
import re
import signal
import threading
from pathlib import Path

import pytest
from django.conf import settings

from tests.loader.installation import Installation, files_with, make_installation, working
from tests.loader.processes import wait_until
from tests.loader.readers.rest.api_server import HERE, Answer, Request

pytestmark = [pytest.mark.spark, pytest.mark.takes(seconds=120), pytest.mark.nightly]

# The example of the documentation, with this server's address.
PAGE = (settings.BASE_DIR / "docs/use/sources.md").read_text()
EXAMPLE = re.search(r"## Load a REST API.*?```yaml\n(.*?)```", PAGE, re.DOTALL)[1]
BASE = "https://api.example.org"
ORDERS = "rawcore.rc_shop_orders"
TOKEN = "tok-correct-horse"


class Shop:
    """Orders of a shop behind a bearer token, paged by cursor. ``third`` is set when the third page is requested."""

    def __init__(self) -> None:
        self.count, self.third, self.go_on = 7, threading.Event(), threading.Event()

    def orders(self, request: Request) -> Answer:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return Answer.of({"error": "sign in"}, 401)
        start, size = int(request.query.get("after", 0)), int(request.query["limit"])
        if start == 2 * size:
            self.third.set()
            self.go_on.wait(60)
        end = min(start + size, self.count)
        orders = [
            {"id": number, "customer": {"name": f"c{number}"}, "amount": number / 4} for number in range(start, end)
        ]
        following = str(end) if end < self.count else None
        return Answer.of({"data": {"orders": orders}, "meta": {"next": following}})


@pytest.fixture
def shop(tmp_path, api) -> Installation:
    described = EXAMPLE.replace(BASE, api.url).replace("page_size: 500", "page_size: 2")
    servers = {"ELEVATA_SOURCE_HOSTS": ",".join(HERE), "ELEVATA_SOURCE_SHOP": TOKEN}
    return make_installation(tmp_path / "data", described, servers)


def landed_files(shop: Installation) -> list[Path]:
    return sorted((shop.folder / "landed").glob("*/*"))


def test_rest_load_completes_after_a_kill_and_a_repeated_run_sends_no_request(shop, api):
    orders = Shop()
    api.routes["/v1/orders"] = orders.orders
    with working(shop) as worker:
        run = shop.start("load", "--run-id", "r1")
        assert orders.third.wait(120)
        os.killpg(worker.pid, signal.SIGKILL)
        run.kill()
        run.communicate()
    assert [path.name for path in landed_files(shop)] == [".r1"]
    orders.go_on.set()

    with working(shop):
        runs: list[dict] = []
        wait_until(
            lambda: runs.append(shop.load("r1", status="")) or runs[-1]["status"] in ("succeeded", "failed"), 120
        )
        assert runs[-1]["status"] == "succeeded", runs[-1]
        assert [row[0] for row in shop.rows(ORDERS, "id")] == [str(number) for number in range(7)]
        assert shop.rows(ORDERS, "customer_name", "amount")[1] == ("c1", "0.25")
        assert [path.name for path in landed_files(shop)] == ["r1"]

        api.serve("/v1/orders", Answer.of({"data": {"orders": [{"id": "x", "customer": {"name": "c"}, "amount": 1}]}}))
        refused = shop.load("r2", status="failed")
        count = len(api.requests)
        again = shop.load("r2", status="failed")
        assert len(api.requests) == count
        assert "VALUE_DOES_NOT_FIT" in json.dumps(refused)
        assert "VALUE_DOES_NOT_FIT" in json.dumps(again)
        assert len(shop.rows(ORDERS, "id")) == 7
    assert files_with(shop.folder, TOKEN) == []


CHANGES = """
format: metadata/v1
system:
  short_name: crm
  name: CRM
  kind: rest
  location: {url}/v1
  datasets:
    - name: customer
      location: changes
      format: rest
      options: {{incremental_parameter: since}}
      intake: {{watermark: [changed_at], look_back: 1 hour}}
      history_policy: {{input: delta}}
      columns:
        - {{name: id, type: integer, business_key: 1}}
        - {{name: changed_at, type: timestamp}}
"""


# By day, tests/loader/readers/rest and tests/loader/engine/sources/test_marks.py cover the parts.
@pytest.mark.nightly
def test_endpoint_with_a_watermark_is_requested_from_the_mark_of_the_last_load(tmp_path, api):
    crm = make_installation(tmp_path / "data", CHANGES.format(url=api.url), {"ELEVATA_SOURCE_HOSTS": ",".join(HERE)})
    with working(crm):
        for run_id, changes in (
            ("r1", [{"id": 1, "changed_at": "2026-01-01T10:00:00Z"}, {"id": 2, "changed_at": "2026-01-01T12:00:00Z"}]),
            ("r2", [{"id": 1, "changed_at": "2026-01-03T08:30:00+02:00"}]),
            ("r3", []),
            ("r4", []),
        ):
            api.serve("/v1/changes", Answer.of(changes))
            crm.load(run_id)
        assert [request.query.get("since") for request in api.requests] == [
            None,
            "2026-01-01T11:00:00Z",
            "2026-01-03T05:30:00Z",
            "2026-01-03T05:30:00Z",
        ]
        times = crm.rows("rawcore.rc_crm_customer", "id", "changed_at")
        assert [(row[0], row[1][:19]) for row in times] == [("1", "2026-01-03 06:30:00"), ("2", "2026-01-01 12:00:00")]
