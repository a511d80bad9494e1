"""Dependents of a dataset or a column, and the effect of a rename, retirement or deletion on them.

These are queries for a user's decision; the services check again on save.
"""

from collections.abc import Iterable, Iterator, Sequence

from django.db.models import Q, QuerySet

from elevata.core.errors import MetadataError
from metadata.domain import naming
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.impact import BREAKS, FOLLOWS, REFUSES, STAYS
from metadata.domain.sql import check_expression, rename_in_expression
from metadata.domain.types import DataType, hash_alike
from metadata.models import (
    ColumnInput,
    DatasetInput,
    Reference,
    ReferencePair,
    SourceDataset,
    TargetColumn,
    TargetDataset,
)
from metadata.selectors import model_dependents
from metadata.selectors.dataset_lineage import LineageNode, lineage
from metadata.selectors.dataset_lineage import downstream as everything_after
from metadata.selectors.model_dependents import Dependent
from metadata.services.quality import checks_naming
from metadata.services.rows.checks import column_names_of, refuse_if_policy_names

UNAFFECTED = "unaffected: linked by ID"


def downstream(dataset: TargetDataset) -> list[LineageNode]:
    """Return every dataset downstream of this one, over any number of steps; histories are not listed."""
    graph = lineage(dataset)
    flowing = graph.flowing
    return [node for node in graph.nodes if node.distance > 0 and node.kind == "target" and node.id in flowing]


def of_column_rename(column: TargetColumn, name: str = "") -> list[Dependent]:
    """Return the dependents of a column that a new name affects."""
    return [
        *_own_policy(column, name),
        *_readers_renamed(column, name),
        *model_dependents.of_column_rename(column, name),
        *_pairs(column, STAYS),
    ]


def _own_policy(column: TargetColumn, name: str) -> Iterator[Dependent]:
    dataset = column.dataset
    fields = HistoryPolicy.from_dict(dataset.history_policy).fields_naming(column.name)
    if fields:
        message = f"{' and '.join(fields)} will name the column as it is called then"
        yield Dependent(FOLLOWS, dataset, "history policy", message, column.name, name)
    if dataset.historize and hasattr(dataset, "history"):
        yield Dependent(FOLLOWS, dataset.history, "history", "its column is renamed along", column.name, name)


def _readers_renamed(column: TargetColumn, name: str) -> Iterator[Dependent]:
    for item in _feeds(column.dataset):
        reader = item.dataset
        if reader.filter and _names(reader.filter, column.name):
            yield _rewritten(reader, "filter", reader.filter, column.name, name)
        for reading in reader.columns.all():
            linked = any(link.upstream_column_id == column.pk for link in reading.inputs.all())
            what = f"column {reading.name}"
            if linked and _names(reading.expression, column.name):
                yield _rewritten(reader, what, reading.expression, column.name, name)
            elif linked:
                yield Dependent(STAYS, reader, what, UNAFFECTED)
        operation = HistoryPolicy.from_dict(reader.history_policy).op
        own = {column.name.lower() for column in reader.columns.all() if column.active}
        if operation and operation.lower() == column.name.lower() and operation.lower() not in own:
            message = "op names a column that only its input has; change the policy first"
            yield Dependent(REFUSES, reader, "history policy", message, operation)


def _rewritten(reader: TargetDataset, what: str, text: str, old: str, new: str) -> Dependent:
    if not new:
        return Dependent(FOLLOWS, reader, what, "is rewritten", text)
    try:
        return Dependent(FOLLOWS, reader, what, "is rewritten", text, rename_in_expression(text, old, new))
    except MetadataError as problem:
        return Dependent(REFUSES, reader, what, problem.message, text)


def of_dataset_rename(dataset: TargetDataset, name: str = "") -> list[Dependent]:
    """Return the dependents of a dataset that a new name affects."""
    return [*_dataset_renamed(dataset, name), *model_dependents.of_dataset_rename(dataset, name)]


