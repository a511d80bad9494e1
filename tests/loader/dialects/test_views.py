"""Views: those over a history after rendered loads, and those with described columns over raw texts."""

import os
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.dialects.catalog import DIALECTS
from loader.dialects.refusals import NotRendered
from loader.dialects.views import DescribedView, HistoryView, views_of
from loader.domain.historization.history import parse_instant
from loader.domain.reference import ReferenceEngine
from loader.domain.reference.table import Header
from loader.services.sql_replay import SqlEngine
from metadata.domain.history.history_policy import OPERATIONS, VIEWS
from tests.loader.dialects.engines import ENGINES, connection_to, run_all
from tests.loader.dialects.test_text_loads import ROWS, deliver, load_of
from tests.loader.reference.operations import last_operations

NUMBERS = count()
EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
EXAMPLES = 100 if os.environ.get("ELEVATA_EXAMPLES") == "night" else 12
DAYS = ["2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "2026-11-03T00:00:00Z"]
DELIVERIES = [[("a", "1"), ("b", "1")], [("a", "2")], [("a", "2"), ("b", "1")]]
POLICIES = {
    "plain": {},
    "tombstones": {"deletes": "tombstone"},
    "dbt with an open end": {"profile": "dbt", "open_end": "9999-12-31"},
    "scd2": {"profile": "scd2"},
}


def loaded_engine(engine: str, policy: dict) -> SqlEngine:
    """Return an engine with the history of three deliveries: a changes, b is deleted and returns."""
    described = {"id": f"views-{next(NUMBERS)}", "keys": ["id"], "columns": {"id": "string", "v": "string"}}
    header = Header.from_dict(described | {"policy": {"input": "snapshot", "views": list(VIEWS)} | policy})
    rendered = SqlEngine(DIALECTS[engine], connection_to(engine), header)
    for number, (at, rows) in enumerate(zip(DAYS, DELIVERIES, strict=True)):
        delivered = [{"id": key, "v": value} for key, value in rows]
        batch = {"run_id": f"run-{number}", "at": at, "rows": delivered, "allow_deletes": True}
        rendered.apply(batch)
    return rendered


def rows_of(rendered: SqlEngine, kind: str, *selected: str) -> list[tuple]:
    """Create a view and return its rows; a name with a colon is a time, as microseconds."""
    dialect, connection = rendered.dialect, rendered.connection
    (view,) = [view for view in views_of(rendered.tables.state) if getattr(view, "kind", "") == kind]
    run_all(connection, dialect.create_view(view.name, view.query(dialect)))
    names = [dialect.microseconds(dialect.identifier(name[1:])) if name[0] == ":" else name for name in selected]
    return sorted(connection.rows(f"SELECT {', '.join(names)} FROM {dialect.table(view.name)}"), key=str)


def day(number: int) -> int:
    """Return the microseconds of a delivery since 1970."""
    return 1_793_491_200_000_000 + number * 86_400_000_000


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_views_over_a_history_show_its_versions(engine, policy):
    rendered = loaded_engine(engine, policy)
    assert rows_of(rendered, "current", "id", "v") == [("a", "2"), ("b", "1")]
    assert rows_of(rendered, "periods", "id", "v", ":__valid_from", ":__valid_to") == [
        ("a", "1", day(0), day(1)),
        ("a", "2", day(1), None),
        ("b", "1", day(0), day(1)),
        ("b", "1", day(2), None),
    ]
    assert rows_of(rendered, "changes", "id", "v", "__change", "__run_id", ":__changed_at") == [
        ("a", "1", "I", "run-0", day(0)),
        ("a", "2", "U", "run-1", day(1)),
        ("b", "1", "D", "run-1", day(1)),
        ("b", "1", "I", "run-0", day(0)),
        ("b", "1", "I", "run-2", day(2)),
    ]
    ends = rows_of(rendered, "high_end_date", f":{rendered.tables.tables[1].column('ended_at').name}")
    assert sum(end > day(10) for (end,) in ends) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_described_view_has_the_typed_rows_of_the_newest_delivery(engine):
    load = load_of({"id": "string", "n": "integer", "m": "decimal(10,2)", "d": "date", "o": "boolean"})
    deliver(engine, load, ROWS)
    connection, dialect, raw = connection_to(engine), DIALECTS[engine], load.inputs[0].table
    newer = ["z", "12", "x", None, "yes", "r2", "2026-11-29 00:00:00+00:00"]
    connection.insert(dialect.table(raw.qualified_name), [column.name for column in raw.columns], [newer])
    view = DescribedView("raw.stg_texts", load.inputs)
    run_all(connection, dialect.create_view(view.name, view.query(dialect)))
    assert connection.rows("SELECT id, n, m, d, o FROM raw.stg_texts") == [("z", 12, None, None, True)]
    connection.run("DROP VIEW raw.stg_texts")
    assert view.reads == ("raw.rc_texts",)


@pytest.mark.parametrize("engine", ENGINES)
def test_view_is_replaced_by_one_with_other_columns(engine):
    connection, dialect = connection_to(engine), DIALECTS[engine]
    run_all(connection, [dialect.create_schema("raw"), *dialect.create_view("raw.v", "SELECT 1 AS a, 2 AS b")])
    run_all(connection, dialect.create_view("raw.v", "SELECT 'x' AS c"))
    assert connection.rows("SELECT * FROM raw.v") == [("x",)]
    connection.run("DROP VIEW raw.v")


@pytest.mark.parametrize(("query", "is_kept"), [("SELECT 2 AS a", True), ("SELECT 'x' AS a", False)])
def test_replaced_view_of_postgresql_keeps_its_privileges_unless_its_columns_differ(query, is_kept):
    connection, dialect = connection_to("postgres"), DIALECTS["postgres"]
    run_all(connection, [dialect.create_schema("raw"), *dialect.create_view("raw.v", "SELECT 1 AS a")])
    connection.run("GRANT SELECT ON raw.v TO PUBLIC")
    run_all(connection, dialect.create_view("raw.v", query))
    ((privileges,),) = connection.rows("SELECT coalesce(relacl::text, '') FROM pg_class WHERE oid = 'raw.v'::regclass")
    assert ("=r/" in privileges) == is_kept
    connection.run("DROP VIEW raw.v")


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_views_of_every_dialect_parse(name, policy):
    dialect = DIALECTS[name]
    described = {"id": "views", "keys": ["id"], "columns": {"id": "string"}}
    header = Header.from_dict(described | {"policy": {"input": "snapshot", "views": list(VIEWS)} | policy})
    views = {getattr(view, "kind", OPERATIONS): view for view in views_of(*_state_and_load(header))}
    with pytest.raises(NotRendered, match="periods"):
        views.pop("as_of").query(dialect)
    assert sorted(views) == ["changes", "current", "high_end_date", "operations", "periods"]
    for view in views.values():
        for statement in dialect.create_view(view.name, view.query(dialect)):
            sqlglot.parse_one(statement, read=dialect.parser)


def test_views_over_versions_with_times_of_their_own_are_not_rendered():
    described = {"id": "views", "keys": ["id"], "columns": {"id": "string", "t": "date"}}
    header = Header.from_dict(described | {"policy": {"input": "effective", "time": "t", "views": ["current"]}})
    with pytest.raises(NotRendered, match="not dated by loads"):
        HistoryView(_state_and_load(header)[0], "current").query(DIALECTS["postgres"])


def _state_and_load(header: Header):
    tables = SqlEngine(DIALECTS["duckdb"], connection_to("duckdb"), header).tables.evolved({})
    return tables.state, tables.load


def operations_of(rendered: SqlEngine) -> dict[tuple, tuple]:
    """Return operation and date, as microseconds, of each key in the view of operations."""
    dialect, connection = rendered.dialect, rendered.connection
    (view,) = views_of(rendered.tables.state, rendered.tables.load)
    run_all(connection, dialect.create_view(view.name, view.query(dialect)))
    at = dialect.microseconds(dialect.identifier("__effective_from"))
    rows = connection.rows(f"SELECT id, __operation, {at} FROM {dialect.table(view.name)}")
    connection.run(f"DROP VIEW {dialect.table(view.name)}")
    assert len({key for key, *_ in rows}) == len(rows)
    return {(key,): (operation, when) for key, operation, when in rows}


def expected_operations(reference: ReferenceEngine, at: str, delivered: set) -> dict[tuple, tuple]:
    versions: dict[tuple, list] = {}
    for row in sorted(reference.rows(), key=lambda row: row["valid_from"]):
        versions.setdefault((row["id"],), []).append(tuple(map(micros, (row["valid_from"], row["valid_to"]))))
    return last_operations(versions, micros(parse_instant(at)), delivered)


def micros(moment) -> int | None:
    return None if moment is None else round((moment - EPOCH) / MICROSECOND)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.takes(seconds=20)
@settings(max_examples=EXAMPLES)
@given(
    input_=st.sampled_from([{"input": "snapshot"}, {"input": "snapshot", "deletes": "ignore"}, {"input": "delta"}]),
    deliveries=st.lists(st.dictionaries(st.integers(1, 4), st.sampled_from("ab")), min_size=1, max_size=5),
)
def test_operations_view_equals_the_rule_on_the_reference(engine, input_, deliveries):
    described = {"id": f"operations-{next(NUMBERS)}", "keys": ["id"], "columns": {"id": "integer", "v": "string"}}
    described |= {"policy": input_ | {"views": ["operations"]}}
    reference = ReferenceEngine(described)
    rendered = SqlEngine(DIALECTS[engine], connection_to(engine), Header.from_dict(described))
    for number, content in enumerate(deliveries):
        rows = [{"id": key, "v": value} for key, value in content.items()]
        delivery = {"run_id": f"run-{number}", "at": f"2026-11-{number + 1:02}T00:00:00Z", "rows": rows}
        delivery |= {"allow_empty": True, "allow_deletes": True}
        reference.apply(delivery)
        rendered.apply(delivery)
        expected = expected_operations(reference, delivery["at"], {(key,) for key in content})
        assert operations_of(rendered) == expected
    rendered.drop()


@pytest.mark.parametrize("engine", ENGINES)
def test_operations_view_leaves_out_tombstones(engine):
    described = {"id": f"operations-{next(NUMBERS)}", "keys": ["id"], "columns": {"id": "string", "v": "string"}}
    policy = {"input": "snapshot", "deletes": "tombstone", "views": ["operations"]}
    rendered = SqlEngine(DIALECTS[engine], connection_to(engine), Header.from_dict(described | {"policy": policy}))
    for number, (at, rows) in enumerate(zip(DAYS, DELIVERIES, strict=True)):
        delivered = [{"id": key, "v": value} for key, value in rows]
        rendered.apply({"run_id": f"run-{number}", "at": at, "rows": delivered, "allow_deletes": True})
        expected = [
            {("a",): ("I", day(0)), ("b",): ("I", day(0))},
            {("a",): ("U", day(1)), ("b",): ("D", day(1))},
            {("a",): ("N", day(1)), ("b",): ("I", day(2))},
        ]
        assert operations_of(rendered) == expected[number]
    rendered.drop()


def test_operations_view_without_a_rendered_load_is_not_rendered():
    header = Header.from_dict(
        {"id": "x", "keys": ["id"], "columns": {"id": "string"}, "policy": {"input": "delta", "views": ["operations"]}}
    )
    (view,) = views_of(_state_and_load(header)[0])
    with pytest.raises(NotRendered, match="rendered load"):
        view.query(DIALECTS["duckdb"])
