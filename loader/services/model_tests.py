"""Test files of models: strict reading, and tests for the runner from the metadata as it is now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from architecture.domain.tables import TableSpec
from elevata.core import strict_fields as strict
from elevata.core.errors import MetadataError
from elevata.core.strict_fields import Field, Node, Record, Spec, text
from loader.domain.historization.history import NEW
from loader.domain.model_test_values import rows_sql, value_of
from loader.domain.model_tests import LOAD_TIMESTAMP, ModelTest, ModelTests
from loader.domain.models import model_query
from metadata.domain.exchange import MODEL_TESTS, has_model_tests
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.models import reads_of
from metadata.domain.models.statement import parse_model
from metadata.domain.state import DatasetState
from metadata.domain.types import parse
from metadata.selectors.dataset_states import dataset_states
from metadata.services.exchange.yaml_files import read_yaml


@dataclass(frozen=True)
class _Rows:
    """Rows of a file with their positions."""

    rows: list[dict[str, Node]]
    node: Node


def _rows(node: Node, name: str) -> _Rows:
    rows = strict.items(node, name)
    for row in rows:
        strict.fields(row, name)
    return _Rows([row.children() for row in rows], node)


def _given(node: Node, name: str) -> dict[str, _Rows]:
    strict.fields(node, name)
    return {dataset: _rows(rows, f"{name}.{dataset}") for dataset, rows in node.children().items()}


_TEST: Spec = {
    "name": Field(text, required=True),
    "model": Field(text, required=True),
    "given": Field(_given, {}),
    "load_timestamp": Field(strict.moment),
    "expect": Field(_rows, required=True),
}
_FILE: Spec = {
    "format": Field(strict.choice(MODEL_TESTS), required=True),
    "tests": Field(strict.records(_TEST), required=True),
}


def read_tests(path: Path, select: Sequence[str] = ()) -> ModelTests:
    """Return the tests of a file, or those with the names in ``select``: names of tests, or of their models.

    Raise MetadataError, with file, line and field, for anything that is unknown or does not fit the model.
    """
    states = {state.key: state for state in dataset_states()}
    return _chosen(_records(read_yaml(path, str(path)), ()), states, select, str(path))


def described_tests(folder: Path, select: Sequence[str] = ()) -> ModelTests:
    """Return the tests of all test files in a folder whose models are described, as ``read_tests`` does."""
    states = {state.key: state for state in dataset_states()}
    models = {state.qualified_name.lower() for state in states.values() if state.select}
    records: list[Record] = []
    for path in sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml")):
        node = read_yaml(path, str(path))
        if has_model_tests(node):
            records += _records(node, records)
    described = [record for record in records if record["model"].lower() in models]
    return _chosen(described, states, select, str(folder))


def _records(node: Node, earlier: Sequence[Record]) -> list[Record]:
    """Return the tests of a file; their names must differ, also from those of earlier files."""
    records: list[Record] = strict.read_record(node, _FILE, "file")["tests"]
    names = {record["name"] for record in earlier}
    for record in records:
        if record["name"] in names:
            raise MetadataError("duplicate", f"two tests are named {record['name']!r}", "name", place=record.where)
        names.add(record["name"])
    return records


def _chosen(
    records: Sequence[Record], states: Mapping[str, DatasetState], select: Sequence[str], place: str
) -> ModelTests:
    wanted = {name.lower() for name in select}
    names = {record[field].lower() for record in records for field in ("name", "model")}
    for name in select:
        if name.lower() not in names:
            known = ", ".join(record["name"] for record in records) or "none"
            raise MetadataError("unknown_test", f"has no test {name!r}; it has {known}", place=place)
    chosen = [record for record in records if not wanted or {record["name"].lower(), record["model"].lower()} & wanted]
    return ModelTests(tuple(_test(record, states) for record in chosen))


def _test(record: Record, states: Mapping[str, DatasetState]) -> ModelTest:
    model = _model(record, states)
    read = [name.lower() for name in reads_of(model.select or "")]
    given: dict[str, _Rows] = record["given"]
    _check_given(record, model, read, given)
    load_timestamp = record["load_timestamp"].isoformat() if record["load_timestamp"] else LOAD_TIMESTAMP
    try:
        query = model_query(model, _as_tables(states, model), run_id=record["name"], load_timestamp=load_timestamp)
    except MetadataError as problem:
        raise problem.about(place=record.place_of("model")) from None
    by_name = {name.lower(): rows for name, rows in given.items()}
    types = {column.name: column.type for column in model.active_columns}
    columns = _named(record["expect"], types, model.qualified_name)
    return ModelTest(
        name=record["name"],
        model=model.qualified_name,
        query=query.sql,
        given=tuple(
            (view, _given_sql(table, by_name[table.qualified_name.lower()], states)) for view, table in query.views
        ),
        expected=_sql([(name, types[name]) for name in columns], record["expect"], model.qualified_name),
        columns=columns,
        key=tuple(column.name for column in model.business_key),
        ordered=parse_model(model.select or "").tree.args.get("order") is not None,
    )


def _model(record: Record, states: Mapping[str, DatasetState]) -> DatasetState:
    name = record["model"].lower()
    model = next((each for each in states.values() if each.qualified_name.lower() == name and each.select), None)
    if model is None:
        raise MetadataError("unknown_dataset", f"there is no model {name}", "model", place=record.place_of("model"))
    return model


def _check_given(record: Record, model: DatasetState, read: Sequence[str], given: Mapping[str, _Rows]) -> None:
    for name, rows in given.items():
        if name.lower() not in read:
            message = f"{model.qualified_name} does not read {name}; it reads {', '.join(read)}"
            raise MetadataError("unknown_dataset", message, "given", place=rows.node.key_where)
    missing = set(read) - {name.lower() for name in given}
    if missing:
        name = min(missing)
        message = f"{model.qualified_name} reads {name}, which has no given rows; write '{name}: []' for none"
        raise MetadataError("missing_field", message, "given", place=record.where)


def _as_tables(states: Mapping[str, DatasetState], model: DatasetState) -> dict[str, DatasetState]:
    """Return the states with each input as a table: rows are given for a view itself, not for what is beneath it."""
    return {
        key: replace(state, materialization="table") if key in model.inputs else state for key, state in states.items()
    }


def _given_sql(table: TableSpec, rows: _Rows, states: Mapping[str, DatasetState]) -> str:
    """Return the query of given rows. Versions are live by default, and in the partition that their end says."""
    columns = [(column.name, column.type) for column in table.columns]
    defaults: dict[str, Any] = {}
    if table.kind == "history":
        policy = HistoryPolicy.from_dict(states[table.dataset_key].history_policy)
        defaults[table.column("state").name] = policy.label(NEW)
    return _sql(columns, rows, table.qualified_name, defaults)


def _named(rows: _Rows, types: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the columns that the expected rows name, in the order of the model; all of them without a row."""
    used = {column: node for row in rows.rows for column, node in row.items()}
    for column, node in used.items():
        _check_column(column, node, types, name)
    return tuple(column for column in types if column in used or not rows.rows)


def _check_column(column: str, node: Node, types: Mapping[str, str], name: str) -> None:
    if column not in types:
        message = f"is no column of {name}; it has {', '.join(types)}"
        raise MetadataError("unknown_field", message, column, place=node.key_where)


def _sql(columns: Sequence[tuple[str, str]], rows: _Rows, name: str, defaults: Mapping[str, str] | None = None) -> str:
    types = dict(columns)
    values = []
    for row in rows.rows:
        for column, node in row.items():
            _check_column(column, node, types, name)
        values.append([
            value_of(row[column], parse(type_), column) if column in row else (defaults or {}).get(column)
            for column, type_ in columns
        ])  # fmt: skip
    return rows_sql(columns, values)
