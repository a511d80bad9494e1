"""Views over a history: over one written by the engine, and over rows in each profile's layout."""

from dataclasses import replace
from datetime import date

import pytest

from architecture.domain.history_operations import operations_view
from architecture.domain.history_views import history_views
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.tables import history_table, raw_table, tables_of
from loader.engine.tables import steps
from loader.engine.tables.tables import DeltaTable, publish
from metadata.domain.history.history_policy import OPERATIONS, VIEWS
from metadata.domain.sql import quote_identifier
from metadata.domain.state import ColumnState, DatasetState
from tests.loader.harness import Dataset, stable

pytestmark = pytest.mark.spark


def rows(spark, query: str) -> list[tuple]:
    """Return rows as ordered tuples; times as text in UTC."""
    frame = spark.sql(query)
    texts = [
        f"date_format({quote_identifier(name)}, 'yyyy-MM-dd HH:mm:ss.SSS')" if type_ == "timestamp" else f"`{name}`"
        for name, type_ in frame.dtypes
    ]
    return sorted((tuple(row) for row in frame.selectExpr(*texts).collect()), key=str)


# --- history written by the engine -------------------------------------------------------------

JANUARY, FEBRUARY, MARCH = (f"2024-0{month}-01 00:00:00.000" for month in (1, 2, 3))


def define_views(spark, state: DatasetState) -> None:
    for statement in history_views(state):
        spark.sql(statement)


@pytest.fixture(scope="module")
def item(spark, tmp_path_factory) -> Dataset:
    """Return a dataset in which key 1 changes, key 2 is deleted and returns, and key 3 stays."""
    dataset = Dataset(spark, tmp_path_factory.mktemp("views"), name="viewed")
    dataset.evolve()  # tables of its own, not copies: the views find them by their names
    first, last = {"id": 3, "v": "c"}, {"id": 1, "v": "A"}
    deliveries = [
        [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, first],
        [last, first],
        [last, first, {"id": 2, "v": "b"}],
    ]
    for month, delivered in enumerate(deliveries, start=1):
        status, event = dataset.load(delivered, at=f"2024-0{month}-01T00:00:00Z")
        assert status == "succeeded", event
    state = DatasetState(**{**vars(dataset.state), "history_policy": {"views": list(VIEWS)}})
    publish(spark, dataset.history_spec, dataset.table(dataset.history_spec).location)
    define_views(spark, state)
    return dataset


def test_high_view_shows_a_high_end_for_open_versions(item: Dataset) -> None:
    versions = rows(item.spark, "SELECT id, v, version_ended_at FROM rawcore.rc_t_viewed_hist_high")
    high = "9999-12-31 23:59:59.999"
    assert versions == [(1, "A", high), (1, "a", FEBRUARY), (2, "b", FEBRUARY), (2, "b", high), (3, "c", high)]


def test_high_view_has_the_columns_of_the_history(item: Dataset) -> None:
    view = item.spark.table("rawcore.rc_t_viewed_hist_high")
    assert view.columns == [column.name for column in item.history_spec.columns]


def test_current_view_shows_open_versions_and_their_start(item: Dataset) -> None:
    versions = rows(item.spark, "SELECT id, v, version_started_at FROM rawcore.rc_t_viewed_hist_current")
    assert versions == [(1, "A", FEBRUARY), (2, "b", MARCH), (3, "c", JANUARY)]


def test_the_current_view_has_no_technical_columns_but_the_key(item: Dataset) -> None:
    view = item.spark.table("rawcore.rc_t_viewed_hist_current")
    assert view.columns == ["rc_t_viewed_key", "id", "v", "version_started_at"]


