"""Queries on the warehouse."""

import threading

import pytest
from django.utils import timezone

from elevata.accounts.roles import Role
from elevata.jobs.models import Job
from loader.contract.refusals import Refusal
from loader.models import ReadRequest
from loader.runner import conversation
from loader.services.reads import manifests, read_requests
from loader.services.reads.attempts import perform_read
from loader.services.reads.manifests import read_manifest
from loader.services.reads.read_requests import request_read
from metadata.models import SourceDataset, TargetDataset
from tests.architecture.world import person as someone
from tests.loader.airports import target

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

SAMPLE = {"columns": ["icao"], "rows": [["EDDF"]], "table_version": 3, "truncated": False}


def request(kind="sample", name="rawcore.rc_air_airport", **more) -> ReadRequest:
    dataset = target(name) if name else None
    return request_read(kind=kind, dataset=dataset, wake_worker=False, **more).read


def test_answer_of_a_read_is_stored_in_its_row(airports, runner, script):
    script.tell(answers={"sample": SAMPLE})
    read = perform_read(request(arguments={"limit": 5}).pk, worker="w", runner=runner)
    assert (read.status, read.answer, read.error) == ("succeeded", SAMPLE, None)
    assert read.finished_at is not None
    body = script.seen("read")[0]["body"]
    assert (body["table"]["name"], body["arguments"]) == ("rc_air_airport", {"limit": 5})


def test_the_origin_of_a_row_needs_no_source_of_another_dataset(airports):
    SourceDataset.objects.filter(pk=airports["route"].pk).update(location="{{ nowhere }}/route.csv")
    manifest = read_manifest(read=request(kind="origin", arguments={"entity_key": "0" * 64}))
    assert [stage_input.table.qualified_name for stage_input in manifest.inputs] == ["raw.raw_air_airport"]


def test_duplicate_wakeup_performs_the_read_once(airports, runner, script):
    script.tell(answers={"sample": SAMPLE})
    read = request()
    assert perform_read(read.pk, worker="w", runner=runner).status == "succeeded"
    assert perform_read(read.pk, worker="w", runner=runner) is None
    assert len(script.seen("read")) == 1


def test_refusal_of_the_runner_is_stored_as_the_error_of_the_read(airports, runner):
    read = perform_read(request().pk, worker="w", runner=runner)
    assert (read.status, read.error) == ("failed", {"code": "NO_TABLE", "message": "it is not there"})


def test_read_beyond_its_timeout_fails(airports, runner, script, monkeypatch):
    monkeypatch.setattr(conversation, "GRACE_SECONDS", 0.0)
    script.tell(deaf_on=["read"])
    monkeypatch.setattr(manifests, "_TIMEOUT_SECONDS", 0.2)
    read = perform_read(request().pk, worker="w", runner=runner)
    assert (read.status, read.error["code"]) == ("failed", "READ_TIMEOUT")


def test_read_on_a_runner_that_does_not_start_fails_with_that_cause(airports, make_runner, script, monkeypatch):
    monkeypatch.setattr(conversation, "GRACE_SECONDS", 0.0)
    script.tell(mute=True, hang_on=["read"])
    runner = make_runner(start=0.5)
    monkeypatch.setattr(manifests, "_TIMEOUT_SECONDS", 0.1)
    read = perform_read(request().pk, worker="w", runner=runner)
    assert (read.status, read.error["code"]) == ("failed", "SPARK_DID_NOT_START")


def test_a_stopping_worker_ends_its_reads(airports, runner, script):
    script.tell(hang_on=["read"])
    stopping = threading.Event()
    threading.Timer(0.2, stopping.set).start()
    read = perform_read(request().pk, worker="w", runner=runner, stopping=stopping)
    assert (read.status, read.error["code"]) == ("failed", "WORKER_STOPPED")


def test_dead_runner_fails_the_read(airports, runner, script):
    script.tell(die_on="read")
    read = perform_read(request().pk, worker="w", runner=runner)
    assert (read.status, read.error["code"]) == ("failed", "RUNNER_DIED")


