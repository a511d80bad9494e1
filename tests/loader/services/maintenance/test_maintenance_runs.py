"""Maintenance runs (history batch, revert, prune, compaction): request, refusal, repetition, progress."""

import io
import json

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from architecture.models import Execution, ExecutionOperation
from elevata.accounts.actors import acting_as
from elevata.accounts.cli import CommandExit
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import create_user
from loader.contract import run_states
from loader.contract.refusals import Refusal
from loader.management import run_command
from loader.models import LoadRun
from loader.services.loads.load_runs import request_cancel, request_load_run
from loader.services.loads.load_work import perform_load_run
from loader.services.maintenance.acceptances import request_accept
from loader.services.maintenance.compactions import request_compaction
from loader.services.maintenance.history_batches import request_history_batch
from loader.services.maintenance.prunes import request_prune
from loader.services.maintenance.reverts import request_revert
from metadata.domain.scope import DATASET, Scope
from metadata.models import TargetDataset
from tests.database.seals import seal_as_written

pytestmark = pytest.mark.django_db(transaction=True)

AIRPORT, ROUTE = "rawcore.rc_air_airport", "rawcore.rc_net_route"
BY_FILES = {"input": "batch_files", "time": "_fivetran_start", "null_string": "NULL"}
WHY = "the source sent test data"


@pytest.fixture
def eve(airports):
    """Yield an operator whose token the commands use, created after the metadata, which are then restored as rows."""
    person = create_user(name="eve", roles=["operator", "editor"])
    with acting_as(person):
        yield person


@pytest.fixture(autouse=True)
def eves_token(eve, monkeypatch):
    monkeypatch.setenv("ELEVATA_TOKEN", create_token(user=eve)[1])


def perform(run: LoadRun, runner) -> LoadRun:
    return perform_load_run(run.pk, worker="w1", runner=runner)


def perform_load(runner, run_id: str, **more) -> LoadRun:
    run = perform(request_load_run(run_id=run_id, wake_worker=False, **more).run, runner)
    assert run.status == "succeeded", run.error
    return run


def use_batch_files(name: str = AIRPORT) -> None:
    set_policy(name, BY_FILES)


def set_policy(name: str, policy: dict) -> None:
    schema, _, dataset = name.partition(".")
    TargetDataset.objects.filter(schema__name=schema, name=dataset).update(history_policy=policy)
    seal_as_written()


def refused(function, **arguments) -> Refusal:
    with pytest.raises(Refusal) as caught:
        function(**arguments)
    return caught.value


def revert(of_run: str, dataset: str = AIRPORT, **more):
    return request_revert(of_run=of_run, dataset=dataset, reason=WHY, wake_worker=False, **more)


# --- history batches ---------------------------------------------------------------------------------


def test_history_batch_loads_its_files_into_one_dataset(airports, runner, script):
    use_batch_files()
    request = request_history_batch(
        dataset=AIRPORT, files={"upsert": ["/in/u.csv"], "delete": ["/in/d.csv"]}, run_id="b1", wake_worker=False
    )
    run = perform(request.run, runner)
    assert (run.status, run.kind, run.who) == ("succeeded", "history_batch", "eve")
    manifest = script.seen("load")[-1]["body"]
    (load,) = manifest["rawcore"]
    assert (manifest["raw"], load["name"], load["inputs"], load["sequence"]) == ([], AIRPORT, [], 1)
    assert (load["files"]["upsert"], load["files"]["delete"], load["files"]["format"]) == (
        ["/in/u.csv"],
        ["/in/d.csv"],
        "csv",
    )
    again = request_history_batch(
        dataset=AIRPORT, files={"upsert": ["/in/u.csv"], "delete": ["/in/d.csv"]}, run_id="b1", wake_worker=False
    )
    assert (again.run, again.requested) == (run, False)
    other = refused(request_history_batch, dataset=AIRPORT, files={"upsert": ["/in/x.csv"]}, run_id="b1")
    assert other.code == "RUN_ID_TAKEN"


