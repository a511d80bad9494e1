"""Checks of a model before it is written, and of what follows from its SELECT."""

from elevata.core.errors import MetadataError
from metadata.domain.models.increment import CHANGED_KEYS, Increment, IncrementProblem
from metadata.domain.models.keyed_rows import check_keyed_rows
from metadata.models import TargetColumn, TargetDataset, TargetSchema
from metadata.selectors.models import readable_datasets, relations


def check_model(row: TargetDataset) -> None:
    """Check the fields of a model without its columns."""
    where, layers = str(row), TargetSchema.Layer
    if not row.select:
        raise MetadataError("invalid", "only a model has an increment: a dataset with a SELECT", "increment", where)
    if row.schema.layer not in (layers.BIZCORE, layers.SERVING):
        message = f"layer {row.schema.layer} has no models; bizcore and serving have"
        raise MetadataError("invalid", message, "select", where)
    if row.filter:
        raise MetadataError("invalid", "a model has no filter: write WHERE in its SELECT", "filter", where)
    is_table = row.materialization == TargetDataset.Materialization.TABLE
    _increment(row)
    if row.increment and not is_table:
        raise MetadataError("invalid", "a view has no increment: it computes all rows", "increment", where)
    if row.increment and row.historize:
        message = "a model with a history compares all rows; it has no increment"
        raise MetadataError("invalid", message, "increment", where)


def check_increment(dataset: TargetDataset) -> None:
    """Refuse an increment that does not match the columns and inputs of a model."""
    if not dataset.increment:
        return
    active = [column for column in dataset.columns.all() if column.active]
    key = tuple(column.name for column in active if column.role == TargetColumn.Role.BUSINESS_KEY)
    inputs = dataset.inputs.select_related("upstream__schema", "upstream__history_of")
    upstreams = {str(item.upstream): item.upstream for item in inputs if item.upstream is not None}
    reads = {
        name: {column.name: column.type for column in _described(upstream) if column.active}
        for name, upstream in upstreams.items()
    }
    increment = _increment(dataset)
    try:
        increment.check_against({column.name: column.type for column in active}, key, reads)
        if increment.by == CHANGED_KEYS:
            if upstreams[increment.input].materialization == TargetDataset.Materialization.VIEW:
                raise IncrementProblem("input", f"{increment.input} is a view; loads compare tables, so name a table")
            datasets = relations(readable_datasets(dataset.select))
            check_keyed_rows(dataset.select, datasets, increment.input, increment.columns)
    except MetadataError as problem:
        raise problem.about(str(dataset)) from None


def _increment(row: TargetDataset) -> Increment:
    try:
        return Increment.from_dict(row.increment)
    except MetadataError as problem:
        raise problem.about(str(row)) from None


def _described(dataset: TargetDataset) -> list[TargetColumn]:
    return list((dataset.history_of or dataset).columns.all())


def refuse_derived(dataset: TargetDataset, field: str) -> None:
    """Refuse a change by hand of what follows from the SELECT of a model."""
    if dataset.select:
        raise MetadataError("invalid", "follows from the SELECT of the model; change that", field, str(dataset))
