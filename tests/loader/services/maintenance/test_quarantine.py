"""Decisions on quarantined rows: requested with a reason, performed by a run, sealed."""

import pytest

from elevata.accounts.actors import acting_as
from elevata.accounts.services.users import create_user
from loader.contract.refusals import Refusal
from loader.models import MaintenanceRecord
from loader.services.loads.load_work import perform_load_run
from loader.services.maintenance.quarantine import request_quarantine
from loader.services.reads.manifests import read_manifest
from loader.services.reads.read_requests import request_read
from metadata.models import SourceDataset
from tests.loader.airports import target

pytestmark = pytest.mark.django_db(transaction=True)

AIRPORT = "rawcore.rc_air_airport"
ENTRY = "ab" * 32


@pytest.fixture(autouse=True)
def eve(airports):
    """Yield an operator, the requester of the runs."""
    person = create_user(name="eve", roles=["operator"])
    with acting_as(person):
        yield person


def decide(**more):
    arguments = {"dataset": AIRPORT, "decision": "release", "reason": "confirmed", "wake_worker": False}
    return request_quarantine(**arguments | more).run


def test_a_decision_is_performed_by_the_runner_and_sealed(runner, script):
    run = perform_load_run(decide(entries=[ENTRY]).pk, worker="w1", runner=runner)
    assert (run.kind, run.status, run.reason) == ("quarantine_decision", "succeeded", "confirmed")
    body = script.seen("quarantine_decision")[0]["body"]
    assert (body["decision"], body["entries"], body["of_run"]) == ("release", [ENTRY], "")
    assert body["dataset"] == str(target(AIRPORT).key)
    record = MaintenanceRecord.objects.get(run=run)
    assert record.document["asked"] == {"decision": "release", "entries": [ENTRY], "of_run": ""}
    assert run.datasets.get().sequence is None


def test_a_decision_and_a_read_of_the_quarantine_have_the_same_secret(eve, runner, script):
    perform_load_run(decide(entries=[ENTRY]).pk, worker="w1", runner=runner)
    secret = script.seen("quarantine_decision")[0]["body"]["secret"]
    read = request_read(kind="quarantine", dataset=target(AIRPORT), user=eve, wake_worker=False).read
    assert len(secret) == 64
    assert read_manifest(read=read).arguments["secret"] == secret
    assert secret not in str(read.arguments)


def test_unreadable_source_of_another_dataset_does_not_fail_the_decision(airports, runner):
    SourceDataset.objects.filter(pk=airports["route"].pk).update(location="{{ nowhere }}/route.csv")
    assert perform_load_run(decide().pk, worker="w1", runner=runner).status == "succeeded"


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"decision": "forget"}, "BAD_DECISION"),
        ({"entries": ["1"]}, "BAD_ENTRY"),
        ({"of_run": "nothing"}, "UNKNOWN_RUN"),
        ({"reason": " "}, "NO_REASON"),
        ({"dataset": "rawcore.nothing"}, "UNKNOWN_DATASET"),
    ],
)
def test_a_wrong_request_is_refused_before_a_run_is_created(wrong, code):
    with pytest.raises(Refusal) as refused:
        decide(**wrong)
    assert refused.value.code == code
