"""Load runs from claim to end, with a scripted runner."""

import threading
from dataclasses import replace

import pytest
from django.db import OperationalError

from architecture.models import AppliedDataset, Execution, ExecutionRecord, Observation
from architecture.selectors.environments import leases_held
from architecture.services.environments import current_environment
from architecture.services.leases import Holder, release_leases, take_leases
from elevata.accounts.services.users import ensure_user
from elevata.jobs.services import Fenced, mark_lost
from elevata.notifications.models import Event
from loader.management.run_output import ending
from loader.models import DatasetRun, LoadRun, RunEvent, SourceProposal
from loader.services.loads import attempts, load_work
from loader.services.loads.attempts import LoadAttempt, attempt_of, claim, claim_with_leases
from loader.services.loads.load_runs import request_cancel, request_load_run
from loader.services.loads.load_work import perform_load_run
from metadata.domain.scope import DATASET, SCHEMA, SELECTION, Scope
from metadata.models import SourceColumn, TargetDataset
from metadata.services.datasets import targets
from metadata.services.datasets.generation import generate_targets
from metadata.services.sources import create_source_column
from tests.factories import TargetSchemaFactory
from tests.loader.processes import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]


def queued(**arguments) -> LoadRun:
    return request_load_run(wake_worker=False, **arguments).run


def perform(run: LoadRun, runner, **more) -> LoadRun:
    return perform_load_run(run.pk, worker="w1", runner=runner, **more)


def row(run: LoadRun, name: str) -> DatasetRun:
    return run.datasets.get(qualified_name=name)


@pytest.mark.full
def test_a_run_creates_its_tables_and_loads_in_order(airports, runner, script):
    run = perform(queued(), runner)
    assert (run.status, run.attempt, run.error) == ("succeeded", 1, None)
    assert [request["kind"] for request in script.seen()] == ["observe", "execute", "publish", "load"]
    names = [dataset.qualified_name for dataset in run.datasets.order_by("ordinal")]
    assert names == ["raw.raw_air_airport", "raw.raw_net_route", "rawcore.rc_air_airport", "rawcore.rc_net_route"]
    airport = row(run, "rawcore.rc_air_airport")
    assert (airport.status, airport.sequence, airport.counts["new"]) == ("succeeded", 1, 3)
    assert airport.table_version_after == 1
    assert airport.started_at <= airport.finished_at
    assert row(run, "raw.raw_air_airport").sequence is None
    execution = run.execution
    assert (execution.status, execution.operations.count()) == (Execution.Status.SUCCEEDED, 8)
    views = {"stage.stg_air_airport", "stage.stg_net_route"}
    assert {dataset.qualified_name for dataset in AppliedDataset.objects.all()} == {*names, *views}
    assert ExecutionRecord.objects.get(execution=execution).outcome == "succeeded"
    assert RunEvent.objects.filter(run=run, message__startswith="loading").exists()


def test_run_and_log_record_the_commit_path_with_its_reason(airports, runner, script):
    path = {"name": "public", "reason": "ELEVATA_COMMITS is public"}
    script.tell(commits=path)
    run = perform(queued(), runner)
    assert run.details["commits"] == path
    assert RunEvent.objects.filter(run=run, message="commits: public, because ELEVATA_COMMITS is public").count() == 1


def test_the_second_run_changes_no_tables_and_takes_the_next_number(airports, runner, script):
    perform(queued(), runner)
    run = perform(queued(), runner)
    assert [request["kind"] for request in script.seen()][4:] == ["observe", "load", "publish"]
    assert row(run, "rawcore.rc_air_airport").sequence == 2
    manifest = script.seen("load")[-1]["body"]
    first = LoadRun.objects.order_by("pk").first()
    assert manifest["rawcore"][0]["newest_applied_at"] == first.load_timestamp.isoformat()


@pytest.mark.parametrize(
    ("scope", "datasets"),
    [
        (Scope(DATASET, "raw.raw_air_airport", target_only=True), ["raw.raw_air_airport"]),
        (Scope(SCHEMA, "raw", target_only=True), ["raw.raw_air_airport", "raw.raw_net_route"]),
    ],
)
def test_execution_record_of_a_load_contains_the_requested_scope(airports, runner, scope, datasets):
    run = perform(queued(scope=scope), runner)
    document = run.execution.record.document
    assert (document["dependency_mode"], document["scope"]["name"]) == ("target_only", scope.name)
    assert document["scope"]["datasets"] == datasets


