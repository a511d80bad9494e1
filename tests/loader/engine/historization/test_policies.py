"""Every history policy on real Spark and Delta: the documented cases, and generated ones."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from loader.contract.refusals import Refusal
from loader.domain.reference import ReferenceEngine
from loader.domain.reference.cases import parse_cases
from loader.engine.replay import SparkEngine, replay
from metadata.domain.history.history_policy import HistoryPolicy
from tests.fixtures.spark import by_night, held_in_memory
from tests.loader.reference.test_properties import (
    COLUMNS,
    FILE_COLUMNS,
    INPUTS,
    START,
    Source,
    batch,
    comparable_rows,
    day,
    deletes,
    evidence,
    feed,
    files,
    track,
)

pytestmark = pytest.mark.spark

CASES = Path(__file__).parents[2] / "reference" / "cases"
CONTRACT = parse_cases((CASES / "contract.json").read_text())
OWN = [case for name in ("own.json", "acceptance.json") for case in parse_cases((CASES / name).read_text())]
# Cases of one test, which take some minutes; two processes share the tests.
CASES_PER_TEST = 20
# One example has four batches of two dozen rows over a dozen keys, and so a dozen histories.
EXAMPLES = int(os.environ.get("ELEVATA_SPARK_EXAMPLES", "1"))
BUDGET = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
    phases=[Phase.generate],  # no shrinking of failing examples, which would take hundreds of loads
)
many_keys = st.integers(1, 12)


# Cases of the contract that cover the elements of the others; the reference engine runs all cases by day.
CONTRACT_BY_DAY = {
    "snap-databricks-untracked-column-in-place",
    "snap-dbt-tombstone-delete-rerun-reinsert-delete",
    "snap-empty-snapshot-guard",
    "delta-composite-key-concatenation-collisions",
    "val-double-nan-negzero-inf",
    "eff-late-event-splits-history",
    "cdc-spark-late-upserts-split",
    "fivetran-doc-diagram-mixed-files",
    "schema-column-renamed",
}


@pytest.fixture(scope="module")
def outcomes(spark, tmp_path_factory):
    results = replay(
        spark, str(tmp_path_factory.mktemp("cases")), [case for case in CONTRACT if case.id in CONTRACT_BY_DAY]
    )
    return {outcome.id: outcome for outcome in results}


@pytest.mark.parametrize("case", sorted(CONTRACT_BY_DAY))
def test_contract_case_gives_the_expected_history_on_spark(outcomes, case):
    assert outcomes[case].message == ""


@pytest.mark.nightly
def test_every_contract_case_gives_the_expected_history_on_spark(spark, tmp_path):
    results = replay(spark, str(tmp_path), CONTRACT)
    assert {outcome.id: outcome.message for outcome in results if not outcome.passed} == {}


def test_cases_leave_nothing_in_memory(spark, outcomes):
    assert held_in_memory(spark) == []


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(0, len(OWN), CASES_PER_TEST))
def test_every_additional_case_gives_the_expected_history_on_spark(spark, tmp_path, first):
    results = replay(spark, str(tmp_path), OWN[first : first + CASES_PER_TEST])
    assert {outcome.id: outcome.message for outcome in results if not outcome.passed} == {}


class EnginePair:
    """Reference and Spark engine with the same batches, compared after each."""

    def __init__(self, spark, folder, policy, columns):
        described = {"id": f"{folder.name}", "keys": ["id"], "columns": columns, "policy": policy}
        self.reference = ReferenceEngine(described)
        self.engine = SparkEngine(spark, str(folder), self.reference.table.header)

    def apply(self, delivery):
        refusals = [self._refused(table, delivery) for table in (self.reference, self.engine)]
        assert refusals[0] == refusals[1], delivery
        assert self.of(self.engine) == self.of(self.reference), delivery
        return refusals[0] is None

    @staticmethod
    def _refused(table, delivery):
        try:
            table.apply(delivery)
        except Refusal as refusal:
            return refusal.code
        return None

    def of(self, table):
        """Return a table's versions; columns never delivered are NULL in a table, missing in the reference."""
        return comparable_rows(table, without=("segment",))