def _dataset_renamed(dataset: TargetDataset, name: str) -> Iterator[Dependent]:
    old_key, new_key = (naming.entity_key_name(table_name) if table_name else "" for table_name in (dataset.name, name))
    if dataset.schema.layer not in naming.KEYLESS_LAYERS:
        yield Dependent(FOLLOWS, dataset, "key column", "is called after its dataset", old_key, new_key)
    if hasattr(dataset, "history"):
        new = naming.history_name(name) if name else ""
        message = "is renamed along, with its key column and the views over it"
        yield Dependent(FOLLOWS, dataset.history, "history", message, dataset.history.name, new)
    for reference in dataset.referenced_by.select_related("child__schema"):
        if reference.role_name:
            yield Dependent(STAYS, reference.child, f"reference {reference.role_name}", "is called after its role")
        else:
            message = "its column is called after the dataset it refers to"
            yield Dependent(FOLLOWS, reference.child, "reference", message, old_key, new_key)
    for item in _feeds(dataset):
        yield Dependent(STAYS, item.dataset, "input", UNAFFECTED)


def of_column_retirement(column: TargetColumn) -> list[Dependent]:
    """Return the dependents of a column that its retirement affects."""
    models = model_dependents.of_column_retirement(column)
    checks = _checks_refuse(column)
    return [*_pairs(column, REFUSES), *_policy_refuses(column), *checks, *models, *_readers_left(column)]


def _checks_refuse(column: TargetColumn) -> Iterator[Dependent]:
    for check in checks_naming(column):
        yield Dependent(REFUSES, check.dataset, f"check {check.name}", "names it", check.summary)


def _policy_refuses(column: TargetColumn) -> Iterator[Dependent]:
    try:
        refuse_if_policy_names(column)
    except MetadataError as problem:
        yield Dependent(REFUSES, column.dataset, "history policy", problem.message)
    dataset = column.dataset
    key = dataset.columns.filter(active=True, role=TargetColumn.Role.BUSINESS_KEY)
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    if dataset.active and policy.is_honoured(historize=dataset.historize) and set(key) == {column}:
        what = "history" if dataset.historize else "history policy"
        yield Dependent(REFUSES, dataset, what, "needs a business key, and this is its last column")


def _readers_left(column: TargetColumn) -> Iterator[Dependent]:
    for item in _feeds(column.dataset):
        reader = item.dataset
        if not reader.active:
            continue
        if reader.filter and _names(reader.filter, column.name):
            yield Dependent(BREAKS, reader, "filter", "names it", reader.filter)
        for reading in reader.columns.all():
            if reading.active and any(link.upstream_column_id == column.pk for link in reading.inputs.all()):
                message = "reads it, and will have nothing to read"
                yield Dependent(BREAKS, reader, f"column {reading.name}", message, reading.expression)


def of_column_retype(column: TargetColumn, type: DataType | None = None) -> list[Dependent]:
    """Return the references and filters that a new type affects; those of types that are refused prevent it.

    Without ``type``, the new type is not known.
    """
    return [*_pairs_retyped(column, type), *_filters_retyped(column)]


def _pairs_retyped(column: TargetColumn, type: DataType | None) -> Iterator[Dependent]:
    pairs = ReferencePair.objects.filter(Q(child_column=column) | Q(parent_column=column), reference__active=True)
    ends = (f"{end}__dataset__schema" for end in ("child_column", "parent_column"))
    for pair in pairs.select_related("reference__child__schema", "reference__parent__schema", *ends):
        other = pair.parent_column if pair.child_column_id == column.pk else pair.child_column
        what = f"reference to {pair.reference.parent}"
        if type is not None and hash_alike(type, other.type):
            message = f"pairs it with {other}, whose {other.type} gives the same keys"
            yield Dependent(STAYS, pair.reference.child, what, message)
        else:
            message = f"pairs it with {other}: a type whose keys differ from those of {other.type} is refused"
            yield Dependent(REFUSES, pair.reference.child, what, message)


