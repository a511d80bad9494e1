"""Endpoints of a REST API as deliveries: from a real server to raw, rawcore and history."""

from dataclasses import replace

import pytest

from loader.contract.manifest.loads import LoadManifest
from loader.domain.historization.detection import key_list_source
from tests.loader.harness import Dataset, finished
from tests.loader.readers.rest import api_server
from tests.loader.readers.rest.api_server import RECORDS, Answer, ApiServer

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
    inputs = tuple(replace(stage_input, options=source.options) for stage_input in made.rawcore[0].inputs)
    return replace(made, raw=(replace(made.raw[0], source=source),), rawcore=(replace(made.rawcore[0], inputs=inputs),))


@pytest.mark.core
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


def test_absent_keys_remain_open_if_pages_are_unproven_and_the_source_is_not_trusted(items, api):
    api.routes["/items"] = api_server.by_number
    items.attempt(manifest(items, api, 1, total_path="pages"))
    lacking = {"1": [{"id": 1, "name": "new"}, {"id": 8, "name": "n8"}], "3": list(RECORDS[1:])}
    api.routes["/items"] = lambda request: Answer.of({"items": lacking.get(request.query["page"])})
    run = manifest(items, api, 2)
    status, events = items.attempt(run)
    assert status == "succeeded", events
    assert "not proven complete" in finished(events, run.raw[0].dataset)["warnings"][0]
    assert "not closed" in finished(events, items.state.key)["warnings"][0]
    names = {row["id"]: row["name"] for row in items.current()}
    assert names == {row["id"]: row["name"] for row in RECORDS} | {1: "new", 8: "n8"}

    run = manifest(items, api, 3, complete="trusted")
    status, events = items.attempt(run)
    assert (status, finished(events, items.state.key)["warnings"]) == ("succeeded", [])
    assert [row["id"] for row in items.current()] == [1, 8]


@pytest.mark.nightly
def test_offset_paging_loads_each_record_of_a_server_that_limits_pages(items, api):
    sized = {"paging": "offset", "page_size": 5, "total_path": "total"}
    api.routes["/items"] = api_server.by_offset
    items.attempt(manifest(items, api, 1, **sized))

    def limited(request):
        start = int(request.query["offset"])
        return Answer.of({"items": RECORDS[start : start + 3], "total": len(RECORDS)})

    api.routes["/items"] = limited
    status, _ = items.attempt(manifest(items, api, 2, **sized))
    assert (status, items.current()) == ("succeeded", list(RECORDS))

    run = manifest(items, api, 3, **sized)
    api.routes["/items"] = lambda request: (
        Answer.of({"items": [], "total": 7}) if request.query["offset"] != "0" else limited(request)
    )
    status, events = items.attempt(run)
    assert (status, finished(events, run.raw[0].dataset)["error"]["code"]) == ("failed", "INCOMPLETE")
    assert items.current() == list(RECORDS)


def test_answer_without_content_is_loaded_as_no_rows(items, api):
    api.serve("/items", Answer(status=204))
    run = replace(manifest(items, api, 1), allow_empty=True)
    status, events = items.attempt(run)
    assert (status, finished(events, run.raw[0].dataset)["counts"]["rows"]) == ("succeeded", 0)


@pytest.mark.nightly
def test_endpoint_reads_its_key_list_from_another_path(spark, tmp_path, api):
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


@pytest.mark.nightly
def test_a_key_list_of_unproven_pages_closes_no_key(spark, tmp_path, api):
    policy = {"input": "delta", "delete_detection": "key_list"}
    items = Dataset(spark, tmp_path, columns={"id": "integer", "name": "string"}, policy=policy)
    items.prepare()

    def load(day: int, keys: list[int], **options: str) -> list[str]:
        api.routes["/items"] = api_server.by_number
        api.routes["/items/keys"] = lambda request: Answer.of(
            {"items": [{"id": key} for key in keys] if request.query["page"] == "1" else []}
        )
        made = manifest(items, api, day, **options)
        (raw,) = made.raw
        key_list = replace(key_list_source(raw.source), location="items/keys")
        status, events = items.attempt(replace(made, raw=(replace(raw, key_list=key_list),)))
        assert status == "succeeded", events
        return finished(events, raw.dataset)["warnings"]

    load(1, list(range(1, 8)), complete="trusted")
    assert "No key was closed" in " ".join(load(2, list(range(1, 7))))
    assert len(items.current()) == 7