def test_periods_view_shows_each_version_with_its_interval(item: Dataset) -> None:
    versions = rows(item.spark, "SELECT id, v, __valid_from, __valid_to FROM rawcore.rc_t_viewed_hist_periods")
    assert versions == [
        (1, "A", FEBRUARY, None),
        (1, "a", JANUARY, FEBRUARY),
        (2, "b", JANUARY, FEBRUARY),
        (2, "b", MARCH, None),
        (3, "c", JANUARY, None),
    ]


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2023-12-31 23:59:59.999", []),
        ("2024-01-01", [(1, "a"), (2, "b"), (3, "c")]),
        ("2024-01-31 23:59:59.999999", [(1, "a"), (2, "b"), (3, "c")]),
        ("2024-02-01", [(1, "A"), (3, "c")]),
        ("2030-01-01", [(1, "A"), (2, "b"), (3, "c")]),
    ],
)
def test_as_of_returns_the_versions_valid_at_a_moment(item: Dataset, at: str, expected: list[tuple]) -> None:
    assert rows(item.spark, f"SELECT id, v FROM rawcore.rc_t_viewed_hist_as_of(TIMESTAMP '{at}')") == expected


def test_as_of_is_available_in_another_session(item: Dataset) -> None:
    other = item.spark.newSession()
    assert other.sql("SELECT * FROM rawcore.rc_t_viewed_hist_as_of(DATE '2024-02-01')").count() == 2


def test_changes_view_shows_inserts_updates_and_deletes_of_each_run(item: Dataset) -> None:
    changes = rows(item.spark, "SELECT __run_id, __change, id, v, __changed_at FROM rawcore.rc_t_viewed_hist_changes")
    assert changes == [
        ("run-1", "I", 1, "a", JANUARY),
        ("run-1", "I", 2, "b", JANUARY),
        ("run-1", "I", 3, "c", JANUARY),
        ("run-2", "D", 2, "b", FEBRUARY),
        ("run-2", "U", 1, "A", FEBRUARY),
        ("run-3", "I", 2, "b", MARCH),
    ]


def test_redefined_history_views_remain_readable(item: Dataset) -> None:
    state = DatasetState(**{**vars(item.state), "history_policy": {"views": ["current", "as_of"]}})
    define_views(item.spark, state)
    assert item.spark.table("rawcore.rc_t_viewed_hist_current").count() == 3


