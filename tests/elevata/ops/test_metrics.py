"""/metrics: content, access, and a size that is independent of user-given names."""

import re
from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from elevata.accounts.services.tokens import create_token
from elevata.audit.models import ChainPending
from elevata.jobs.models import Worker
from elevata.ops import metrics
from loader.models import LoadRun
from tests.elevata.web.html import html_of
from tests.factories import SystemFactory, TargetDatasetFactory
from tests.loader.factories import DatasetRunFactory, LoadRunFactory

pytestmark = pytest.mark.django_db


def read(client: Client, **headers: str) -> dict[tuple[str, tuple], float]:
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.content[:200]
    values = {}
    for family in text_string_to_metric_families(html_of(answer)):
        for sample in family.samples:
            values[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return values


def value(values: dict, name: str, **labels: str) -> float:
    return values[name, tuple(sorted(labels.items()))]


# --- access ----------------------------------------------------------------------------------------


def test_metrics_refuse_users_who_are_not_signed_in(client: Client) -> None:
    assert client.get("/metrics").status_code == 403


def test_metrics_are_readable_from_an_allowed_network(client: Client, settings) -> None:
    settings.METRICS_ALLOW = ["127.0.0.0/8"]
    assert client.get("/metrics").status_code == 200


def test_metrics_refuse_an_address_outside_the_allowed_networks(client: Client, settings) -> None:
    settings.METRICS_ALLOW = ["10.0.0.0/8", "fd00::/8"]
    assert client.get("/metrics").status_code == 403


def test_metrics_ignore_a_forged_forwarded_address(client: Client, settings) -> None:
    settings.METRICS_ALLOW = ["10.0.0.0/8"]
    assert client.get("/metrics", headers={"X-Forwarded-For": "10.1.2.3"}).status_code == 403


def test_metrics_are_readable_with_a_token(client: Client, person) -> None:
    _, text = create_token(user=person)
    assert client.get("/metrics", headers={"Authorization": f"Token {text}"}).status_code == 200


def test_a_wrong_token_is_refused(client: Client) -> None:
    assert client.get("/metrics", headers={"Authorization": "Token elv_" + "a" * 64}).status_code == 403


# --- content ---------------------------------------------------------------------------------------


def test_requests_are_counted_by_route_method_and_status(reader: Client) -> None:
    labels = {"route": "dataset_list", "method": "GET", "status": "200"}
    before = read(reader).get(("elevata_http_requests_total", tuple(sorted(labels.items()))), 0)
    reader.get("/datasets/")
    values = read(reader)
    assert value(values, "elevata_http_requests_total", **labels) == before + 1
    assert value(values, "elevata_http_request_seconds_count", route="dataset_list") >= 1


def test_requests_to_unknown_addresses_are_counted_as_one_route(reader: Client) -> None:
    for number in range(3):
        reader.get(f"/no-such-{number}/")
    values = read(reader)
    assert value(values, "elevata_http_requests_total", route="none", method="GET", status="404") >= 3
    assert not any("no-such" in str(key) for key in values)


def test_requests_with_unknown_methods_are_counted_as_one_method(reader: Client) -> None:
    for number in range(3):
        reader.generic(f"BREW{number}", "/healthz")
    assert value(read(reader), "elevata_http_requests_total", route="healthz", method="other", status="405") >= 3


def test_metrics_have_queue_length_and_age_of_the_oldest_job(reader: Client) -> None:
    waiting = LoadRunFactory(status="queued")
    LoadRun.objects.filter(pk=waiting.pk).update(queued_at=timezone.now() - timedelta(minutes=10))
    LoadRunFactory(status="queued")
    values = read(reader)
    assert value(values, "elevata_queue_length", kind="load_run") == 2
    assert 600 <= value(values, "elevata_queue_oldest_seconds", kind="load_run") < 700
    assert value(values, "elevata_queue_length", kind="execution") == 0


def test_metrics_list_each_run_state_even_without_a_run(reader: Client) -> None:
    LoadRunFactory(status="failed")
    values = read(reader)
    assert value(values, "elevata_load_runs", state="failed") == 1
    assert value(values, "elevata_load_runs", state="lost") == 0


def test_metrics_have_rows_and_durations_of_the_last_day(reader: Client) -> None:
    now = timezone.now()
    run = LoadRunFactory(status="succeeded", started_at=now - timedelta(seconds=90), finished_at=now)
    DatasetRunFactory(
        run=run, dataset=TargetDatasetFactory(), kind="rawcore", status="succeeded", counts={"new": 5, "changed": 2}
    )
    values = read(reader)
    assert value(values, "elevata_rows_written_day", change="new") == 5
    assert value(values, "elevata_rows_written_day", change="deleted") == 0
    assert value(values, "elevata_run_seconds_day_max", kind="load") == pytest.approx(90, abs=1)
    assert value(values, "elevata_runs_ended_day", kind="load", state="succeeded") == 1


def test_metrics_have_workers_and_unsealed_rows(reader: Client) -> None:
    now = timezone.now()
    Worker.objects.create(name="w", started_at=now, heartbeat_at=now - timedelta(seconds=5))
    ChainPending.objects.create(kind="change", subjects=[[1, "a"], [2, "b"]])
    values = read(reader)
    assert value(values, "elevata_workers_alive") == 1
    assert 5 <= value(values, "elevata_worker_heartbeat_age_seconds") < 60
    assert value(values, "elevata_chain_unsealed_rows") == 2


def test_metrics_omit_names_given_by_users(reader: Client) -> None:
    SystemFactory(short_name="secretsystem")
    run = LoadRunFactory(run_id="my-own-run", status="failed")
    DatasetRunFactory(run=run, dataset=TargetDatasetFactory(), qualified_name="rawcore.secrettable")
    text = html_of(reader.get("/metrics"))
    assert not re.search("secretsystem|my-own-run|secrettable", text)


def test_metrics_without_the_database_include_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(now: object) -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(metrics, "_families", fail)
    text = metrics.exposition().decode()
    assert "elevata_database_up 0.0" in text
    assert "elevata_http_requests_total" in text