def test_load_run_skips_datasets_with_batch_files_but_creates_their_tables(airports, runner, script):
    use_batch_files()
    run = perform_load(runner, "all")
    assert [row.qualified_name for row in run.datasets.order_by("ordinal")] == ["raw.raw_net_route", ROUTE]
    created = {step["table"]["name"] for step in script.seen("execute")[0]["body"]["steps"]}
    assert {"raw_air_airport", "rc_air_airport", "rc_air_airport_hist"} <= created
    refusal = refused(request_load_run, scope=Scope(DATASET, AIRPORT))
    assert (refusal.code, "load_history_batch" in refusal.hint) == ("BY_BATCH_FILES", True)


def test_invalid_history_batch_is_refused_without_a_run(airports):
    files = {"upsert": ["/in/u.csv"]}
    assert refused(request_history_batch, dataset=AIRPORT, files=files).code == "NOT_BY_BATCH_FILES"
    assert refused(request_history_batch, dataset=AIRPORT, files={}).code == "NO_FILES"
    assert refused(request_history_batch, dataset=AIRPORT, files={"insert": ["x"]}).code == "UNKNOWN_FILE"
    assert refused(request_history_batch, dataset=AIRPORT, files=files, format="xml").code == "BAD_OPTION"
    assert refused(request_history_batch, dataset="rawcore.nothing", files=files).code == "UNKNOWN_DATASET"
    assert not LoadRun.objects.exists()


# --- reverts -----------------------------------------------------------------------------------------


@pytest.mark.full
def test_revert_stores_user_reason_and_table_versions(airports, runner, script):
    perform_load(runner, "r1")
    first = LoadRun.objects.get()
    perform_load(runner, "r2")
    run = perform(revert("r2").run, runner)
    assert (run.status, run.kind, run.who, run.reason) == ("succeeded", "revert", "eve", WHY)
    assert run.details == {
        "asked": {"run_id": "r2"},
        "tables": {AIRPORT: {"version_before": 4, "version_after": 5}},
    }
    manifest = script.seen("revert")[0]["body"]
    assert (manifest["reverted_run"], manifest["reverted_sequence"], manifest["load"]["sequence"]) == ("r2", 2, 3)
    assert manifest["newest_applied_at"] == first.load_timestamp.isoformat()
    assert refused(revert, of_run="r2").code == "ALREADY_REVERTED"
    assert refused(request_load_run, run_id="r2").code == "RUN_REVERTED"
    perform_load(runner, "r3")
    newest = {entry["name"]: entry["newest_applied_at"] for entry in script.seen("load")[-1]["body"]["rawcore"]}
    second = LoadRun.objects.get(run_id="r2").load_timestamp
    assert newest == {AIRPORT: first.load_timestamp.isoformat(), ROUTE: second.isoformat()}


@pytest.mark.full
def test_invalid_revert_is_refused_without_a_run(airports, runner, script):
    perform_load(runner, "r1", scope=Scope(DATASET, AIRPORT))
    perform_load(runner, "r2", scope=Scope(DATASET, AIRPORT))
    assert refused(revert, of_run="nothing").code == "UNKNOWN_RUN"
    assert refused(revert, of_run="r1", dataset="rawcore.nothing").code == "UNKNOWN_DATASET"
    assert refused(revert, of_run="r1", dataset="raw.raw_air_airport").code == "NO_HISTORY"
    assert refused(revert, of_run="r1", dataset=ROUTE).code == "NOT_APPLIED"
    later = refused(revert, of_run="r1")
    assert (later.code, later.count, "r2" in later.message) == ("LATER_RUNS", 1, True)
    assert refused(request_revert, of_run="r2", dataset=AIRPORT, reason=" ").code == "NO_REASON"
    perform(revert("r2").run, runner)
    assert refused(revert, of_run=LoadRun.objects.get(kind="revert").run_id).code == "NOT_REVERTIBLE"
    assert LoadRun.objects.count() == 3
    perform(revert("r1").run, runner)