@pytest.mark.parametrize(
    ("kind", "name", "table"),
    [
        ("sample", "raw.raw_air_airport", "raw_air_airport"),
        ("sample", "rawcore.rc_air_airport", "rc_air_airport"),
        ("sample", "rawcore.rc_air_airport_hist", "rc_air_airport_hist"),
        ("versions", "rawcore.rc_air_airport", "rc_air_airport_hist"),
        ("as_of", "rawcore.rc_air_airport_hist", "rc_air_airport_hist"),
        ("key_search", "rawcore.rc_air_airport", "rc_air_airport_hist"),
    ],
)
def test_each_kind_of_read_selects_its_table(airports, kind, name, table):
    assert read_manifest(read=request(kind, name)).table.name == table


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, {}),
        ({"deletes": "tombstone", "state_labels": {"deleted": "gone"}}, {"tombstone": "gone"}),
        ({"input": "batch_files", "time": "_fivetran_start"}, {"inclusive_ends": True}),
    ],
)
def test_read_manifest_contains_the_interval_settings_of_the_history_policy(airports, policy, expected):
    TargetDataset.objects.filter(name="rc_air_airport").update(history_policy=policy)
    arguments = {"at": "2024-01-01T00:00:00+00:00", "known_at": "2024-02-01T00:00:00+00:00"}
    for name in ("rawcore.rc_air_airport", "rawcore.rc_air_airport_hist"):
        assert read_manifest(read=request("as_of", name, arguments=arguments)).arguments == arguments | expected


def test_history_check_has_its_own_request_and_timeout(airports, runner, script):
    script.tell(answers={"rawcore.rc_air_airport": {"findings": []}})
    checked = request("check", arguments={"samples": 2})
    read = perform_read(checked.pk, worker="w", runner=runner)
    assert (read.status, read.answer) == ("succeeded", {"findings": []})
    body = script.seen("check")[0]["body"]
    assert (body["history"]["name"], body["rawcore"]["name"]) == ("rc_air_airport_hist", "rc_air_airport")
    assert (body["samples"], body["timeout_seconds"]) == (2, read_requests.CHECK_TIMEOUT_SECONDS)
    assert {part["column"] for part in body["row_hash"]} == {"name", "elevation"}


def test_history_check_expires_later_than_a_sample(airports):
    checked, sampled = request("check"), request("sample")
    ReadRequest.objects.update(requested_at=timezone.now() - read_requests.GIVEN_UP_AFTER * 2)
    read_requests.end_old_reads()
    checked.refresh_from_db()
    sampled.refresh_from_db()
    assert (checked.status, sampled.status) == ("queued", "failed")
    ReadRequest.objects.update(requested_at=timezone.now() - read_requests.CHECK_GIVEN_UP_AFTER * 2)
    read_requests.end_old_reads()
    checked.refresh_from_db()
    assert (checked.status, checked.error["code"]) == ("failed", "NO_ANSWER")


def test_read_of_a_view_fails(airports, runner):
    read = perform_read(request("sample", "stage.stg_air_airport").pk, worker="w", runner=runner)
    assert (read.status, read.error["code"]) == ("failed", "NO_TABLE")


def test_discovery_reads_the_file_of_the_source(airports, settings):
    read = request_read(kind="discover", source=airports["airport"], wake_worker=False).read
    manifest = read_manifest(read=read)
    assert manifest.source.location == f"{settings.DATA_DIR}/landing/air/airport.csv"
    assert (manifest.table, manifest.arguments) == (None, {})


@pytest.mark.parametrize("arguments", [{"kind": "guess"}, {"kind": "sample"}, {"kind": "discover"}])
def test_invalid_read_is_refused_without_a_row(airports, arguments):
    with pytest.raises(Refusal):
        request_read(**arguments)
    assert not ReadRequest.objects.exists()


def test_last_queries_of_each_user_stay_without_answers_when_they_are_old(airports, monkeypatch):
    monkeypatch.setattr(read_requests, "LAST_QUERIES", 2)
    ada, bob = someone("ada", Role.VIEWER), someone("bob", Role.VIEWER)
    queries = [request("sql", "", arguments={"text": f"SELECT {n}"}, user=ada) for n in range(3)]
    other = request("sql", "", user=bob)
    request("sample", user=ada)
    Job.objects.update(status="succeeded")
    ReadRequest.objects.update(answer=SAMPLE)
    read_requests.end_old_reads()
    assert ReadRequest.objects.filter(answer__isnull=False).count() == 5
    ReadRequest.objects.update(requested_at=timezone.now() - read_requests.KEPT_FOR * 2)
    new = request("sample", user=ada)
    read_requests.end_old_reads()
    assert set(ReadRequest.objects.values_list("pk", flat=True)) == {queries[1].pk, queries[2].pk, other.pk, new.pk}
    assert not ReadRequest.objects.filter(answer__isnull=False).exists()