def test_a_failed_dataset_fails_the_run_and_names_it(airports, runner, script):
    script.tell(fail={"raw.raw_air_airport": {"code": "MISSING_FILE", "message": "airport.csv is not there"}})
    run = perform(queued(), runner)
    assert run.status == "failed"
    assert run.error["message"].startswith("1 of 4 datasets failed, 2 skipped: airport.csv is not there")
    assert row(run, "raw.raw_air_airport").error["code"] == "MISSING_FILE"
    skipped = row(run, "rawcore.rc_air_airport")
    assert (skipped.status, skipped.skipped_because) == ("skipped", "raw.raw_air_airport")
    assert row(run, "rawcore.rc_net_route").status == "skipped"


def test_repeated_run_loads_the_remaining_datasets_with_the_same_sequences(airports, runner, script):
    script.tell(fail={"rawcore.rc_net_route": {"code": "NULL_KEY", "message": "2 rows have no key"}})
    run = perform(queued(run_id="again"), runner)
    before = {dataset.qualified_name: (dataset.pk, dataset.sequence) for dataset in run.datasets.all()}
    script.add(fail={})
    again = perform(queued(run_id="again"), runner)
    assert (again.pk, again.status, again.attempt) == (run.pk, "succeeded", 2)
    assert {dataset.qualified_name: (dataset.pk, dataset.sequence) for dataset in again.datasets.all()} == before
    done = script.seen("load")[-1]["body"]["already_done"]
    assert len(done) == 3


def test_repeated_run_reloads_a_raw_table_replaced_by_another_run(airports, runner, script):
    script.tell(fail={"rawcore.rc_air_airport": {"code": "NULL_KEY", "message": "no"}})
    perform(queued(run_id="first"), runner)
    perform(queued(run_id="second"), runner)
    script.add(fail={})
    perform(queued(run_id="first"), runner)
    done = script.seen("load")[-1]["body"]["already_done"]
    raw = {load["name"]: load["dataset"] for load in script.seen("load")[-1]["body"]["raw"]}
    assert raw["raw.raw_air_airport"] not in done


def test_steps_that_need_a_decision_block_the_run(airports, runner, script):
    perform(queued(), runner)
    observed = {str(entry.table_key): entry.document for entry in Observation.objects.exclude(document=None)}
    (core,) = (table for table in observed.values() if table["qualified_name"] == "rawcore.rc_air_airport")
    for described in core["columns"]:
        if described["name"] == "elevation":
            described["type"] = "bigint"
    script.tell(observed=observed)
    run = perform(queued(), runner)
    assert run.status == "blocked"
    assert "retype_column rawcore.rc_air_airport: elevation bigint → float" in run.error["message"]
    assert "create a change report of all datasets" in run.error["hint"]
    assert len(script.seen("load")) == 1
    assert set(run.datasets.values_list("status", flat=True)) == {"canceled"}


@pytest.mark.full
@pytest.mark.parametrize(
    "error",
    [
        {"code": "NULL_KEY", "message": "2 rows have no key", "samples": ["Zebedee"]},
        {"code": "UNEXPECTED", "message": "raw.raw_air_airport: the value 'Zebedee' cannot be cast"},
    ],
)
def test_sample_values_of_a_failed_dataset_are_stored_only_in_its_row(airports, runner, script, error):
    ensure_user(name="olga", roles=["operator"])
    script.tell(fail={"raw.raw_air_airport": error})
    run = perform(queued(), runner)
    assert row(run, "raw.raw_air_airport").error == error
    messages = [run.error["message"], *RunEvent.objects.values_list("message", flat=True)]
    messages += Event.objects.values_list("title", flat=True)
    assert sum("2 rows have no key" in message or "it failed" in message for message in messages) == 3
    assert not any("Zebedee" in message for message in messages)


def test_failed_step_fails_the_run_and_records_only_completed_tables(airports, runner, script):
    script.tell(fail_steps=["rc_air_airport"])
    run = perform(queued(), runner)
    assert (run.status, run.error["code"]) == ("failed", "STEP_FAILED")
    assert run.execution.status == Execution.Status.FAILED
    assert set(AppliedDataset.objects.values_list("qualified_name", flat=True)) == {
        "raw.raw_air_airport",
        "raw.raw_net_route",
    }
    assert not script.seen("load")