def _filters_retyped(column: TargetColumn) -> Iterator[Dependent]:
    for item in _feeds(column.dataset):
        if item.dataset.active and item.dataset.filter and _names(item.dataset.filter, column.name):
            message = "names it: the condition must suit the new type"
            yield Dependent(STAYS, item.dataset, "filter", message, item.dataset.filter)


def of_dataset_retirement(dataset: TargetDataset) -> list[Dependent]:
    """Return the dependents of a dataset that its retirement affects."""
    return [*_dataset_retired(dataset), *model_dependents.of_dataset_retirement(dataset)]


def _dataset_retired(dataset: TargetDataset) -> Iterator[Dependent]:
    history = getattr(dataset, "history", None)
    if history is not None and history.active:
        yield Dependent(FOLLOWS, history, "history", "is retired with it; its versions stay")
    for base in [dataset, *([history] if history is not None else [])]:
        for item in _feeds(base):
            if item.dataset.active:
                yield Dependent(BREAKS, item.dataset, "input", f"reads {base}, which is not loaded any more")
    for reference in dataset.referenced_by.filter(active=True, child__active=True).select_related("child__schema"):
        message = "refers to it; its keys will point at rows that are not loaded any more"
        yield Dependent(BREAKS, reference.child, f"reference {reference.role_name}".strip(), message)


def of_reference_retirement(reference: Reference) -> list[Dependent]:
    """Return the objects that remain when a reference is retired; none of them prevents it."""
    return list(_reference_retired(reference)) if reference.active else []


def _reference_retired(reference: Reference) -> Iterator[Dependent]:
    child, parent = reference.child, reference.parent
    column = naming.foreign_key_name(reference.role_name, parent.name)
    message = "is retired with it: the table keeps the column, and no load fills it"
    yield Dependent(FOLLOWS, child, "foreign key", message, column)
    history = getattr(child, "history", None)
    if history is not None and history.active:
        message = "keeps the column, retired; versions so far keep what they hold"
        yield Dependent(FOLLOWS, history, "history", message, column)
    for pair in reference.pairs.select_related("child_column", "parent_column"):
        message = f"is no longer paired with {parent}.{pair.parent_column.name}"
        yield Dependent(STAYS, child, f"column {pair.child_column.name}", message)
    yield Dependent(STAYS, parent, "business key", f"no longer has to match {child}")


def of_inputs_change(dataset: TargetDataset, wanted: Sequence[SourceDataset | TargetDataset]) -> list[Dependent]:
    """Return the effects of replacing a dataset's inputs with these, in this order."""
    items = list(dataset.inputs.select_related("source__system", "upstream__schema"))
    now = [item.read_dataset for item in items]
    gone = [item for item, row in zip(items, now, strict=True) if row not in wanted]
    fresh = [row for row in wanted if row not in now]
    left = [*_columns_reading(dataset, gone), *_names_lost(dataset, now, wanted)] if gone else []
    order = [row for row in wanted if row in now] != [row for row in now if row in wanted]
    message = "where several inputs have a column of one name, the first of them counts"
    return [
        *left,
        *_read_anew(dataset, fresh),
        *([Dependent(FOLLOWS, dataset, "order of its inputs", message)] if order else []),
    ]


def _columns_reading(dataset: TargetDataset, gone: Sequence[DatasetInput]) -> Iterator[Dependent]:
    links = ColumnInput.objects.filter(dataset_input__in=gone).order_by("column__ordinal", "id")
    for link in links.select_related("column", "dataset_input__source__system", "dataset_input__upstream__schema"):
        read = link.dataset_input.read_dataset
        way_on = "let it read something else" if link.column.active else "it is retired: delete or restore it"
        message = f"reads {read}; {way_on} first"
        yield Dependent(REFUSES, dataset, f"column {link.column.name}", message, link.column.expression)


