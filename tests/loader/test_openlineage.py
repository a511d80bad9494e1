"""OpenLineage events of load runs, sent to a real endpoint."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from elevata.core.errors import MetadataError
from elevata.jobs import states
from elevata.notifications import services
from elevata.notifications.models import Delivery, DeliveryAttempt, Event, Webhook
from loader.models import CheckResult, DatasetRun, LoadRun
from loader.openlineage import events_of
from loader.services.loads.notices import tell_run_ended
from metadata.models import TargetDataset
from tests.elevata.notifications.deliveries import send_due
from tests.factories import WebhookFactory
from tests.loader.factories import STARTED, DatasetRunFactory, LoadRunFactory
from tests.loader.readers.rest.api_server import Answer, ApiServer

pytestmark = pytest.mark.django_db
KEY = "the key of the catalog"
NAMESPACE = "elevata.dev"
RAWCORE, HISTORY = "rawcore.rc_air_airport", "rawcore.rc_air_airport_hist"


@pytest.fixture
def endpoint(api: ApiServer, settings: Any, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    """Return an OpenLineage endpoint that takes every event, with an active webhook."""
    settings.WEBHOOK_ALLOW = ["127.0.0.0/8"]
    monkeypatch.setenv("ELEVATA_WEBHOOK_SECRET_TEAM", KEY)
    WebhookFactory(url=f"{api.url}/api/v1/lineage", format="openlineage", events=["load.ended"])
    api.serve("/api/v1/lineage", Answer.of({}, 201))
    return api


@pytest.fixture
def run(airport: TargetDataset) -> LoadRun:
    """Return a run that loaded airports into rawcore."""
    made = LoadRunFactory(run_id="r7")
    DatasetRunFactory(run=made, dataset=airport, started_at=STARTED, table_version_after=4)
    return made


@pytest.fixture
def events(endpoint: ApiServer) -> Callable[[LoadRun], list[dict]]:
    """Return a function that reports the end of a run and returns the events that the endpoint received."""

    def received(run: LoadRun) -> list[dict]:
        tell_run_ended(run.pk)
        assert send_due() == 1
        assert Delivery.objects.get().status == states.SUCCEEDED, DeliveryAttempt.objects.get().error
        return [json.loads(request.body) for request in endpoint.requests]

    return received


def load_ended(run: LoadRun) -> Event:
    return Event(kind="load.ended", subject_key=run.run_id, facts={"attempt": run.attempt})


def event_of(events: list[dict], job: str, state: str | None = "COMPLETE") -> dict:
    (event,) = [each for each in events if each["job"]["name"] == job and each.get("eventType") == state]
    return event


def test_a_load_run_is_the_parent_of_the_runs_of_its_datasets(events, run):
    received = events(run)
    whole, dataset = event_of(received, "load.all"), event_of(received, RAWCORE)
    assert dataset["run"]["facets"]["parent"]["run"]["runId"] == whole["run"]["runId"]
    assert (dataset["job"]["namespace"], whole["eventTime"]) == (NAMESPACE, "2026-11-21T08:00:12+00:00")


def test_start_and_end_events_of_a_run_share_one_id(events, run):
    received = events(run)
    for job in ("load.all", RAWCORE):
        assert event_of(received, job, "START")["run"]["runId"] == event_of(received, job)["run"]["runId"]


def test_output_dataset_has_schema_version_row_count_and_history(events, run):
    loaded, history = event_of(events(run), RAWCORE)["outputs"]
    types = {field["name"]: field["type"] for field in loaded["facets"]["schema"]["fields"]}
    assert types["elevation"] == "float"
    assert loaded["facets"]["version"]["datasetVersion"] == "4"
    assert loaded["outputFacets"]["outputStatistics"]["rowCount"] == 28130
    assert history["name"] == HISTORY


def test_column_lineage_names_the_input_columns(events, run):
    loaded = event_of(events(run), RAWCORE)["outputs"][0]
    (source,) = loaded["facets"]["columnLineage"]["fields"]["elevation"]["inputFields"]
    assert (source["namespace"], source["name"], source["field"]) == (NAMESPACE, "stage.stg_air_airport", "elevation")


def test_view_events_link_a_dataset_to_the_tables_behind_its_views(events, run):
    received = events(run)
    assert [each["name"] for each in event_of(received, RAWCORE)["inputs"]] == ["stage.stg_air_airport"]
    view = event_of(received, "stage.stg_air_airport", None)
    assert [each["name"] for each in view["inputs"]] == ["raw.raw_air_airport"]


def test_results_of_checks_are_assertions_on_the_loaded_dataset(events, run, airport):
    for name, kind, outcome, failed in (("ids", "unique", "passed", 0), ("names", "not_null", "warned", 3)):
        CheckResult.objects.create(
            run=run,
            environment=run.environment,
            dataset=airport,
            dataset_key=airport.key,
            dataset_name=str(airport),
            check_key=airport.key,
            check_name=name,
            kind=kind,
            severity="warn",
            outcome=outcome,
            failed=failed,
            total=10,
            samples=["secret value"],
            at=STARTED,
        )
    received = events(run)
    (checked,) = event_of(received, f"{RAWCORE}.checks")["inputs"]
    assertions = checked["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert [(each["name"], each["assertion"], each["success"]) for each in assertions] == [
        ("ids", "unique", True),
        ("names", "not_null", False),
    ]
    assert "secret value" not in json.dumps(received)


def test_a_failed_dataset_has_its_error_without_values(events, airport):
    error = {"code": "BAD_VALUE", "message": "3 values do not fit float", "samples": ["secret value"]}
    run = LoadRunFactory(status="failed", error={"code": "DATASETS_FAILED", "message": "1 of 1 datasets failed"})
    DatasetRunFactory(run=run, dataset=airport, started_at=STARTED, status=DatasetRun.Status.FAILED, error=error)
    received = events(run)
    facet = event_of(received, RAWCORE, "FAIL")["run"]["facets"]["errorMessage"]
    assert "3 values do not fit float" in facet["message"]
    assert "secret value" not in json.dumps(received)


def test_secret_is_sent_as_bearer_token(events, run, endpoint):
    events(run)
    assert {request.headers["authorization"] for request in endpoint.requests} == {f"Bearer {KEY}"}


def test_secret_that_is_invalid_in_a_header_is_neither_sent_nor_stored(endpoint, run, monkeypatch):
    monkeypatch.setenv(Webhook.objects.get().secret, f"{KEY}\nX-Other: 1")
    tell_run_ended(run.pk)
    send_due()
    (attempt,) = DeliveryAttempt.objects.values_list("error", flat=True)
    assert "no header can hold" in attempt
    assert KEY not in attempt
    assert endpoint.requests == []


def test_retry_after_a_refusal_resumes_with_the_refused_event(endpoint, run):
    endpoint.serve("/api/v1/lineage", Answer.of({}, 201), Answer.of({}, 503), Answer.of({}, 201))
    tell_run_ended(run.pk)
    send_due()
    assert (Delivery.objects.get().status, Delivery.objects.get().sent) == (states.QUEUED, 1)
    Delivery.objects.update(not_before=STARTED)
    send_due()
    assert Delivery.objects.get().status == states.SUCCEEDED
    bodies = [request.body for request in endpoint.requests]
    assert bodies[1] == bodies[2]
    assert len(set(bodies)) == len(bodies) - 1


def test_end_of_a_restarted_run_is_sent_only_after_its_last_attempt(endpoint, run):
    tell_run_ended(run.pk)
    LoadRun.objects.update(status=states.RUNNING, attempt=2)
    send_due()
    assert endpoint.requests == []
    LoadRun.objects.update(status=states.FAILED)
    tell_run_ended(run.pk)
    send_due()
    assert event_of([json.loads(request.body) for request in endpoint.requests], "load.all", "FAIL")


def test_the_number_of_queries_does_not_depend_on_the_number_of_datasets(
    run, airport, add_routes, django_assert_max_num_queries
):
    route = add_routes(airport)
    with django_assert_max_num_queries(12):
        list(events_of(load_ended(run)))
    DatasetRunFactory(run=run, dataset=route, started_at=STARTED)
    with django_assert_max_num_queries(12):
        list(events_of(load_ended(run)))


def test_webhook_test_sends_an_event_of_type_other(endpoint):
    services.send_test_event(webhook=services.Webhook.objects.get())
    send_due()
    (request,) = endpoint.requests
    assert json.loads(request.body)["eventType"] == "OTHER"


def test_openlineage_webhook_accepts_only_the_event_load_ended():
    with pytest.raises(MetadataError, match=r"load\.ended and no other event"):
        services.create_webhook(
            name="catalog",
            url="https://catalog.example.org/api/v1/lineage",
            format="openlineage",
            events=["load.failed"],
            secret="ELEVATA_WEBHOOK_SECRET_TEAM",
        )


def test_an_ended_run_creates_no_event_if_no_webhook_wants_it(run):
    tell_run_ended(run.pk)
    assert not Event.objects.exists()