def batches_of(row_of, *, once=False):
    """Draw batches of rows; with ``once``, each key has one row in a batch."""
    spread = st.builds(lambda row, key: row | {"id": key}, row_of, many_keys)
    contents = st.lists(
        spread, min_size=4, max_size=24, unique_by=lambda r: r["id"] if once else (r["id"], r["t"], r.get("op") == "D")
    )
    twice = contents.flatmap(lambda rows: st.lists(st.sampled_from(rows), max_size=3).map(lambda again: rows + again))
    return st.lists(st.tuples(twice, st.sampled_from(Source.STEPS)), min_size=3, max_size=4)


# All inputs run at night; by day the one with the most kinds of rows: late rows, repeated rows and deletes.
BY_DAY = ("cdc",)


@pytest.mark.usefixtures("commit_path")
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in BY_DAY else pytest.mark.nightly) for n in INPUTS])
@BUDGET
@given(data=st.data())
def test_spark_engine_gives_the_history_of_the_reference_engine(spark, tmp_path_factory, name, data):
    policy_of, row_of, time_type = INPUTS[name]
    if name in ("snapshot", "delta"):
        row_of = row_of.map(lambda row: row | {"t": day(0)})
    columns = COLUMNS | {"t": time_type}
    policy = data.draw(policy_of)
    engines, source = EnginePair(spark, tmp_path_factory.mktemp("both"), policy, columns), Source(columns)
    once = "delete_detection" in policy
    for n, (records, step) in enumerate(data.draw(batches_of(row_of, once=once))):
        after, content = source.next(step, records)
        delivery = batch(3 * n, content | data.draw(evidence(policy, many_keys)))
        if engines.apply(delivery):
            source = after
            version = engines.engine._table(engines.engine._specs()[0]).version()
            engines.apply({**delivery, "rows": []})
            assert engines.engine._table(engines.engine._specs()[0]).version() == version


@pytest.mark.usefixtures("commit_path")
@BUDGET
@given(data=st.data())
def test_spark_history_of_batch_files_equals_the_reference(spark, tmp_path_factory, data):
    policy = {"input": "batch_files", "time": "_fivetran_start", "unmodified_string": "<same>"}
    engines = EnginePair(spark, tmp_path_factory.mktemp("files"), policy, FILE_COLUMNS)
    for n, content in enumerate(data.draw(st.lists(files(), min_size=3, max_size=5))):
        engines.apply(batch(n, content))


@pytest.mark.nightly
@pytest.mark.usefixtures("commit_path")
@pytest.mark.parametrize("horizon", [None, 3])
@BUDGET
@given(data=st.data())
def test_spark_history_of_late_feed_rows_equals_the_reference(spark, tmp_path_factory, horizon, data):
    policy = {"input": "cdc", "time": "t", "op": "op"} | data.draw(track) | data.draw(deletes)
    if horizon:
        policy["late_horizon"] = horizon
    engines = EnginePair(spark, tmp_path_factory.mktemp("order"), policy, COLUMNS | {"t": "timestamp"})
    late = st.builds(lambda row, key, back: row | {"id": key, "t": back}, feed, many_keys, st.integers(0, 2))
    for n in range(3, 7):
        drawn_rows = data.draw(st.lists(late, max_size=16, unique_by=lambda r: (r["id"], r["t"])))
        engines.apply(batch(n, [row | {"t": day(n - row["t"])} for row in drawn_rows]))


LOADS = {
    "dated rows": (
        {"input": "cdc", "time": "t", "op": "op"},
        [
            [{"id": 1, "a": "x", "t": 5, "op": "I"}, {"id": 2, "a": "x", "t": 5, "op": "I"}],
            [{"id": 1, "a": "y", "t": 3, "op": "U"}, {"id": 2, "t": 8, "op": "D"}],
        ],
    ),
    "snapshots": (
        {"input": "snapshot"},
        [[{"id": 1, "a": "x"}, {"id": 2, "a": "x"}], [{"id": 1, "a": "y"}, {"id": 3, "a": "z"}]],
    ),
}
AGAIN, INSTEAD = "the same run again", "another run instead"
KILLS = {
    "before the memory": "loader.engine.historization.events.event_batches.EventBatch.write_event_log",
    "before the history": "loader.engine.historization.versions.commit",
    "before a snapshot's history": "loader.engine.historization.history.commit",
}