@pytest.mark.full
@pytest.mark.parametrize(
    ("policy", "code"), [({"input": "append"}, None), ({"input": "delta"}, "NO_HISTORY"), ({}, "NO_HISTORY")]
)
def test_revert_of_a_dataset_without_history_requires_appended_rows(airports, runner, script, policy, code):
    TargetDataset.objects.filter(name="rc_air_airport").update(historize=False, history_policy=policy)
    seal_as_written()
    perform_load(runner, "r1")
    perform_load(runner, "r2")
    if code is not None:
        assert refused(revert, of_run="r1").code == code
        return
    assert perform(revert("r1").run, runner).status == "succeeded"
    assert script.seen("revert")[0]["body"]["refused"] is None


def test_failed_revert_is_repeated_as_the_same_run(airports, runner, script):
    perform_load(runner, "r1")
    script.add(fail={AIRPORT: {"code": "BEYOND_RETENTION", "message": "it is gone"}})
    run = perform(revert("r1").run, runner)
    assert (run.status, run.error["message"]) == ("failed", "1 of 1 datasets failed: it is gone")
    script.add(fail={})
    again = perform(revert("r1").run, runner)
    assert (again.pk, again.status, again.attempt) == (run.pk, "succeeded", 2)


@pytest.mark.full
def test_revert_repeated_after_a_load_gets_a_later_sequence(airports, runner, script):
    perform_load(runner, "r1")
    script.add(die_on="revert")
    run = perform(revert("r1").run, runner)
    assert (run.status, run.datasets.get().sequence) == ("failed", 2)
    script.add(die_on=None)
    perform_load(runner, "r2")
    again = perform(revert("r1").run, runner)
    manifest = script.seen("revert")[-1]["body"]
    # Only the table shows whether the first attempt committed.
    assert (again.pk, manifest["load"]["sequence"], manifest["refused"]["code"]) == (run.pk, 4, "LATER_RUNS")


def test_queued_revert_is_cancelled_at_once(airports, runner):
    perform_load(runner, "r1")
    request = revert("r1")
    assert request_cancel(run=request.run).status == "canceled"
    assert perform(request.run, runner) is None


def test_revert_of_tables_that_differ_from_the_metadata_fails(airports, runner, script):
    from metadata.services.source_contracts import take_columns

    perform_load(runner, "r1")
    take_columns(source_dataset=airports["airport"], proposals=[{"name": "lid", "type": "string"}])
    run = perform(revert("r1").run, runner)
    assert (run.status, run.error["code"]) == ("failed", "TABLES_DIFFER")
    assert not script.seen("revert")


# --- prunes ------------------------------------------------------------------------------------------


def test_prune_stores_its_date_and_refuses_invalid_dates(airports, runner, script):
    perform_load(runner, "r1")
    request = request_prune(
        dataset=AIRPORT, reason=WHY, ended_before="2024-01-31", archive="/kept", run_id="p1", wake_worker=False
    )
    run = perform(request.run, runner)
    assert (run.status, run.kind) == ("succeeded", "prune")
    assert run.details["asked"] == {"ended_before": "2024-01-31T00:00:00+00:00", "archive": "/kept"}
    manifest = script.seen("prune")[0]["body"]
    assert (manifest["ended_before"], manifest["archive"]) == ("2024-01-31T00:00:00+00:00", "/kept")
    assert refused(revert, of_run="r1").code == "PRUNED_SINCE"
    by_days = {"dataset": AIRPORT, "reason": WHY, "older_than_days": 30, "run_id": "p2", "wake_worker": False}
    first = request_prune(**by_days)
    assert request_prune(**by_days).run == first.run
    for bad in ({"ended_before": "soon"}, {"ended_before": "2999-01-01"}, {"older_than_days": -1}):
        assert refused(request_prune, dataset=AIRPORT, reason=WHY, **bad).code == "BAD_DATE"
    assert refused(request_prune, dataset=AIRPORT, reason=WHY).code == "NO_DATE"


# --- compactions -------------------------------------------------------------------------------------


