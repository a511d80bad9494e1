"""Endpoints of a REST API as deliveries: from a real server to raw, rawcore and history."""

from dataclasses import replace

import pytest

from loader.domain.historization.detection import key_list_source
from loader.domain.manifest.loads import LoadManifest
from tests.loader.harness import Dataset, finished
from tests.loader.rest import api_server
from tests.loader.rest.api_server import RECORDS, Answer, ApiServer

pytestmark = pytest.mark.spark

DAY = "2024-01-0{}T00:00:00+00:00"


@pytest.fixture
def items(spark, tmp_path) -> Dataset:
    dataset = Dataset(spark, tmp_path, columns={"id": "integer", "name": "string"})
    dataset.prepare()
    return dataset


def manifest(items: Dataset, api: ApiServer, day: int, **options) -> LoadManifest:
    items.sequence += 1
    made = items.manifest(items.folder, at=DAY.format(day), run_id=f"{items.folder.name}:{day}")
    source = replace(api.source(**{"paging": "page", "path": "items"} | options), columns=made.raw[0].source.columns)
    return replace(made, raw=(replace(made.raw[0], source=source),))


def test_pages_are_loaded_to_history_and_the_run_is_repeated_without_a_request(items, api):
    api.routes["/items"] = api_server.by_number
    run = manifest(items, api, 1)
    status, events = items.attempt(run)
    assert status == "succeeded", events
    raw = finished(events, run.raw[0].dataset)
    assert (raw["counts"]["rows"], raw["counts"]["files"]) == (len(RECORDS), 4)
    assert items.current() == list(RECORDS)
    assert len(items.history()) == len(RECORDS)

    count = len(api.requests)
    status, _ = items.again(run)
    raw = finished(items.events, run.raw[0].dataset)
    assert (status, len(api.requests), raw["counts"]["rows"]) == ("succeeded", count, len(RECORDS))
    assert "without a request" in raw["warnings"][0]
    assert items.current() == list(RECORDS)


def test_a_page_that_fails_half_way_loads_nothing(items, api):
    api.routes["/items"] = api_server.by_number
    items.attempt(manifest(items, api, 1))
    api.routes["/items"] = lambda request: (
        Answer(b"<html>")
        if request.query["page"] == "3"
        else Answer.of({"items": [{"id": 9, "name": request.query["page"]}]})
    )
    run = manifest(items, api, 2)
    status, events = items.attempt(run)
    error = finished(events, run.raw[0].dataset)["error"]
    assert (status, error["code"]) == ("failed", "NOT_JSON")
    assert "page 3" in error["message"]
    assert items.current() == list(RECORDS)


def test_no_content_is_a_delivery_without_rows(items, api):
    api.serve("/items", Answer(status=204))
    run = replace(manifest(items, api, 1), allow_empty=True)
    status, events = items.attempt(run)
    assert (status, finished(events, run.raw[0].dataset)["counts"]["rows"]) == ("succeeded", 0)


@pytest.mark.nightly
def test_an_endpoint_has_its_key_list_at_another_path(spark, tmp_path, api):
    policy = {"input": "delta", "delete_detection": "key_list"}
    items = Dataset(spark, tmp_path, columns={"id": "integer", "name": "string"}, policy=policy)
    items.prepare()

    def load(day: int, rows: list[dict], keys: list[int]) -> tuple[str, dict]:
        api.serve("/items", Answer.of(rows))
        api.serve("/items/keys", Answer.of([{"id": key} for key in keys]))
        made = manifest(items, api, day, paging="none")
        (raw,) = made.raw
        options = {name: value for name, value in raw.source.options.items() if name != "path"}
        source = replace(raw.source, options=options)
        key_list = replace(key_list_source(source), location="items/keys")
        status, events = items.attempt(replace(made, raw=(replace(raw, source=source, key_list=key_list),)))
        return status, finished(events, raw.dataset)["counts"]

    load(1, [{"id": n, "name": "a"} for n in (1, 2, 3)], [1, 2, 3])
    status, counts = load(2, [{"id": 3, "name": "b"}], [2, 3])
    assert (status, counts["rows"], counts["keys"]) == ("succeeded", 1, 2)
    assert items.current() == [{"id": 2, "name": "a"}, {"id": 3, "name": "b"}]