@pytest.mark.nightly
@pytest.mark.usefixtures("commit_path")
@pytest.mark.parametrize(
    ("kind", "point", "then"),
    [
        pytest.param("dated rows", 0, AGAIN, marks=pytest.mark.nightly),
        pytest.param("dated rows", 0, INSTEAD, marks=pytest.mark.nightly),
        pytest.param("dated rows", 1, AGAIN, marks=pytest.mark.nightly),
        ("dated rows", 1, INSTEAD),
        ("snapshots", 2, AGAIN),
        pytest.param("snapshots", 2, INSTEAD, marks=pytest.mark.nightly),
    ],
)
def test_killed_run_does_not_affect_the_next_run(spark, tmp_path, monkeypatch, kind, point, then):
    policy, (first, second) = LOADS[kind]
    engines = EnginePair(spark, tmp_path, policy, {"id": "integer", "a": "string", "t": "bigint"})
    engines.apply(batch(0, first))
    with monkeypatch.context() as patch:

        def killed(*_args, **_kwargs):
            raise SystemError("killed")

        patch.setattr(list(KILLS.values())[point], killed)
        with pytest.raises(SystemError):
            engines.engine.apply(batch(1, second))
    if then == INSTEAD:
        engines.engine.sequences["run-1"] = 2  # its number is used up
        engines.apply(batch(2, [{"id": 1, "a": "z", "t": 4, "op": "U"}, {"id": 2, "a": "x", "t": 9, "op": "U"}]))
    else:
        engines.apply(batch(1, second))


def test_timestamps_with_an_offset_are_stored_as_utc_instants(spark, tmp_path):
    policy = HistoryPolicy.from_dict({"input": "effective", "time": "t"}).to_dict()
    engines = EnginePair(spark, tmp_path, policy, {"id": "integer", "a": "string", "t": "timestamp"})
    engines.apply(batch(0, [{"id": 1, "a": "x", "t": "2024-01-01T01:00:00+02:00"}]))
    (version,) = engines.engine.rows()
    assert version["valid_from"].isoformat() == "2023-12-31T23:00:00+00:00"
    assert version["valid_from"] < START


ODD = {
    "file": "string",
    "at": "integer",
    "kind": "string",
    "old": "string",
    "n": "float",
    "v": "string",
    "new row": "string",
}


@pytest.mark.nightly
@pytest.mark.usefixtures("commit_path")
@pytest.mark.parametrize(
    "policy",
    [
        by_night({"input": "snapshot"}, id="snapshot"),
        pytest.param({"input": "cdc", "time": "own", "op": "op"}, id="feed"),
        by_night({"input": "effective", "time": "own"}, id="effective"),
    ],
)
def test_history_loads_columns_with_arbitrary_names(spark, tmp_path, policy):
    described = {"id": "odd", "keys": ["file", "at"], "columns": ODD | {"own": "timestamp"}, "policy": policy}
    reference = ReferenceEngine(described)
    engine = SparkEngine(spark, str(tmp_path), reference.table.header)
    row = {"file": "f", "at": 1, "kind": "k", "old": "o", "n": 1.5, "v": "x", "new row": "r", "op": "I", "own": day(0)}
    for table in (reference, engine):
        table.apply(batch(1, [row, row | {"at": 2}]))
        table.apply(batch(2, [row | {"v": "y", "own": day(1), "op": "U"}]))
    assert comparable_rows(engine, without=("segment",)) == comparable_rows(reference, without=("segment",))


@pytest.mark.usefixtures("commit_path")
def test_history_of_batch_files_loads_columns_with_arbitrary_names(spark, tmp_path):
    policy = {"input": "batch_files", "time": "_fivetran_start"}
    described = {"id": "odd", "keys": ["file", "at"], "columns": ODD, "policy": policy}
    reference = ReferenceEngine(described)
    engine = SparkEngine(spark, str(tmp_path), reference.table.header)
    row = {"file": "f", "at": 1, "kind": "k", "old": "o", "n": 1.5, "v": "x", "new row": "r"}
    for table in (reference, engine):
        table.apply(
            batch(1, {"upsert": [row | {"_fivetran_start": day(1)}, row | {"v": "y", "_fivetran_start": day(2)}]})
        )
    assert comparable_rows(engine, without=("segment",)) == comparable_rows(reference, without=("segment",))