def test_load_that_leaves_many_files_queues_one_compaction(airports, runner, script):
    script.tell(crowded=[AIRPORT])
    load = perform_load(runner, "r1")
    run = LoadRun.objects.get(kind=run_states.COMPACT)
    assert (run.status, run.scope["name"], run.who, run.reason) == ("queued", AIRPORT, "system", "after run r1")
    perform_load(runner, "r2")
    assert LoadRun.objects.filter(kind=run_states.COMPACT).count() == 1  # one at a time for a table
    run = perform(run, runner)
    assert run.status == "succeeded"
    assert run.datasets.get().sequence is None
    tables = [table["name"] for table in script.seen("compact")[0]["body"]["tables"]]
    assert tables == ["rc_air_airport", "rc_air_airport_hist"]
    assert load.datasets.get(qualified_name=AIRPORT).sequence == 1
    key = str(load.datasets.get(qualified_name=AIRPORT).dataset_key)
    assert request_compaction(dataset_key=key, wake_worker=False) is not None


# --- commands, pages, API ----------------------------------------------------------------------------


@pytest.fixture
def local(monkeypatch, make_runner):
    monkeypatch.setattr(run_command, "Runner", make_runner)


def command(*arguments: str) -> tuple[int, str, str]:
    out = io.StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=io.StringIO())
    except CommandExit as end:
        return end.returncode, out.getvalue(), str(end)
    return 0, out.getvalue(), ""


@pytest.mark.full
def test_maintenance_commands_exit_with_the_codes_of_load(airports, local, script):
    use_batch_files(ROUTE)
    code, out, _ = command("load_history_batch", ROUTE, "--upsert", "/in/u.csv.zst", "--local", "--json")
    document = json.loads(out)
    assert (code, document["kind"], document["status"]) == (0, "history_batch", "succeeded")
    assert document["details"]["asked"] == {
        "files": {"upsert": ["/in/u.csv.zst"]}, "format": "csv", "compression": "zstd",
    }  # fmt: skip
    assert command("load", "--local", "--run-id", "r1")[0] == 0
    code, out, _ = command("revert_run", "r1", AIRPORT, "--reason", WHY, "--local")
    assert (code, "succeeded" in out.splitlines()[-1]) == (0, True)
    code, _, message = command("revert_run", "r1", AIRPORT, "--reason", WHY, "--local")
    assert (code, "was reverted on" in message) == (1, True)
    code, out, _ = command("prune_history", AIRPORT, "--older-than-days", "30", "--reason", WHY, "--local", "--json")
    assert (code, json.loads(out)["requested_by"]) == (0, "eve")
    assert command("prune_history", AIRPORT, "--reason", WHY)[0] == 4
    script.add(fail={AIRPORT: {"code": "NOT_ARCHIVED", "message": "no room"}})
    code, _, message = command("prune_history", AIRPORT, "--ended-before", "2024-01-01", "--reason", WHY, "--local")
    assert (code, "no room" in message) == (1, True)


def test_local_load_compacts_tables_with_many_files(airports, local, script):
    script.tell(crowded=[AIRPORT])
    assert command("load", "--local")[0] == 0
    assert list(LoadRun.objects.order_by("pk").values_list("kind", "status")) == [
        ("load", "succeeded"),
        ("compact", "succeeded"),
    ]