def test_a_new_column_is_added_before_the_load(airports, runner, script):
    from metadata.services.source_contracts import take_columns

    perform(queued(), runner)
    take_columns(source_dataset=airports["airport"], proposals=[{"name": "lid", "type": "string"}])
    run = perform(queued(), runner)
    operations = list(run.execution.operations.values_list("op", "qualified_name", "column_name"))
    assert operations == [
        ("add_column", "raw.raw_air_airport", "lid"),
        ("add_column", "rawcore.rc_air_airport", "lid"),
        ("add_column", "rawcore.rc_air_airport_hist", "lid"),
        ("add_column", "stage.stg_air_airport", "lid"),
    ]
    assert run.status == "succeeded"


@pytest.mark.parametrize(("policy", "is_warned"), [({"input": "delta"}, True), ({}, False)])
def test_load_warns_of_a_new_not_null_column_whose_stored_rows_have_no_value(
    airports, runner, script, policy: dict, is_warned: bool
):
    airport = TargetDataset.objects.get(name="rc_air_airport")
    targets.update_target_dataset(dataset=airport, expected_version=airport.version, history_policy=policy)
    perform(queued(), runner)
    create_source_column(source_dataset=airports["airport"], name="lid", type="string", nullable=False)
    generate_targets(source_dataset=airports["airport"])
    run = perform(queued(), runner)
    message = "'lid' is not null, and rows of the table have no value until they are delivered again"
    assert row(run, "rawcore.rc_air_airport").warnings == [message] * is_warned
    assert row(run, "raw.raw_air_airport").warnings == []
    assert row(perform(queued(), runner), "rawcore.rc_air_airport").warnings == []


@pytest.fixture
def overview(airports) -> TargetDataset:
    schema = TargetSchemaFactory(name="serving")
    select = "SELECT * FROM rawcore.rc_air_airport"
    return targets.create_target_dataset(schema=schema, name="overview", select=select, materialization="view")


@pytest.mark.full
@pytest.mark.parametrize("scope", [Scope(), Scope(SELECTION, "serving.*"), Scope(DATASET, "serving.overview")])
def test_load_creates_the_views_of_models_and_lists_them(overview, runner, script, scope):
    perform(queued(scope=Scope(DATASET, "rawcore.rc_air_airport")), runner)
    first, second = (perform(queued(scope=scope), runner) for _ in range(2))
    assert [run.status for run in (first, second)] == ["succeeded"] * 2
    assert first.details["views"] == {"serving.overview": "created or changed"}
    assert second.details["views"] == {"serving.overview": "up to date"}
    assert ending(second).endswith("view serving.overview: up to date")
    assert AppliedDataset.objects.filter(qualified_name="serving.overview").exists()


def test_view_that_needs_a_decision_does_not_block_the_load_of_tables(overview, runner, script, monkeypatch):
    pending = load_work.pending_changes

    def undecided(*, keys, **more):
        changes = pending(keys=keys, **more)
        return replace(changes, needing=("create_table serving.overview",)) if str(overview.key) in keys else changes

    monkeypatch.setattr(load_work, "pending_changes", undecided)
    run = perform(queued(), runner)
    assert run.status == "succeeded"
    assert run.details["views"]["serving.overview"].endswith("a user needs to decide: create_table serving.overview")


def test_dead_runner_fails_the_run_and_the_repeated_run_succeeds(airports, runner, script):
    script.tell(die_on="load")
    run = perform(queued(run_id="r"), runner)
    assert (run.status, run.error["code"]) == ("failed", "RUNNER_DIED")
    assert "killed by signal 9" in run.error["message"]
    assert set(run.datasets.values_list("status", flat=True)) == {"canceled"}
    script.tell()
    assert perform(queued(run_id="r"), runner).status == "succeeded"


def test_unexpected_error_fails_the_run(airports, runner, monkeypatch):
    monkeypatch.setattr("loader.services.loads.load_work.load_manifest", lambda **_: 1 / 0)
    run = perform(queued(), runner)
    assert (run.status, run.error["code"]) == ("failed", "UNEXPECTED")
    assert "ZeroDivisionError" in run.error["message"]


@pytest.mark.full
def test_cancel_of_a_running_load_cancels_its_datasets(airports, runner, script):
    script.tell(pause=30)
    run = queued()
    working = threading.Thread(target=perform, args=(run, runner))
    working.start()
    wait_until(lambda: run.datasets.filter(status="running").exists())
    request_cancel(run=run)
    working.join(10)
    run.refresh_from_db()
    assert (run.status, run.error["code"]) == ("canceled", "CANCELED")
    assert set(run.datasets.values_list("status", flat=True)) == {"canceled"}


