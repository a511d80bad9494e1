"""Steps on real tables: verified, executed once despite interruptions, and reversible."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from architecture.domain.operations import Operation
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.statements import DROPPED_FOLDER, does_not_survive, place_of
from architecture.domain.steps.step import Step, steps_done
from architecture.domain.tables import ColumnSpec, ObservedTable, TableSpec
from loader.contract.manifest.executions import DownstreamQuery, DryRunManifest
from loader.contract.refusals import Refusal
from loader.engine.tables import dry_run, rebuilds, step_checks, steps
from loader.engine.tables.sizes import sizes
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sensitivity import MASK
from tests.architecture.states import inverses
from tests.fixtures.spark import by_night
from tests.loader.harness import stable

pytestmark = pytest.mark.spark

LONG = "ä" * 100 + "n" * 55


def column(name: str, type_: str = "string", of: str = "") -> ColumnSpec:
    return ColumnSpec(stable("steps", of or name), name, type_, "attribute")


class Killed(Exception):
    """Simulated death of the runner."""


class Warehouse:
    """Tables in a folder, the steps that ran on them, and their events."""

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder = spark, str(folder)
        self.events: list[dict] = []

    def spec(self, name: str, *columns: ColumnSpec, of: str = "", schema: str = "steps_test") -> TableSpec:
        parts = ("segment",) if any(c.name == "segment" for c in columns) else ()
        return TableSpec(stable(self.folder, of or name), schema, name, "rawcore", columns, parts)

    def table(self, spec: TableSpec) -> DeltaTable:
        return DeltaTable(self.spark, self.folder, spec.key)

    def observed(self, *specs: TableSpec) -> dict[str, ObservedTable]:
        return {spec.key: observation for spec in specs if (observation := self.table(spec).observe())}

    def version(self, spec: TableSpec) -> int:
        return self.table(spec).version()

    def make(self, spec: TableSpec, *rows: str) -> TableSpec:
        """Create the table with these rows of SQL values."""
        assert self.run(plan_steps([spec], {}))
        if rows:
            self.spark.sql(f"INSERT INTO {place_of(spec.key, self.folder)} VALUES {', '.join(rows)}")
        return spec

    def plan(self, *specs: TableSpec, operations: list[Operation] | None = None) -> tuple[Step, ...]:
        return plan_steps(specs, self.observed(*specs), operations)

    def run(self, planned: tuple[Step, ...], die_after: int | None = None, **more) -> bool:
        self.events = []

        def hear(event: str, **fields) -> None:
            self.events.append({"event": event} | fields)
            if event == "step_finished" and fields["ordinal"] == die_after:
                raise Killed

        return steps.execute(self.spark, self.folder, planned, hear, execution="7", **more)

    def rows(self, spec: TableSpec) -> list[dict]:
        return sorted((row.asDict() for row in self.table(spec).frame().collect()), key=str)

    @property
    def error(self) -> dict:
        return next(event["error"] for event in self.events if event.get("error"))


@pytest.fixture
def warehouse(spark, tmp_path) -> Warehouse:
    return Warehouse(spark, tmp_path / "warehouse")


@pytest.fixture
def items(warehouse) -> TableSpec:
    """Return a partitioned table with two rows, and every kind of column that the steps below change."""
    columns = (
        column("id", "integer"),
        column("a"),
        column("b"),
        column("Case"),
        column("we`ird né"),
        column("code", "string(5)"),
        column("on", "date"),
        column("amount", "decimal(10,2)"),
        column("segment"),
    )
    return warehouse.make(
        warehouse.spec("items", *columns),
        "(1, 'a1', 'b1', 'c1', 'w1', 'x', DATE'2024-01-31', 1.50, 'open')",
        "(2, 'a2', NULL, 'c2', 'w2', 'yy', NULL, 22.00, 'closed')",
    )


def changed(items: TableSpec, name: str = "items", schema: str = "steps_test") -> TableSpec:
    """Return the table's spec after the steps.

    Its columns are swapped, renamed, widened, rebuilt or narrowed, one is added, and the table is renamed.
    """
    return replace(
        items,
        name=name,
        schema=schema,
        columns=(
            column("id", "bigint"),
            column("b", of="a"),
            column("a", of="b"),
            column("case", of="Case"),
            column(LONG, of="we`ird né"),
            column("code", "string(9)"),
            column("on", "timestamp"),
            column("amount", "decimal(6,1)"),
            column("segment"),
            column("select"),
        ),
    )


EXPECTED = [
    {"id": 1, "b": "a1", "a": "b1", "case": "c1", LONG: "w1", "code": "x", "segment": "open", "select": None},
    {"id": 2, "b": "a2", "a": None, "case": "c2", LONG: "w2", "code": "yy", "segment": "closed", "select": None},
]


def without_measures(rows: list[dict]) -> list[dict]:
    return [{name: value for name, value in row.items() if name not in ("on", "amount")} for row in rows]


@pytest.mark.nightly
def test_every_kind_of_column_change_is_executed_and_undone_without_loss_of_rows(warehouse, items):
    rows, shape = warehouse.rows(items), structure(warehouse, items)
    wanted = changed(items, "things", "steps_other")
    done = executed(warehouse, warehouse.plan(wanted))
    new_rows = warehouse.rows(wanted)
    assert without_measures(new_rows) == EXPECTED
    assert [(str(row["on"]), str(row["amount"])) for row in new_rows] == [
        ("2024-01-31 00:00:00", "1.5"),
        ("None", "22.0"),
    ]
    assert structure(warehouse, wanted) == {(c.name, c.type, c.key) for c in wanted.columns}
    assert warehouse.observed(wanted)[wanted.key].partition_by == ("segment",)
    assert warehouse.spark.table("steps_other.things").count() == 2
    assert not warehouse.spark.catalog.tableExists("steps_test.items")
    assert warehouse.plan(wanted) == ()
    assert warehouse.run(inverses(done))
    assert (warehouse.rows(items), structure(warehouse, items)) == (rows, shape)


def structure(warehouse: Warehouse, spec: TableSpec) -> set[tuple]:
    return {(c.name, c.type, c.key) for c in warehouse.observed(spec)[spec.key].columns}


def test_commits_name_their_execution_and_events_the_table_versions(warehouse, items):
    before = warehouse.version(items)
    wanted = replace(items, columns=(*items.columns, column("n")))
    assert warehouse.run(warehouse.plan(wanted))
    started, finished = warehouse.events
    assert (started["version_before"], finished["version_after"]) == (before, before + 2)
    assert "ADD COLUMNS (`n` STRING)" in started["statement"]
    for version in (before + 1, before + 2):
        signed = [a["commitInfo"] for a in warehouse.table(items).commit(version) if "commitInfo" in a]
        assert json.loads(signed[0]["userMetadata"]) == {"what": "execution", "execution": "7", "step": 0}


@pytest.mark.nightly
def test_execution_killed_after_any_step_completes_each_step_once(warehouse, items):
    wanted = changed(items)
    planned = warehouse.plan(wanted)
    versions = [warehouse.version(items)]
    for ordinal in range(len(planned)):
        with pytest.raises(Killed):
            warehouse.run(planned, die_after=ordinal)
        versions.append(warehouse.version(items))
        assert steps_done(planned, warehouse.observed(items)[items.key]) == ordinal + 1
    assert warehouse.run(planned)
    assert warehouse.version(items) == versions[-1]
    # A step has one commit, another one if it stores keys of new columns, and another one for a table feature.
    tied = [step.op in ("add_column", "rebuild_table", "retype_column") for step in planned]
    featured = [bool(step.missing_features) for step in planned]
    commits = [1 + sum(also) for also in zip(tied, featured, strict=True)]
    assert [b - a for a, b in zip(versions, versions[1:], strict=False)] == commits
    # The table was created with column mapping because of the blank in a name.
    assert [step.op for step in planned if step.missing_features] == ["widen_column"]
    assert without_measures(warehouse.rows(wanted)) == EXPECTED


def test_execution_killed_before_storing_column_keys_stores_only_the_keys_later(warehouse, items, monkeypatch):
    planned = warehouse.plan(replace(items, columns=(*items.columns, column("n"))))

    def die(*_):
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(steps._Execution, "_store_column_keys", die)
        assert not warehouse.run(planned)
    before = warehouse.version(items)
    assert warehouse.run(planned)
    assert warehouse.version(items) == before + 1
    assert warehouse.observed(items)[items.key].columns[-1].key == column("n").key


def test_execution_refuses_recorded_steps_that_the_table_does_not_show(warehouse, items):
    planned = warehouse.plan(replace(items, columns=(*items.columns, column("n"))))
    assert not warehouse.run(planned, done=(0,))
    assert warehouse.error["code"] == "TABLE_MOVED"
    assert warehouse.run(planned)
    assert warehouse.run(planned, done=(0,))
    assert warehouse.events == []


def test_cancel_stops_the_execution_before_the_next_step(warehouse, items):
    stop = threading.Event()
    stop.set()
    before = warehouse.version(items)
    assert not warehouse.run(warehouse.plan(changed(items)), canceled=stop)
    assert (warehouse.version(items), warehouse.events) == (before, [])


def test_steps_are_refused_before_the_first_statement_if_a_value_does_not_fit(warehouse, items):
    before = warehouse.version(items)
    wanted = replace(
        items, columns=(column("ident", "bigint", of="id"), *items.columns[1:7], column("amount", "integer"))
    )
    assert not warehouse.run(warehouse.plan(wanted))
    error = warehouse.error
    assert (error["code"], error["count"], error["samples"]) == ("CAST_FAILS", 1, ["'1.50'"])
    assert warehouse.version(items) == before


def test_values_of_a_sensitive_column_are_in_no_refusal(warehouse, items):
    wanted = replace(items, columns=(*items.columns[:7], column("amount", "integer"), *items.columns[8:]))
    assert not warehouse.run(warehouse.plan(wanted), sensitive=[column("amount").key])
    assert (warehouse.error["code"], warehouse.error["count"]) == ("CAST_FAILS", 1)
    assert "samples" not in warehouse.error
    assert not warehouse.run(warehouse.plan(wanted), sensitive=[column("a").key])
    assert warehouse.error["samples"] == ["'1.50'"]


def retype(items: TableSpec, name: str, to: str) -> Operation:
    retyped = column(name)
    return Operation("retype_column", "t", items.key, column=name, column_key=retyped.key, from_="string", to=to)


@pytest.mark.parametrize("to", [by_night("uuid"), by_night("time"), "json"])
def test_retype_to_a_type_stored_as_text_is_refused_if_texts_do_not_fit(warehouse, items, to):
    before = warehouse.version(items)
    assert not warehouse.run(warehouse.plan(items, operations=[retype(items, "a", to)]))
    assert (warehouse.error["code"], warehouse.error["samples"]) == ("CAST_FAILS", ["'a1'", "'a2'"])
    assert warehouse.version(items) == before


def test_retype_to_a_type_stored_as_text_writes_nothing_if_texts_fit(warehouse):
    table = warehouse.make(warehouse.spec("told", column("v")), "('12:30')", "(NULL)")
    before = warehouse.version(table)
    assert warehouse.run(warehouse.plan(table, operations=[retype(table, "v", "time")]))
    assert warehouse.version(table) == before


def test_not_null_step_is_refused_if_the_column_has_nulls(warehouse, items):
    check = Operation("change_logic", "t", items.key, column="b", column_key=column("b").key, code="NOT_NULL")
    assert not warehouse.run(warehouse.plan(items, operations=[check]))
    assert (warehouse.error["code"], warehouse.error["count"]) == ("NULLS_FOUND", 1)
    assert '"id":2' in warehouse.error["samples"][0]
    full = replace(check, column="a", column_key=column("a").key)
    assert warehouse.run(warehouse.plan(items, operations=[full]))


def test_a_table_that_was_changed_by_hand_refuses_the_steps(warehouse, items):
    planned = warehouse.plan(changed(items))
    warehouse.spark.sql(f"ALTER TABLE {place_of(items.key, warehouse.folder)} RENAME COLUMN b TO by_hand")
    before = warehouse.version(items)
    assert not warehouse.run(planned)
    assert warehouse.error["code"] == "TABLE_MOVED"
    assert "by_hand" in warehouse.error["message"]
    assert warehouse.version(items) == before


@pytest.mark.nightly
def test_rebuild_with_a_row_mismatch_is_rolled_back(warehouse, items, monkeypatch):
    wanted = replace(items, columns=(column("id", "string"), *items.columns[1:]))
    rows = warehouse.rows(items)
    with monkeypatch.context() as wrong:
        wrong.setattr(rebuilds, "_rows_written", lambda table, before: 1)
        assert not warehouse.run(warehouse.plan(wanted))
    assert warehouse.error["code"] == "REBUILD_MISMATCH"
    assert warehouse.rows(items) == rows
    assert warehouse.run(warehouse.plan(wanted))
    assert [row["id"] for row in warehouse.rows(wanted)] == ["1", "2"]


@pytest.mark.nightly
def test_tables_swap_their_names(warehouse):
    first, two = (warehouse.make(warehouse.spec(name, column("x")), f"('{name}')") for name in ("left_", "right_"))
    wanted = replace(first, name="right_"), replace(two, name="left_")
    assert warehouse.run(warehouse.plan(*wanted))
    assert warehouse.spark.table("steps_test.right_").first().x == "left_"
    assert warehouse.spark.table("steps_test.left_").first().x == "right_"


def executed(warehouse: Warehouse, planned: tuple[Step, ...]) -> list[tuple[Step, int | None]]:
    assert warehouse.run(planned)
    versions = [event["version_before"] for event in warehouse.events if event["event"] == "step_started"]
    return list(zip(planned, versions, strict=True))


def test_undo_refuses_to_remove_values_written_since(warehouse, items):
    place = place_of(items.key, warehouse.folder)
    wider = replace(items, columns=(column("id", "bigint"), *items.columns[1:], column("n")))
    done = executed(warehouse, warehouse.plan(wider))
    warehouse.spark.sql(f"UPDATE {place} SET n = 'by now' WHERE id = 1")
    before = warehouse.version(items)
    for step, code in zip(inverses(done), ("COLUMN_NOT_EMPTY", "WRITTEN_SINCE"), strict=True):
        with pytest.raises(Refusal) as refused:
            step_checks.check(step, warehouse.table(items))
        assert refused.value.code == code
    assert not warehouse.run(inverses(done))
    assert warehouse.version(items) == before


def test_undo_of_a_dropped_table_restores_its_rows(warehouse, items):
    rows = warehouse.rows(items)
    gone = [Operation("drop_table", items.qualified_name, items.key)]
    done = executed(warehouse, plan_steps([], warehouse.observed(items), gone))
    assert not warehouse.spark.catalog.tableExists("steps_test.items")
    assert warehouse.observed(items)[items.key].dropped
    assert warehouse.run(inverses(done))
    assert warehouse.spark.table("steps_test.items").count() == len(rows)
    assert warehouse.rows(items) == rows


@pytest.mark.nightly
def test_a_new_table_in_the_place_of_a_dropped_one_is_empty(warehouse, items):
    gone = [Operation("drop_table", items.qualified_name, items.key)]
    place = place_of(items.key, warehouse.folder)
    warehouse.spark.conf.set("spark.databricks.delta.write.txnAppId", items.key)
    warehouse.spark.conf.set("spark.databricks.delta.write.txnVersion", "7")
    try:
        warehouse.spark.sql(f"UPDATE {place} SET a = 'by a run' WHERE id = 1")
    finally:
        warehouse.spark.conf.unset("spark.databricks.delta.write.txnAppId")
        warehouse.spark.conf.unset("spark.databricks.delta.write.txnVersion")
    assert warehouse.table(items).committed_sequence(items.key) == 7
    assert warehouse.run(plan_steps([], warehouse.observed(items), gone))
    new = replace(items, columns=(column("id", "bigint"), column("code", "string(7)"), column("segment")))
    planned = warehouse.plan(new)
    assert [step.op for step in planned] == ["create_table"]
    assert warehouse.run(planned)
    assert warehouse.rows(new) == []
    assert plan_steps([new], warehouse.observed(new)) == ()
    assert warehouse.table(new).committed_sequence(new.key) == -1
    (folder,) = (Path(warehouse.folder) / DROPPED_FOLDER).iterdir()
    assert warehouse.spark.read.format("delta").load(str(folder)).count() == 2


# --- observation and dry runs -----------------------------------------------------------------


def test_sizes_returns_rows_bytes_and_version_of_existing_tables(warehouse, items):
    warehouse.spark.sql(f"DELETE FROM {place_of(items.key, warehouse.folder)} WHERE id = 2")
    measurements = sizes(warehouse.spark, warehouse.folder, [items.key, stable("nowhere")])
    assert set(measurements) == {items.key}
    assert measurements[items.key]["rows"] == 1
    assert measurements[items.key]["version"] == warehouse.version(items)
    assert measurements[items.key]["bytes"] > 0


def dry_run_result(
    warehouse: Warehouse,
    planned: tuple[Step, ...],
    *queries: DownstreamQuery,
    canceled: threading.Event | None = None,
    hear: Callable[..., None] = lambda *_, **__: None,
    **more,
) -> Any:
    manifest = DryRunManifest("a-1", planned, queries=queries, **more)
    return dry_run.dry_run(warehouse.spark, warehouse.folder, manifest, hear, canceled)


@pytest.mark.core
def test_a_dry_run_shows_before_and_after_and_leaves_nothing_behind(warehouse, items):
    schemas = [row[0] for row in warehouse.spark.sql("SHOW SCHEMAS").collect()]
    version = warehouse.version(items)
    wanted = replace(items, name="things", columns=(column("id", "bigint"), column("b", of="a"), *items.columns[3:]))
    queries = (
        DownstreamQuery("still", "CREATE OR REPLACE VIEW v AS SELECT id FROM `steps_test`.`items`"),
        DownstreamQuery("by_hand", "SELECT id FROM nowhere.at_all"),
    )
    after = DownstreamQuery("later", "SELECT b, t.id FROM steps_test.things t WHERE t.b <> 'steps_test.things'")
    result = dry_run_result(warehouse, warehouse.plan(wanted), *queries, after=(after,))
    assert (result["succeeded"], result["error"]) == (True, None)
    table = result["tables"][items.key]
    assert (table["before"]["name"], table["after"]["name"]) == ("steps_test.items", "steps_test.things")
    assert (table["before"]["rows"], table["after"]["rows"]) == (2, 2)
    assert [(c["name"], c["type"]) for c in table["after"]["columns"]][:2] == [("id", "bigint"), ("b", "string")]
    assert sorted(row[0] for row in table["after"]["samples"]) == ["1", "2"]
    assert {query["name"]: query["breaks"] for query in result["queries"]} == {
        "still": True,
        "by_hand": False,
        "later": False,
    }
    assert warehouse.version(items) == version
    assert [row[0] for row in warehouse.spark.sql("SHOW SCHEMAS").collect()] == schemas
    assert list((Path(warehouse.folder) / dry_run.FOLDER).iterdir()) == []


@pytest.mark.nightly
def test_a_dry_run_masks_sensitive_values_before_and_after(warehouse, items):
    wanted = replace(items, columns=(column("id", "bigint"), column("renamed", of="a"), *items.columns[2:]))
    result = dry_run_result(warehouse, warehouse.plan(wanted), sensitive=(column("a").key,))
    for side in ("before", "after"):
        rows = result["tables"][items.key][side]
        at = [entry["key"] for entry in rows["columns"]].index(column("a").key)
        assert {row[at] for row in rows["samples"]} == {MASK}
        assert "b1" in {row[2] for row in rows["samples"]}


def test_failed_dry_run_names_its_step_and_leaves_nothing_behind(warehouse, items):
    wanted = replace(items, columns=(column("id", "date"), *items.columns[1:]))
    version = warehouse.version(items)
    result = dry_run_result(warehouse, warehouse.plan(wanted))
    assert (result["succeeded"], result["error"]["code"]) == (False, "CAST_FAILS")
    assert result["steps"][0]["status"] == "failed"
    assert warehouse.version(items) == version
    assert list((Path(warehouse.folder) / dry_run.FOLDER).iterdir()) == []


def test_cancelled_dry_run_stops_after_its_step_and_leaves_nothing_behind(warehouse, items):
    canceled, events = threading.Event(), []

    def cancel_at_first_step(event: str, **_: object) -> None:
        events.append(event)
        canceled.set()

    wanted = replace(items, name="things", columns=(column("id", "bigint"), column("b", of="a"), *items.columns[3:]))
    version = warehouse.version(items)
    assert dry_run_result(warehouse, warehouse.plan(wanted), canceled=canceled, hear=cancel_at_first_step) is None
    assert events == ["step_started", "step_finished"]
    assert warehouse.version(items) == version
    assert list((Path(warehouse.folder) / dry_run.FOLDER).iterdir()) == []


def test_next_dry_run_deletes_leftovers_of_a_killed_dry_run(warehouse, items):
    leftover = Path(warehouse.folder) / dry_run.FOLDER / "dead"
    leftover.mkdir(parents=True)
    warehouse.spark.sql("CREATE SCHEMA __dry_run_dead_steps_test")
    assert dry_run_result(warehouse, ())["succeeded"]
    assert not leftover.exists()
    assert "__dry_run_dead_steps_test" not in [row[0] for row in warehouse.spark.sql("SHOW SCHEMAS").collect()]


# --- values ----------------------------------------------------------------------------------

CASES = [
    ("2147483648L", "bigint", "integer", True),
    ("7L", "bigint", "integer", False),
    ("9007199254740993L", "bigint", "float", True),
    ("1.25BD", "decimal(10,2)", "decimal(10,1)", True),
    ("1.50BD", "decimal(10,2)", "decimal(10,1)", False),
    ("12.00BD", "decimal(10,2)", "integer", False),
    ("123456.00BD", "decimal(10,2)", "decimal(6,2)", True),
    ("0.1BD", "decimal(2,1)", "float", False),
    ("1.5D", "float", "integer", True),
    ("2D", "float", "integer", False),
    ("CAST('NaN' AS DOUBLE)", "float", "decimal(10,2)", True),
    ("'abcdef'", "string", "string(5)", True),
    ("'abcde'", "string", "string(5)", False),
    ("123456", "integer", "string(5)", True),
    ("'12'", "string", "integer", False),
    ("'1.9'", "string", "integer", True),
    ("'x'", "string", "integer", True),
    ("'1.239'", "string", "decimal(10,2)", True),
    ("'1.5'", "string", "decimal(10,2)", False),
    ("'yes'", "string", "boolean", False),
    ("'2024-01-31'", "string", "date", False),
    ("'2024-01-31 10:00:00'", "string", "date", True),
    ("'2024-02-31'", "string", "date", True),
    ("'2024-01-31 10:00:00'", "string", "timestamp", False),
    ("'10:00:00'", "time", "timestamp", True),
    ("TIMESTAMP'2024-01-31 10:00:00'", "timestamp", "date", True),
    ("TIMESTAMP'2024-01-31 00:00:00'", "timestamp", "date", False),
    ("DATE'2024-01-31'", "date", "timestamp", False),
    ("DATE'2024-01-31'", "date", "integer", True),
    ("true", "boolean", "integer", True),
    ("true", "boolean", "string", False),
    ("X'ff'", "binary", "string", True),
    ("X'61'", "binary", "string", False),
    ("1", "integer", "date", True),
    ("CAST(NULL AS INT)", "integer", "date", False),
    ("'0d9f3c1e-7a52-4b18-9c44-5a2f6e8b1d07'", "string", "uuid", False),
    ("'0d9f3c1e-7a52-4b18-9c44-5a2f6e8b1d07\\n'", "string", "uuid", True),
    ("'0d9f3c1e'", "string(20)", "uuid", True),
    ("'23:59:59.999999'", "string", "time", False),
    ("'24:00'", "string", "time", True),
    ("' 12:30'", "string", "time", True),
    ("'12:30'", "uuid", "time", False),
    ("'{\"a\": [1, null]}'", "string", "json", False),
    ("'{\"a\": 1} x'", "string", "json", True),
    ("'1, 2'", "string", "json", True),
    ("''", "string", "json", True),
    ("CAST(NULL AS STRING)", "string", "json", False),
]


def test_does_not_survive_detects_values_that_a_type_cannot_hold(spark):
    expressions = [
        f"{does_not_survive(value, before, after)} AS c{i}" for i, (value, before, after, _) in enumerate(CASES)
    ]
    answers = spark.sql(f"SELECT {', '.join(expressions)}").first()
    assert [(case[:3], answer) for case, answer in zip(CASES, answers, strict=True)] == [
        (case[:3], case[3]) for case in CASES
    ]


@pytest.mark.nightly
def test_renames_and_widenings_of_a_million_rows_write_less_than_a_megabyte(warehouse):
    spec = warehouse.spec("many", column("id", "integer"), column("a"), column("b"))
    warehouse.make(spec)
    rows = warehouse.spark.range(1_000_000).selectExpr("CAST(id AS INT) id", "uuid() a", "uuid() b")
    rows.write.format("delta").mode("append").save(warehouse.table(spec).location)
    files = Path(warehouse.table(spec).location)

    def disk_bytes() -> int:
        return sum(file.stat().st_size for file in files.rglob("*") if file.is_file())

    before = disk_bytes()
    wanted = replace(spec, name="lots", columns=(column("id", "bigint"), column("b", of="a"), column("a", of="b")))
    assert warehouse.run(warehouse.plan(wanted))
    assert before > 10_000_000
    assert disk_bytes() - before < 1_000_000
    assert warehouse.table(spec).rows() == 1_000_000
