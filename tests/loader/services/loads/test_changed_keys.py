"""Objects with a changed stable key use their existing tables and hashes."""

from uuid import NAMESPACE_DNS, UUID, uuid5

import pytest

from architecture.models import AppliedDataset, ExecutionOperation
from loader.models import LoadRun
from loader.selectors.runs import dataset_runs
from loader.services.maintenance.compactions import request_compaction
from loader.services.reads.attempts import perform_read
from loader.services.reads.read_requests import request_read
from metadata.models import Reference, TargetColumn, TargetDataset
from metadata.services.datasets.targets import create_target_column
from tests.loader.airports import target
from tests.loader.services.loads.test_load_work import perform, queued, row

pytestmark = pytest.mark.django_db(transaction=True)

AIRPORT, ROUTE = "rawcore.rc_air_airport", "rawcore.rc_net_route"

# Fields that differ in a second run of the same dataset.
_OF_THE_RUN = ("sequence", "newest_applied_at", "newest_applied")


@pytest.fixture
def moved(airports, runner) -> LoadRun:
    """Load once, then assign another key to every target, as if described anew in another installation."""
    run = perform(queued(), runner)
    for model in (TargetDataset, TargetColumn, Reference):
        for instance in model.objects.all():
            model.objects.filter(pk=instance.pk).update(key=elsewhere(instance.key))
    return run


def elsewhere(key: UUID) -> UUID:
    return uuid5(NAMESPACE_DNS, str(key))


def loads(script, name: str) -> list[dict]:
    """Return the manifests of one dataset, load by load, without the parts that differ in every load."""
    bodies = [request["body"] for request in script.seen("load")]
    entries = [entry for body in bodies for entry in (*body["raw"], *body["rawcore"]) if entry["name"] == name]
    return [{key: value for key, value in entry.items() if key not in _OF_THE_RUN} for entry in entries]


@pytest.mark.full
@pytest.mark.parametrize("name", ["raw.raw_air_airport", AIRPORT, ROUTE])
def test_load_manifest_is_unchanged_after_keys_changed(moved, runner, script, name):
    run = perform(queued(), runner)
    assert (run.status, run.error) == ("succeeded", None)
    before, now = loads(script, name)
    assert now == before


def test_sequence_and_newest_time_continue_after_keys_changed(moved, runner, script):
    run = perform(queued(), runner)
    assert row(run, AIRPORT).sequence == 2
    newest = {entry["name"]: entry["newest_applied_at"] for entry in script.seen("load")[-1]["body"]["rawcore"]}
    assert newest[AIRPORT] == moved.load_timestamp.isoformat()


def test_earlier_runs_are_found_by_the_dataset_with_the_new_key(moved, runner):
    run = perform(queued(), runner)
    assert [dataset_run.run for dataset_run in dataset_runs(dataset=target(AIRPORT))] == [run, moved]


def test_new_column_is_added_to_the_existing_table(moved, runner, script):
    applied = set(AppliedDataset.objects.values_list("dataset_key", flat=True))
    create_target_column(dataset=target(AIRPORT), name="continent", type="string(2)", expression="'EU'")
    assert perform(queued(), runner).status == "succeeded"
    steps = ExecutionOperation.objects.filter(column_name="continent")
    (before, *_) = loads(script, AIRPORT)
    assert set(map(str, steps.values_list("table_key", flat=True))) == {
        before["table"]["key"],
        before["history"]["key"],
    }
    assert set(AppliedDataset.objects.values_list("dataset_key", flat=True)) == applied


def test_read_uses_the_existing_table(moved, runner, script):
    script.add(answers={"sample": {"rows": []}})
    read = request_read(kind="sample", dataset=target(AIRPORT), wake_worker=False).read
    perform_read(read.pk, worker="w1", runner=runner)
    (before, *_) = loads(script, AIRPORT)
    assert script.seen("read")[-1]["body"]["table"]["key"] == before["table"]["key"]


def test_compaction_uses_the_existing_tables(moved, runner, script):
    (before, *_) = loads(script, AIRPORT)
    request = request_compaction(dataset_key=before["dataset"], wake_worker=False)
    assert perform(request.run, runner).status == "succeeded"
    body = script.seen("compact")[-1]["body"]
    assert body["dataset"] == before["dataset"]
    assert {table["key"] for table in body["tables"]} == {before["table"]["key"], before["history"]["key"]}