@pytest.mark.full
def test_run_is_cancelled_although_the_runner_ignores_the_cancel(airports, runner, script, monkeypatch):
    monkeypatch.setattr("loader.runner.conversation.CANCEL_PATIENCE_SECONDS", 0.1)
    script.tell(deaf_on=["load"])
    run = queued()
    working = threading.Thread(target=perform, args=(run, runner))
    working.start()
    wait_until(lambda: script.seen("load"))
    request_cancel(run=run)
    working.join(15)
    run.refresh_from_db()
    assert run.status == "canceled"


@pytest.mark.full
def test_stopping_worker_fails_its_run(airports, runner, script):
    script.tell(pause=30)
    run, stopping = queued(), threading.Event()
    working = threading.Thread(target=perform, args=(run, runner), kwargs={"stopping": stopping})
    working.start()
    wait_until(lambda: run.datasets.filter(status="running").exists())
    stopping.set()
    working.join(10)
    run.refresh_from_db()
    assert (run.status, run.error["code"]) == ("failed", "WORKER_STOPPED")


def test_short_database_failure_does_not_end_the_run(airports, runner, monkeypatch):
    write, failures = LoadAttempt._rows, iter([OperationalError("away"), OperationalError("away")])

    def hiccup(self):
        for failure in failures:
            raise failure
        return write(self)

    monkeypatch.setattr(LoadAttempt, "_rows", hiccup)
    assert perform(queued(), runner).status == "succeeded"


def test_lost_attempt_cannot_write(airports):
    run = queued(run_id="r")
    old = attempt_of(claim(run_pk=run.pk, worker="w1"))
    rows = old.prepare(steps=attempts_steps())
    LoadRun.objects.update(heartbeat_at="2020-01-01T00:00:00Z")
    assert [str(job.load_run_row) for job in mark_lost()] == ["r"]
    queued(run_id="r")
    new = attempt_of(claim(run_pk=run.pk, worker="w2"))
    new.prepare(steps=attempts_steps())
    key = next(iter(rows))
    for write in (
        old.heartbeat,
        lambda: old.enter("loading"),
        lambda: old.say("hello"),
        lambda: old.dataset(key, "succeeded", counts={"rows": 1}),
        lambda: old.prepare(steps=attempts_steps()),
    ):
        with pytest.raises(Fenced):
            write()
    assert old.finish(status="succeeded") is None
    run.refresh_from_db()
    assert (run.status, run.attempt, run.claimed_by) == ("running", 2, "w2")
    assert set(run.datasets.values_list("status", flat=True)) == {"queued"}
    assert new.heartbeat() == "running"


def attempts_steps():
    from loader.services.loads.plans import plan_load
    from metadata.domain.scope import Scope

    return plan_load(Scope()).steps


def test_concurrent_runs_get_different_sequences_for_the_same_dataset(airports, in_threads):
    attempts_of_runs = [attempt_of(claim(run_pk=queued().pk, worker="w")) for _ in range(4)]
    results = in_threads(
        *(lambda attempt=attempt: attempt.prepare(steps=attempts_steps()) for attempt in attempts_of_runs)
    )
    for name in ("rawcore.rc_air_airport", "rawcore.rc_net_route"):
        numbers = sorted(r.sequence for rows in results for r in rows.values() if r.qualified_name == name)
        assert numbers == [1, 2, 3, 4]


def test_sequence_assignment_is_retried_after_a_concurrent_one(airports, monkeypatch):
    run = queued()
    first_attempt = attempt_of(claim(run_pk=run.pk, worker="w"))
    other = attempt_of(claim(run_pk=queued().pk, worker="w"))
    other.prepare(steps=attempts_steps())
    queries, newest = [], attempts._newest_sequences

    def stale(keys):
        queries.append(keys)
        return {} if len(queries) == 1 else newest(keys)

    monkeypatch.setattr(attempts, "_newest_sequences", stale)
    rows = first_attempt.prepare(steps=attempts_steps())
    assert len(queries) == 2
    assert {dataset.sequence for dataset in rows.values()} == {None, 2}


def test_cancelled_run_is_not_performed(airports, runner):
    run = queued()
    request_cancel(run=run)
    assert perform(run, runner) is None


# --- leases ----------------------------------------------------------------------------------