@pytest.mark.full
def test_pages_and_api_show_the_results_of_a_maintenance_run(airports, runner):
    with acting_as(None):
        reader = create_user(name="reader", roles=["viewer"])
    client = Client()
    client.force_login(reader)
    perform_load(runner, "r1")
    run = perform(revert("r1", run_id="back").run, runner)
    page = client.get("/load-runs/back/").content.decode()
    for text in ("Revert", "eve", WHY, "Delta versions", AIRPORT):
        assert text in page
    assert "reverted by" in client.get("/load-runs/r1/").content.decode()
    listed = client.get("/load-runs/?kind=revert").content.decode()
    assert "/load-runs/back/" in listed
    assert "/load-runs/r1/" not in listed
    assert "/load-runs/back/" in client.get("/load-runs/?requested_by=eve").content.decode()
    answer = client.get("/api/v1/load-runs/back/").json()
    assert (answer["kind"], answer["who"], answer["reason"], answer["details"]) == ("revert", "eve", WHY, run.details)
    assert [entry["run_id"] for entry in client.get("/api/v1/load-runs/?kind=revert").json()["results"]] == ["back"]
    rows = client.get("/api/v1/load-runs/r1/").json()["datasets"]
    assert {row["qualified_name"]: row["reverted_by"] for row in rows}[AIRPORT] == "back"


# --- tables that differ from the newest run ---------------------------------------------------------


def test_load_fails_without_creating_tables_when_the_warehouse_lacks_them(airports, runner, script):
    perform_load(runner, "first")
    script.add(observed={})
    run = perform(request_load_run(run_id="second", wake_worker=False).run, runner)
    assert (run.status, run.error["code"]) == ("failed", "TABLES_MISSING")
    assert AIRPORT in run.error["message"]
    assert len(script.seen("execute")) == 1  # by the first run


def test_failed_run_succeeds_when_repeated_after_the_tables_are_restored(airports, runner, script):
    perform_load(runner, "first")
    there = script.told()["observed"]
    script.add(observed={})
    perform(request_load_run(run_id="second", wake_worker=False).run, runner)
    script.add(observed=there)
    perform_load(runner, "second")


def test_load_manifest_contains_the_newest_run_applied_to_each_table(airports, runner, script):
    perform_load(runner, "first")
    perform_load(runner, "second")
    known = {entry["name"]: entry["newest_applied"] for entry in script.seen("load")[-1]["body"]["rawcore"]}
    assert known == {AIRPORT: 1, ROUTE: 1}


def test_table_recreated_by_an_execution_has_no_applied_run(airports, runner, script):
    perform_load(runner, "first")
    created = ExecutionOperation.objects.filter(op="create_table", execution__load_runs__run_id="first")
    Execution.objects.filter(operations__in=created).update(finished_at=timezone.now())
    perform_load(runner, "second")
    known = {entry["newest_applied"] for entry in script.seen("load")[-1]["body"]["rawcore"]}
    assert known == {None}


@pytest.mark.full
def test_acceptance_marks_runs_missing_in_the_table_as_reverted(airports, runner, script):
    perform_load(runner, "first")
    perform_load(runner, "second")
    script.add(held=1)
    run = perform(request_accept(dataset=AIRPORT, reason=WHY, wake_worker=False).run, runner)
    assert run.status == "succeeded", run.error
    reverted = LoadRun.objects.filter(datasets__reverted_by=run)
    assert [(reverted_run.run_id) for reverted_run in reverted] == ["second"]
    assert refused(request_load_run, run_id="second").code == "RUN_REVERTED"
    perform_load(runner, "third", scope=Scope(DATASET, AIRPORT))
    (load,) = script.seen("load")[-1]["body"]["rawcore"]
    assert (load["newest_applied"], load["sequence"]) == (1, 4)


def test_acceptance_requires_a_reason_and_a_loaded_dataset(airports, runner):
    perform_load(runner, "first")
    assert refused(request_accept, dataset=AIRPORT, reason=" ").code == "NO_REASON"
    assert refused(request_accept, dataset="stage.stg_air_airport", reason=WHY).code == "NOT_LOADED"


@pytest.mark.full
def test_sequences_continue_after_those_of_an_accepted_newer_table(airports, runner, script):
    perform_load(runner, "first")
    script.add(held=7, seen=9)
    run = perform(request_accept(dataset=AIRPORT, reason=WHY, wake_worker=False).run, runner)
    assert run.datasets.get().sequence == 10
    perform_load(runner, "next", scope=Scope(DATASET, AIRPORT))
    (load,) = script.seen("load")[-1]["body"]["rawcore"]
    assert load["sequence"] == 11