def _names_lost(
    dataset: TargetDataset,
    now: Sequence[SourceDataset | TargetDataset],
    wanted: Sequence[SourceDataset | TargetDataset],
) -> Iterator[Dependent]:
    """Return the columns that are named in expressions and that only a removed input has."""
    lost = column_names_of(now) - column_names_of(wanted)
    columns = list(dataset.columns.filter(active=True))
    texts = [("filter", dataset.filter), *((f"column {column.name}", column.expression) for column in columns)]
    for what, text in texts:
        names = sorted(name for name in lost if _names(text, name))
        if names:
            yield Dependent(REFUSES, dataset, what, f"names {', '.join(names)}, which nothing it reads has then", text)
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    gone = lost - {column.name.lower() for column in columns}
    for name in policy.delivered_only:
        if policy.is_honoured(historize=dataset.historize) and name.lower() in gone:
            message = f"{policy.fields_naming(name)[0]} names a column that nothing it reads has then"
            yield Dependent(REFUSES, dataset, "history policy", message, name)


def _read_anew(dataset: TargetDataset, fresh: Sequence[SourceDataset | TargetDataset]) -> Iterator[Dependent]:
    after = {node.pk for node in everything_after([str(dataset.key)]).nodes}
    for row in fresh:
        effect, message = FOLLOWS, "is read, too; its columns can be chosen for columns here"
        if isinstance(row, TargetDataset) and row.pk in after:
            effect, message = REFUSES, "reads this dataset, so the rows would go in a circle"
        yield Dependent(effect, dataset, f"input {row}", message)


def of_column_deletion(column: TargetColumn) -> list[Dependent]:
    """Return the dependents that prevent the deletion of a retired column."""
    reading = ColumnInput.objects.filter(upstream_column=column).select_related("column__dataset__schema")
    return [
        *(Dependent(REFUSES, link.column.dataset, f"column {link.column.name}", "reads it") for link in reading),
        *_pairs(column, REFUSES, active=False),
    ]


def of_dataset_deletion(dataset: TargetDataset) -> list[Dependent]:
    """Return the dependents that prevent the deletion of a retired dataset.

    Its columns and history are deleted with it.
    """
    history = getattr(dataset, "history", None)
    bases = [dataset, *([history] if history is not None else [])]
    reading = DatasetInput.objects.filter(upstream__in=bases).exclude(dataset__in=bases)
    referring = Reference.objects.filter(parent=dataset).exclude(child=dataset).select_related("child__schema")
    return [
        *([Dependent(FOLLOWS, history, "history", "is deleted with it")] if history is not None else []),
        *(Dependent(REFUSES, row.dataset, "input", "reads it") for row in reading.select_related("dataset__schema")),
        *(
            Dependent(REFUSES, row.child, f"reference {row.role_name}".strip(), "refers to it; delete that first")
            for row in referring
        ),
    ]


def _feeds(dataset: TargetDataset) -> QuerySet[DatasetInput]:
    """Return the inputs of other datasets that read this one, with their columns; without models."""
    return (
        dataset.feeds.filter(dataset__select="")
        .select_related("dataset__schema")
        .prefetch_related("dataset__columns__inputs")
    )


def _pairs(column: TargetColumn, effect: str, *, active: bool = True) -> Iterable[Dependent]:
    """Yield the references that pair the column with another; by default only active references."""
    references = Reference.objects.filter(pairs__child_column=column) | Reference.objects.filter(
        pairs__parent_column=column
    )
    if active:
        references = references.filter(active=True)
    message = UNAFFECTED if effect == STAYS else "needs it"
    for reference in references.distinct().select_related("child__schema", "parent__schema"):
        yield Dependent(effect, reference.child, f"reference to {reference.parent}", message)


def _names(text: str, column: str) -> bool:
    """Return True if a filter or expression reads a column of this name."""
    if not text:
        return False
    try:
        return column.lower() in {name.lower() for name in check_expression(text)}
    except MetadataError:  # written by an older version, or by hand: shown unchanged
        return True
