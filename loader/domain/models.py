"""Loads of models for the runner: the SELECT over the tables of the warehouse, with the values of a run."""

from collections.abc import Mapping, Sequence

from architecture.domain.tables import TableSpec, model_table
from architecture.domain.views import query_of_model
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError
from loader.contract.manifest.loads import ModelLoad, ModelQuery
from loader.contract.refusals import Refusal
from metadata.domain.sql import bind_placeholders, quote_identifier, quote_text
from metadata.domain.state import DatasetState


def model_load(
    model: DatasetState,
    states: Mapping[str, DatasetState],
    *,
    run_id: str,
    load_timestamp: str,
    sequence: int,
    full: bool = False,
    depends_on: tuple[str, ...] = (),
) -> ModelLoad:
    """Return the load of a model without a history. Raise Refusal UNKNOWN_INPUT or CIRCULAR_INPUTS."""
    return ModelLoad(
        dataset=model.key,
        name=model.qualified_name,
        table=model_table(model),
        query=model_query(model, states, run_id=run_id, load_timestamp=load_timestamp),
        digest=_digest(model, states),
        increment=dict(model.increment),
        sequence=sequence,
        full=full,
        depends_on=depends_on,
    )


def _digest(model: DatasetState, states: Mapping[str, DatasetState]) -> str:
    """Return a digest of all that a model's rows follow from except the rows of tables.

    It covers the SELECT over tables, and so that of each view beneath it, without the values of a run.
    """
    query = model_query(model, states, run_id="", load_timestamp="", projected=False)
    tables = [table.key for _, table in query.views]
    described = [[column.name, column.type, column.role] for column in model.active_columns]
    return sha256_hex([query.sql, tables, described, model.increment])[:16]


def model_query(
    model: DatasetState,
    states: Mapping[str, DatasetState],
    *,
    run_id: str,
    load_timestamp: str,
    projected: bool = True,
) -> ModelQuery:
    """Return the SELECT of a model over temporary views. Raise Refusal UNKNOWN_INPUT or CIRCULAR_INPUTS."""
    views: dict[TableSpec, str] = {}

    def called(table: TableSpec) -> str:
        return quote_identifier(views.setdefault(table, f"__input_{len(views)}"))

    values = {"load_timestamp": f"TIMESTAMP {quote_text(load_timestamp)}", "load_run_id": quote_text(run_id)}
    try:
        query = query_of_model(model, states, called, values, projected=projected)
    except MetadataError as problem:
        raise Refusal(problem.code, f"{model.qualified_name}: {problem.one_line()}") from problem
    text = model.select or ""
    return ModelQuery(
        query.sql,
        tuple((name, table) for table, name in views.items()),
        varies=bind_placeholders(text, values) != text,
    )


def reason_for_all(query: ModelQuery, input_: str, moved: Sequence[tuple[str, str]]) -> str:
    """Return the reason why all rows are computed, not those of the changed keys of one input; empty without one.

    ``input_`` is the qualified name of the input with the keys, ``moved`` are view and qualified name of the tables
    with other rows than before.
    """
    others = sorted({name for _, name in moved} - {input_})
    if others:
        return f"{', '.join(others)} changed, too"
    # A save refuses a SELECT that reads the input twice, but a view beneath it may change later.
    if any(query.sql.count(quote_identifier(view)) > 1 for view, _ in moved):
        return f"{input_} is read by a view beneath the model, too"
    return ""