def test_history_views_follow_a_widened_column_type(item: Dataset) -> None:
    table = item.table(item.history_spec)
    item.spark.sql(f"ALTER TABLE {table.sql_name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    item.spark.sql(f"ALTER TABLE {table.sql_name} ALTER COLUMN id TYPE BIGINT")
    assert dict(item.spark.table("rawcore.rc_t_viewed_hist_periods").dtypes)["id"] == "bigint"


@pytest.mark.parametrize(("input_", "missing"), [("snapshot", "D"), ("delta", "X")])
def test_operations_view_shows_the_last_operation_of_each_key(spark, tmp_path, input_, missing):
    dataset = Dataset(spark, tmp_path, name=f"operations_{input_}", policy={"input": input_, "views": ["operations"]})
    dataset.evolve()
    state = replace(dataset.state, inputs=(dataset.raw_state.key,))
    name, query = operations_view(state, {dataset.raw_state.key: dataset.raw_state, state.key: state})
    changed, same = {"id": 1, "v": "a"}, {"id": 3, "v": "c"}
    deliveries = [[changed, {"id": 2, "v": "b"}, same], [changed | {"v": "A"}, same, {"id": 4, "v": "d"}]]
    shown = []
    for month, delivered in enumerate(deliveries, start=1):
        status, event = dataset.load(delivered, at=f"2024-0{month}-01T00:00:00Z")
        assert status == "succeeded", event
        for spec in (dataset.history_spec, raw_table(dataset.raw_state)):
            publish(spark, spec, dataset.table(spec).location)
        spark.sql(f"CREATE OR REPLACE VIEW {name} AS {query.sql}")
        shown.append(rows(spark, f"SELECT id, v, __operation, __effective_from FROM {name}"))
    assert shown == [
        [(1, "a", "I", JANUARY), (2, "b", "I", JANUARY), (3, "c", "I", JANUARY)],
        [(1, "A", "U", FEBRUARY), (2, "b", missing, FEBRUARY), (3, "c", "N", JANUARY), (4, "d", "I", FEBRUARY)],
    ]


# --- rows written by tests -----------------------------------------------------------------------


class Stored:
    """History with rows written by the test, and every view over it."""

    def __init__(self, spark, folder, name: str, policy: dict, columns: dict[str, str] | None = None) -> None:
        self.spark = spark
        described = {"id": "integer", "v": "string", **(columns or {})}
        self.state = DatasetState(
            stable("stored", name),
            "rawcore",
            "rawcore",
            f"rc_{name}",
            tuple(
                ColumnState(stable(name, column), column, type_, role="business_key" if column == "id" else "attribute")
                for column, type_ in described.items()
            ),
            historize=True,
            history_key=stable("stored hist", name),
            history_policy={**policy, "views": [view for view in VIEWS if view != OPERATIONS]},
        )
        self.spec = history_table(self.state)
        assert steps.execute(spark, str(folder), plan_steps(tables_of(self.state), {}), lambda *_, **__: None)
        self.location = DeltaTable(spark, str(folder), self.spec.key).location
        publish(spark, self.spec, self.location)
        define_views(spark, self.state)

    def insert(self, *versions: dict) -> "Stored":
        """Insert versions, given as SQL values by purpose or by the name of a described column."""
        for version in versions:
            values = {"entity_key": f"'{version['id']}'", "segment": "'closed'", **version}
            named = {c.name: values.get(c.name, values.get(c.purpose)) for c in self.spec.columns}
            listed = ", ".join(f"{value} AS `{name}`" for name, value in named.items() if value is not None)
            names = ", ".join(f"`{name}`" for name, value in named.items() if value is not None)
            self.spark.sql(f"INSERT INTO rawcore.{self.spec.name} ({names}) SELECT {listed}")
        return self

    def view(self, view: str, columns: str) -> list[tuple]:
        return rows(self.spark, f"SELECT {columns} FROM rawcore.{self.spec.name}_{view}")


def version(start: str, end: str | None, **values: str) -> dict:
    ended = {} if end is None else {"ended_at": end}
    return {"id": "1", "v": "'a'", "started_at": start, "run_id": "'r1'", **ended, **values}


def moment(text: str) -> str:
    return f"TIMESTAMP '2024-{text}'"


FILES = {"input": "batch_files", "time": "_fivetran_start"}
FOREVER = "TIMESTAMP '9999-12-31 23:59:59.999'"


@pytest.fixture(scope="module")
def files(spark, tmp_path_factory) -> Stored:
    return Stored(spark, tmp_path_factory.mktemp("files"), "files", FILES).insert(
        version(moment("01-01"), moment("01-31 23:59:59.999"), closed_by="'r2'"),
        version(moment("02-01"), moment("02-10 12:00:00"), v="'b'", run_id="'r2'", closed_by="'r3'"),
        version(moment("03-01"), FOREVER, v="'c'", run_id="'r4'", segment="'open'", active="true"),
        version(moment("01-01"), moment("01-05"), id="2", v="'x'"),
    )


def test_inclusive_ends_of_batch_files_become_half_open(files: Stored) -> None:
    assert files.view("periods", "id, v, __valid_to") == [
        (1, "a", FEBRUARY),
        (1, "b", "2024-02-10 12:00:00.001"),
        (1, "c", None),
        (2, "x", "2024-01-05 00:00:00.001"),
    ]


def test_as_of_includes_the_last_millisecond_of_a_batch_file_version(files: Stored) -> None:
    at = [f"SELECT v FROM rawcore.rc_files_hist_as_of({moment(m)}) WHERE id = 1" for m in ("02-10 12:00:00", "02-11")]
    assert [rows(files.spark, query) for query in at] == [[("b",)], []]


def test_changes_view_of_batch_files_shows_adjoining_versions_as_an_update(files: Stored) -> None:
    assert files.view("changes", "id, __change, __run_id, v") == [
        (1, "D", "r3", "b"),
        (1, "I", "r1", "a"),
        (1, "I", "r4", "c"),
        (1, "U", "r2", "b"),
        (2, "D", "r1", "x"),
        (2, "I", "r1", "x"),
    ]


def test_current_view_of_batch_files_shows_open_versions(files: Stored) -> None:
    assert files.view("current", "id, v, _fivetran_start") == [(1, "c", MARCH)]


@pytest.fixture(scope="module")
def tombstones(spark, tmp_path_factory) -> Stored:
    policy = {"deletes": "tombstone", "profile": "scd2", "state_labels": {"deleted": "it's gone"}}
    live, gone = "'live'", r"'it\'s gone'"
    return Stored(spark, tmp_path_factory.mktemp("tombstones"), "tombs", policy).insert(
        version(moment("01-01"), moment("02-01"), state=live, closed_by="'r2'"),
        version(moment("02-01"), moment("03-01"), state=gone, run_id="'r2'", closed_by="'r3'"),
        version(moment("03-01"), None, state=live, run_id="'r3'", segment="'open'", active="true"),
        version(moment("01-01"), moment("03-01"), id="2", state=live, closed_by="'r3'"),
        version(moment("03-01"), None, id="2", state=gone, run_id="'r3'", segment="'deleted'", active="false"),
    )


def test_periods_view_omits_tombstones(tombstones: Stored) -> None:
    assert tombstones.view("periods", "id, __valid_from, __valid_to") == [
        (1, JANUARY, FEBRUARY),
        (1, MARCH, None),
        (2, JANUARY, MARCH),
    ]


def test_changes_view_shows_a_tombstone_as_delete_and_the_return_as_insert(tombstones: Stored) -> None:
    assert tombstones.view("changes", "id, __changed_at, __change, __run_id") == [
        (1, JANUARY, "I", "r1"),
        (1, FEBRUARY, "D", "r2"),
        (1, MARCH, "I", "r3"),
        (2, JANUARY, "I", "r1"),
        (2, MARCH, "D", "r3"),
    ]


def test_current_view_omits_tombstones(tombstones: Stored) -> None:
    assert tombstones.view("current", "id") == [(1,)]


def test_views_of_a_history_dated_by_days_treat_its_open_end_as_open(spark, tmp_path) -> None:
    """Use a data column ``at``, too, which must not be confused with the function's parameter."""
    policy = {"input": "effective", "time": "at", "profile": "dbt", "open_end": "9999-12-31"}
    stored = Stored(spark, tmp_path, "days", policy, {"at": "date"}).insert(
        version("DATE '2024-01-01'", "DATE '2024-02-01'", at="DATE '2024-01-01'", closed_by="'r2'"),
        version("DATE '2024-02-01'", "DATE '9999-12-31'", at="DATE '2024-02-01'", v="'b'", run_id="'r2'"),
    )
    assert stored.view("periods", "v, __valid_to") == [("a", date(2024, 2, 1)), ("b", None)]
    assert rows(spark, "SELECT v FROM rawcore.rc_days_hist_as_of(DATE '2024-01-31')") == [("a",)]
    assert stored.view("changes", "__change, __run_id, __changed_at") == [
        ("I", "r1", date(2024, 1, 1)),
        ("U", "r2", date(2024, 2, 1)),
    ]


def test_history_views_read_a_history_dated_by_numbers(spark, tmp_path) -> None:
    policy = {"input": "cdc", "time": "seq", "op": "op"}
    stored = Stored(spark, tmp_path, "numbers", policy, {"seq": "bigint", "op": "string"}).insert(
        version("10", "20", seq="10", closed_by="'r2'"), version("20", None, seq="20", v="'b'", run_id="'r2'")
    )
    assert rows(spark, "SELECT v FROM rawcore.rc_numbers_hist_as_of(19)") == [("a",)]
    assert stored.view("high", "version_ended_at") == [(20,), (2**63 - 1,)]