def test_failed_run_releases_its_leases(airports, runner, script):
    script.tell(fail={"raw.raw_air_airport": {"code": "MISSING_FILE", "message": "not there"}})
    assert perform(queued(), runner).status == "failed"
    assert not leases_held(environment=current_environment()).exists()


def test_run_waits_for_a_lease_and_succeeds_after_its_release(airports, runner, script):
    key = str(TargetDataset.objects.get(name="rc_net_route").key)
    other = Holder("execution", "7", 1)
    take_leases(environment=current_environment(), dataset_keys=[key], holder=other)
    run = queued()
    assert perform(run, runner) is None
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("queued", 0)
    assert run.phase.startswith("waiting: execution 7 writes to rawcore.rc_net_route")
    release_leases(environment=current_environment(), holder=other)
    assert perform(run, runner).status == "succeeded"


def test_lost_run_releases_its_leases(airports):
    run = queued()
    claim_with_leases(run_pk=run.pk, worker="w1")
    assert leases_held(environment=current_environment()).count() == 4
    LoadRun.objects.update(heartbeat_at="2020-01-01T00:00:00Z")
    mark_lost()
    assert not leases_held(environment=current_environment()).exists()


@pytest.mark.full
def test_damaged_table_fails_only_its_own_dataset(airports, runner, script):
    perform(queued(), runner)
    damaged = str(TargetDataset.objects.get(name="rc_net_route").key)
    script.add(unreadable=[damaged])
    run = perform(queued(), runner)
    assert (run.status, row(run, "rawcore.rc_air_airport").status) == ("failed", "succeeded")
    assert row(run, "rawcore.rc_net_route").error["code"] == "UNREADABLE_TABLE"
    assert len(script.seen("execute")) == 1  # of the first run; an unreadable table is not created again


def test_missing_table_fails_only_its_own_dataset(airports, runner, script):
    perform(queued(), runner)
    route = TargetDataset.objects.get(name="rc_net_route")
    there = script.told()["observed"]
    script.add(observed={key: table for key, table in there.items() if "rc_net_route" not in table["qualified_name"]})
    run = perform(queued(), runner)
    assert (run.status, row(run, "rawcore.rc_air_airport").status) == ("failed", "succeeded")
    assert row(run, str(route)).error["code"] == "TABLES_MISSING"
    assert "rawcore.rc_net_route" in row(run, str(route)).error["message"]
    assert len(script.seen("execute")) == 1  # of the first run; missing tables are not created again


# --- schemas of deliveries -----------------------------------------------------------------------


@pytest.mark.full
def test_delivery_with_another_schema_creates_a_proposal_of_its_run(airports, runner, script):
    script.tell(schemas={"raw.raw_air_airport": schema_of("airport", but=("name",), more=[{"name": "vip"}])})
    run = perform(queued(), runner)
    proposal = SourceProposal.objects.get()
    assert (run.status, proposal.status, proposal.run) == ("succeeded", "open", run)
    assert {change.kind for change in proposal.schema_changes} == {"gone", "new"}
    script.add(schemas={"raw.raw_air_airport": schema_of("airport")})
    assert perform(queued(), runner).status == "succeeded"
    proposal.refresh_from_db()
    assert proposal.status == "superseded"


@pytest.mark.full
def test_refused_delivery_creates_a_proposal(airports, runner, script):
    refusal = {"code": "MISSING_COLUMN", "message": "airport.csv lacks the column name", "column": "name"}
    schema = schema_of("airport", but=("name",))
    script.tell(fail={"raw.raw_air_airport": refusal}, schemas={"raw.raw_air_airport": schema})
    assert perform(queued(), runner).status == "failed"
    assert [change.describe() for change in SourceProposal.objects.get().schema_changes] == ["name is gone"]


def test_a_proposal_that_fails_does_not_fail_the_load(airports, runner, script, monkeypatch):
    def fail(**_):
        raise RuntimeError("no")

    monkeypatch.setattr("loader.services.loads.load_work.observe_delivery", fail)
    script.tell(schemas={"raw.raw_air_airport": [{"name": "x"}]})
    assert perform(queued(), runner).status == "succeeded"


def schema_of(name: str, *, but: tuple[str, ...] = (), more: list[dict] | None = None) -> list[dict]:
    """Return the schema of a delivery that fulfils a contract, without some columns and with others."""
    columns = SourceColumn.objects.filter(dataset__name=name, active=True)
    known = [{"name": column.name, "type": str(column.type)} for column in columns if column.name not in but]
    return [*known, *(more or [])]
