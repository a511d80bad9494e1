"""Quality checks in manifests, and their results and notices after a run."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from architecture.models import Environment
from architecture.selectors.dataset_states import described_states
from architecture.services.environments import current_environment
from elevata.accounts.services.users import grant_role
from elevata.core.errors import MetadataError
from elevata.notifications.models import Event, Notice
from loader.contract.refusals import Refusal
from loader.models import CheckResult, LoadRun, ReadRequest
from loader.services.loads.load_runs import request_load_run
from loader.services.loads.load_work import perform_load_run
from loader.services.quality import check_specs
from loader.services.quality_results import store_results
from loader.services.reads.manifests import read_manifest
from loader.services.reads.read_requests import QUALITY, request_read
from metadata.domain.state import DatasetState
from metadata.models import QualityCheck
from metadata.services.quality import create_check, retire_check
from tests.architecture.world import person
from tests.loader.airports import target
from tests.loader.factories import EnvironmentFactory
from tests.loader.services.loads.test_manifests import manifest

pytestmark = pytest.mark.django_db(transaction=True)

AIRPORT, ROUTE = "rawcore.rc_air_airport", "rawcore.rc_net_route"


def check(dataset: str, kind: str, severity: str = "warn", /, **arguments) -> QualityCheck:
    return create_check(dataset=target(dataset), name=kind, kind=kind, severity=severity, arguments=arguments)


def loads(**arguments) -> dict:
    made = manifest(**arguments)
    return {load.name: load for load in (*made.raw, *made.rawcore)}


def states_by_key() -> dict[str, DatasetState]:
    return {state.key: state for state in described_states(environment=current_environment())}


def result(row: QualityCheck, outcome: str = "warned", **values) -> dict:
    fields = {"key": str(row.key), "name": row.name, "kind": row.kind, "severity": row.severity, "outcome": outcome}
    return fields | values


def store(row: QualityCheck, run: LoadRun | None, *results: dict, environment: Environment | None = None) -> None:
    dataset = row.dataset
    store_results(
        dataset_key=str(dataset.key),
        dataset=dataset,
        name=str(dataset),
        environment=environment or current_environment(),
        results=results,
        run=run,
    )


def test_a_load_has_the_active_checks_of_its_dataset(airports):
    named = check(AIRPORT, "not_null", "stop", columns=["name"])
    retired = check(AIRPORT, "row_count", minimum="1")
    retire_check(check=retired, expected_version=1)
    check("raw.raw_air_airport", "unique", columns=["icao"])
    manifests = loads()
    (spec,) = manifests[AIRPORT].quality
    assert (spec.key, spec.severity, spec.arguments) == (str(named.key), "stop", {"columns": ["name"]})
    assert [spec.kind for spec in manifests["raw.raw_air_airport"].quality] == ["unique"]
    assert manifests[ROUTE].quality == ()


def test_a_dataset_waits_for_the_one_that_its_checks_read(airports):
    check(ROUTE, "relationship", columns=["origin"], dataset=AIRPORT, other_columns=["icao"])
    manifests = loads()
    (spec,) = manifests[ROUTE].quality
    assert spec.other.qualified_name == AIRPORT
    assert manifests[ROUTE].after == (str(target(AIRPORT).key),)
    assert manifests[AIRPORT].after == ()


def test_a_check_names_the_sensitive_columns_of_the_other_dataset(airports):
    target(AIRPORT).columns.filter(name="icao").update(pii=True)
    check(ROUTE, "total", aggregate="max", columns=["origin"], dataset=AIRPORT, other_columns=["icao"])
    (spec,) = loads()[ROUTE].quality
    assert "icao" in spec.other_sensitive


def test_query_check_reads_tables_and_the_rows_of_its_own_batch(airports):
    sql = f"SELECT r.route FROM {ROUTE} r JOIN {AIRPORT} a ON r.origin = a.icao WHERE a.elevation > 9000"
    check(ROUTE, "query", sql=sql)
    (spec,) = loads()[ROUTE].quality
    assert {table.qualified_name for _, table in spec.views} == {ROUTE, AIRPORT}
    assert dict(spec.views)[spec.own_view].qualified_name == ROUTE


def test_query_check_lists_sensitive_columns_of_its_tables_with_their_hashes(airports):
    target(AIRPORT).columns.filter(name="icao").update(pii=True)
    check(ROUTE, "query", sql=f"SELECT r.route FROM {ROUTE} r JOIN {AIRPORT} a ON r.origin = a.icao")
    (spec,) = loads()[ROUTE].quality
    assert {"icao", "rc_air_airport_key", "row_hash"} <= set(spec.other_sensitive)
    by_table = dict(spec.sensitive_by_table)
    assert (by_table[ROUTE], set(by_table[AIRPORT])) == ((), set(spec.other_sensitive))


def test_query_check_with_an_unknown_table_or_forbidden_function_has_a_problem(airports):
    check(ROUTE, "query", sql="SELECT 1 FROM rawcore.nothing")
    create_check(dataset=target(ROUTE), name="java", kind="query", arguments={"sql": "SELECT java_method('a', 'b')"})
    java, unknown = loads()[ROUTE].quality
    assert "the function java_method is not allowed" in java.problem
    assert "rawcore.nothing is no published table or view" in unknown.problem


def test_row_count_change_uses_the_counts_of_runs_that_were_not_stopped(airports):
    row = check(AIRPORT, "row_count_change", runs=5)
    for number, (value, outcome) in enumerate([(10, "passed"), (12, "warned"), (99, "stopped"), (11, "passed")]):
        run = request_load_run(run_id=f"r{number}", wake_worker=False).run
        store(row, run, result(row, outcome, value=float(value)))
    (spec,) = loads()[AIRPORT].quality
    assert spec.past == (11, 12, 10)


def test_former_row_counts_of_all_checks_are_read_by_one_query(airports, django_assert_max_num_queries):
    run = request_load_run(run_id="r", wake_worker=False).run
    environment, states = current_environment(), states_by_key()

    def read(dataset: str) -> None:
        row = check(dataset, "row_count_change")
        store(row, run, result(row, "passed", value=7.0))

    read(AIRPORT)
    with django_assert_max_num_queries(2) as few:
        check_specs(states.values(), states, environment=environment)
    read(ROUTE)
    with django_assert_max_num_queries(len(few)):
        specs = check_specs(states.values(), states, environment=environment)
    assert [spec.past for own in specs.values() for spec in own] == [(7,), (7,)]


def test_checks_are_found_by_name_if_the_dataset_has_another_key(airports):
    check(AIRPORT, "row_count", minimum="1")
    state = replace(states_by_key()[str(target(AIRPORT).key)], key=str(uuid4()), name="RC_AIR_AIRPORT")
    specs = check_specs([state], {state.key: state}, environment=current_environment())
    assert [spec.kind for spec in specs[state.key]] == ["row_count"]


def test_requested_checks_require_the_permission_to_read_other_datasets(airports):
    check(ROUTE, "relationship", columns=["origin"], dataset="raw.raw_air_airport", other_columns=["icao"])
    vera = person("vera")
    grant_role(user=vera, role="viewer", schema="rawcore")
    read = request_read(kind=QUALITY, dataset=target(ROUTE), user=vera, wake_worker=False).read
    with pytest.raises(MetadataError, match="raw.raw_air_airport: reading its data"):
        read_manifest(read=read)
    ReadRequest.objects.update(requested_by=None)
    assert len(read_manifest(read=ReadRequest.objects.get()).arguments["checks"]) == 1


def test_results_of_a_run_are_stored_with_notices_about_failed_checks(airports, runner, script):
    named, counted = check(AIRPORT, "not_null", columns=["name"]), check(AIRPORT, "row_count", minimum="1")
    failed = result(named, failed=2, total=3, samples=["icao=A"], tells=[str(target(AIRPORT).key)])
    script.tell(checked={AIRPORT: [failed, result(counted, "passed", value=3.0, low=1.0)]})
    run = perform_load_run(request_load_run(wake_worker=False).run.pk, worker="w1", runner=runner)
    first, second = CheckResult.objects.order_by("pk")
    assert (first.run, first.dataset, first.outcome) == (run, target(AIRPORT), "warned")
    assert (first.failed, first.total, first.samples) == (2, 3, ["icao=A"])
    assert (first.tells, second.tells) == ([str(target(AIRPORT).key)], [])
    assert (second.outcome, second.value, second.low) == ("passed", 3.0, 1.0)
    event = Event.objects.get(kind="quality.failed")
    assert event.title == f"1 check of {AIRPORT} failed in load run {run.run_id} in {run.environment}"
    assert event.facts == {"run": run.run_id, "checks": ["not_null"]}
    assert event.link == f"/datasets/{target(AIRPORT).key}/quality/"


def test_a_notice_is_settled_once_all_checks_pass_in_its_environment(airports):
    person("olga", "operator")
    row = check(AIRPORT, "not_null", columns=["name"])
    run = request_load_run(run_id="r", load_timestamp=datetime(2024, 5, 1, tzinfo=UTC), wake_worker=False).run
    store(row, run, result(row, failed=2, total=3))
    unread = Notice.objects.filter(event__kind="quality.failed", read_at__isnull=True)
    assert unread.count() == 1
    store(row, None, result(row, "passed", failed=0, total=3), environment=EnvironmentFactory(name="prod"))
    assert unread.count() == 1
    store(row, None, result(row, "passed", failed=0, total=3))
    assert unread.count() == 0


def test_results_of_a_repeated_attempt_replace_the_former_without_another_notice(airports):
    row = check(AIRPORT, "not_null", columns=["name"])
    run = request_load_run(run_id="r", load_timestamp=datetime(2024, 5, 1, tzinfo=UTC), wake_worker=False).run
    store(row, run, result(row, failed=2, total=3))
    store(row, run, result(row, failed=1, total=3))
    assert CheckResult.objects.get().failed == 1
    assert Event.objects.filter(kind="quality.failed").count() == 1


def failing_read(row: QualityCheck, user=None, dataset: str = AIRPORT) -> dict:
    read = request_read(
        kind="sample", dataset=target(dataset), arguments={"failing": str(row.key)}, user=user, wake_worker=False
    ).read
    return read_manifest(read=read).arguments


def test_read_of_failing_rows_has_the_check(airports):
    named = check(AIRPORT, "not_null", columns=["name"])
    spec = failing_read(named)["check"]
    assert (spec["key"], spec["kind"], spec["arguments"]) == (str(named.key), "not_null", {"columns": ["name"]})


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [("not_null", {"columns": ["name"]}), ("condition", {"condition": "length(NAME) > 1"})]
    + [("unique", {"columns": ["icao"], "where": "name > 'a'"})],
)
def test_failing_rows_of_a_check_that_compares_a_masked_column_are_refused(airports, kind, arguments):
    row, vera = check(AIRPORT, kind, **arguments), person("vera", "viewer")
    assert failing_read(row, vera)["check"]["kind"] == kind
    target(AIRPORT).columns.filter(name="name").update(pii=True)
    with pytest.raises(Refusal, match="compares name of rawcore.rc_air_airport, which is masked for you") as refused:
        failing_read(row, vera)
    assert refused.value.code == "MASKED_COLUMN"
    assert failing_read(row, person("sue", "steward"))["check"]["kind"] == kind


def test_failing_rows_of_a_check_against_a_masked_column_of_another_dataset_are_refused(airports):
    partner = {"columns": ["origin"], "dataset": AIRPORT, "other_columns": ["name"]}
    row, vera = check(ROUTE, "relationship", **partner), person("vera", "viewer")
    assert failing_read(row, vera, ROUTE)["check"]["kind"] == "relationship"
    target(AIRPORT).columns.filter(name="name").update(pii=True)
    with pytest.raises(Refusal, match="compares name of rawcore.rc_air_airport"):
        failing_read(row, vera, ROUTE)


def test_failing_rows_need_a_check_of_the_dataset_whose_kind_finds_rows(airports):
    counted, other = check(AIRPORT, "row_count", minimum="1"), check(ROUTE, "not_null", columns=["origin"])
    with pytest.raises(Refusal, match="of kind row_count, which no single row fails"):
        failing_read(counted)
    with pytest.raises(Refusal, match="has no such active check"):
        failing_read(other)
    with pytest.raises(Refusal, match="checks do not read rawcore.rc_air_airport_hist"):
        failing_read(counted, dataset=f"{AIRPORT}_hist")


def test_named_check_runs_without_the_datasets_others(airports):
    named, _ = check(AIRPORT, "not_null", columns=["name"]), check(AIRPORT, "row_count", minimum="1")
    read = request_read(
        kind=QUALITY, dataset=target(AIRPORT), arguments={"check": str(named.key)}, wake_worker=False
    ).read
    assert [spec["key"] for spec in read_manifest(read=read).arguments["checks"]] == [str(named.key)]
