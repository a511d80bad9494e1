"""Dependents of a dataset or a column, and the effect that a rename, a retirement or a deletion has on them.

Only reads: people see it before they decide. The services decide again when it is saved.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from elevata.core.errors import MetadataError
from metadata.domain import naming
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.sql import check_expression, rename_in_expression
from metadata.models import ColumnInput, DatasetInput, Reference, SourceDataset, TargetColumn, TargetDataset
from metadata.selectors import LineageNode, lineage
from metadata.selectors import downstream as everything_after
from metadata.services.checks import column_names_of, refuse_if_policy_names

# Changes along with it, stays as it is, has nothing to read any more, stands in the way.
FOLLOWS, STAYS, BREAKS, REFUSES = "follows", "stays", "breaks", "refuses"


@dataclass(frozen=True)
class Dependent:
    """One thing that hangs on it: ``what`` of ``dataset``, and what becomes of it, in words.

    ``before`` and ``after`` are a name or a text that is rewritten; ``after`` is empty while the new
    name is not known.
    """

    effect: str
    dataset: TargetDataset
    what: str
    says: str
    before: str = ""
    after: str = ""


def downstream(dataset: TargetDataset) -> list[LineageNode]:
    """Every dataset that rows of this one flow into, over any number of others; histories are not listed."""
    found = lineage(dataset)
    flowing = {end for edge in found.edges if edge.kind == "input" for end in (edge.start, edge.end)}
    return [node for node in found.nodes if node.distance > 0 and node.kind == "target" and node.id in flowing]


# --- renames -----------------------------------------------------------------------------------


def of_column_rename(column: TargetColumn, name: str = "") -> list[Dependent]:
    """Return the dependents of a column that a new name affects."""
    return [*_own_policy(column, name), *_readers_renamed(column, name), *_pairs(column, STAYS)]


def _own_policy(column: TargetColumn, name: str) -> Iterator[Dependent]:
    dataset = column.dataset
    fields = HistoryPolicy.from_dict(dataset.history_policy).fields_naming(column.name)
    if fields:
        said = f"{' and '.join(fields)} will name the column as it is called then"
        yield Dependent(FOLLOWS, dataset, "history policy", said, column.name, name)
    if dataset.historize and hasattr(dataset, "history"):
        yield Dependent(FOLLOWS, dataset.history, "history", "its column is renamed along", column.name, name)


def _readers_renamed(column: TargetColumn, name: str) -> Iterator[Dependent]:
    for item in _feeds(column.dataset):
        reader = item.dataset
        if reader.filter and _names(reader.filter, column.name):
            yield _rewritten(reader, "filter", reader.filter, column.name, name)
        for reading in reader.columns.all():
            linked = any(one.upstream_column_id == column.pk for one in reading.inputs.all())
            what = f"column {reading.name}"
            if linked and _names(reading.expression, column.name):
                yield _rewritten(reader, what, reading.expression, column.name, name)
            elif linked:
                yield Dependent(STAYS, reader, what, "unaffected: linked by ID")
        operation = HistoryPolicy.from_dict(reader.history_policy).op
        own = {one.name.lower() for one in reader.columns.all() if one.active}
        if operation and operation.lower() == column.name.lower() and operation.lower() not in own:
            said = "op names a column that only its input has; change the policy first"
            yield Dependent(REFUSES, reader, "history policy", said, operation)


def _rewritten(reader: TargetDataset, what: str, text: str, old: str, new: str) -> Dependent:
    if not new:
        return Dependent(FOLLOWS, reader, what, "is rewritten", text)
    try:
        return Dependent(FOLLOWS, reader, what, "is rewritten", text, rename_in_expression(text, old, new))
    except MetadataError as problem:
        return Dependent(REFUSES, reader, what, problem.message, text)


def of_dataset_rename(dataset: TargetDataset, name: str = "") -> list[Dependent]:
    """Return the dependents of a dataset that a new name affects."""
    return list(_dataset_renamed(dataset, name))


def _dataset_renamed(dataset: TargetDataset, name: str) -> Iterator[Dependent]:
    old_key, new_key = (naming.entity_key_name(one) if one else "" for one in (dataset.name, name))
    if dataset.schema.layer not in naming.KEYLESS_LAYERS:
        yield Dependent(FOLLOWS, dataset, "key column", "is called after its dataset", old_key, new_key)
    if hasattr(dataset, "history"):
        new = naming.history_name(name) if name else ""
        said = "is renamed along, with its key column and the views over it"
        yield Dependent(FOLLOWS, dataset.history, "history", said, dataset.history.name, new)
    for reference in dataset.referenced_by.select_related("child__schema"):
        if reference.role_name:
            yield Dependent(STAYS, reference.child, f"reference {reference.role_name}", "is called after its role")
        else:
            said = "its column is called after the dataset it refers to"
            yield Dependent(FOLLOWS, reference.child, "reference", said, old_key, new_key)
    for item in _feeds(dataset):
        yield Dependent(STAYS, item.dataset, "input", "unaffected: linked by ID")


# --- putting out of use --------------------------------------------------------------------------


def of_column_retirement(column: TargetColumn) -> list[Dependent]:
    """Return the dependents of a column that its retirement leaves behind."""
    return [*_pairs(column, REFUSES), *_policy_refuses(column), *_readers_left(column)]


def _policy_refuses(column: TargetColumn) -> Iterator[Dependent]:
    try:
        refuse_if_policy_names(column)
    except MetadataError as problem:
        yield Dependent(REFUSES, column.dataset, "history policy", problem.message)
    dataset = column.dataset
    key = dataset.columns.filter(active=True, role=TargetColumn.Role.BUSINESS_KEY)
    if dataset.historize and dataset.active and set(key) == {column}:
        yield Dependent(REFUSES, dataset, "history", "needs a business key, and this is its last column")


def _readers_left(column: TargetColumn) -> Iterator[Dependent]:
    for item in _feeds(column.dataset):
        reader = item.dataset
        if not reader.active:
            continue
        if reader.filter and _names(reader.filter, column.name):
            yield Dependent(BREAKS, reader, "filter", "names it", reader.filter)
        for reading in reader.columns.all():
            if reading.active and any(one.upstream_column_id == column.pk for one in reading.inputs.all()):
                said = "reads it, and will have nothing to read"
                yield Dependent(BREAKS, reader, f"column {reading.name}", said, reading.expression)


def of_dataset_retirement(dataset: TargetDataset) -> list[Dependent]:
    """Return the dependents of a dataset that its retirement leaves behind."""
    return list(_dataset_retired(dataset))


def _dataset_retired(dataset: TargetDataset) -> Iterator[Dependent]:
    history = getattr(dataset, "history", None)
    if history is not None and history.active:
        yield Dependent(FOLLOWS, history, "history", "is put out of use with it; its versions stay")
    for base in [dataset, *([history] if history is not None else [])]:
        for item in _feeds(base):
            if item.dataset.active:
                yield Dependent(BREAKS, item.dataset, "input", f"reads {base}, which is not loaded any more")
    for reference in dataset.referenced_by.filter(active=True, child__active=True).select_related("child__schema"):
        said = "refers to it; its keys will point at rows that are not loaded any more"
        yield Dependent(BREAKS, reference.child, f"reference {reference.role_name}".strip(), said)


def of_reference_retirement(reference: Reference) -> list[Dependent]:
    """Return the dependents of a reference that its retirement leaves behind; none of them prevents it."""
    return list(_reference_retired(reference)) if reference.active else []


def _reference_retired(reference: Reference) -> Iterator[Dependent]:
    child, parent = reference.child, reference.parent
    column = naming.foreign_key_name(reference.role_name, parent.name)
    said = "is retired with it: the table keeps the column, and no load fills it"
    yield Dependent(FOLLOWS, child, "foreign key", said, column)
    history = getattr(child, "history", None)
    if history is not None and history.active:
        said = "keeps the column, retired; versions so far keep what they hold"
        yield Dependent(FOLLOWS, history, "history", said, column)
    for pair in reference.pairs.select_related("child_column", "parent_column"):
        said = f"stays, but is not paired with {parent}.{pair.parent_column.name} any more"
        yield Dependent(STAYS, child, f"column {pair.child_column.name}", said)
    yield Dependent(STAYS, parent, "business key", f"stays, and does not have to suit {child} any more")


# --- what is read ----------------------------------------------------------------------------------


def of_inputs_change(dataset: TargetDataset, wanted: Sequence[SourceDataset | TargetDataset]) -> list[Dependent]:
    """Return the effects of replacing a dataset's inputs with these, in this order."""
    items = list(dataset.inputs.select_related("source__system", "upstream__schema"))
    now = [item.source or item.upstream for item in items]
    gone = [item for item, row in zip(items, now, strict=True) if row not in wanted]
    fresh = [row for row in wanted if row not in now]
    left = [*_columns_reading(dataset, gone), *_names_lost(dataset, now, wanted)] if gone else []
    order = [row for row in wanted if row in now] != [row for row in now if row in wanted]
    said = "where several inputs have a column of one name, the first of them counts"
    return [
        *left,
        *_read_anew(dataset, fresh),
        *([Dependent(FOLLOWS, dataset, "order of its inputs", said)] if order else []),
    ]


def _columns_reading(dataset: TargetDataset, gone: Sequence[DatasetInput]) -> Iterator[Dependent]:
    links = ColumnInput.objects.filter(dataset_input__in=gone).order_by("column__ordinal", "id")
    for link in links.select_related("column", "dataset_input__source__system", "dataset_input__upstream__schema"):
        read = link.dataset_input.source or link.dataset_input.upstream
        way_on = "let it read something else" if link.column.active else "it is out of use: delete it or bring it back"
        said = f"reads {read}; {way_on} first"
        yield Dependent(REFUSES, dataset, f"column {link.column.name}", said, link.column.expression)


def _names_lost(
    dataset: TargetDataset,
    now: Sequence[SourceDataset | TargetDataset],
    wanted: Sequence[SourceDataset | TargetDataset],
) -> Iterator[Dependent]:
    """Return the columns that are named in expressions and that only a removed input has."""
    lost = column_names_of(now) - column_names_of(wanted)
    columns = list(dataset.columns.filter(active=True))
    texts = [("filter", dataset.filter), *((f"column {one.name}", one.expression) for one in columns)]
    for what, text in texts:
        names = sorted(name for name in lost if _names(text, name))
        if names:
            yield Dependent(REFUSES, dataset, what, f"names {', '.join(names)}, which nothing it reads has then", text)
    operation = HistoryPolicy.from_dict(dataset.history_policy).op
    if dataset.historize and operation and operation.lower() in lost - {one.name.lower() for one in columns}:
        said = "op names a column that nothing it reads has then"
        yield Dependent(REFUSES, dataset, "history policy", said, operation)


def _read_anew(dataset: TargetDataset, fresh: Sequence[SourceDataset | TargetDataset]) -> Iterator[Dependent]:
    after = {node.pk for node in everything_after([str(dataset.key)]).nodes}
    for row in fresh:
        effect, said = FOLLOWS, "is read, too; its columns can be chosen for columns here"
        if isinstance(row, TargetDataset) and row.pk in after:
            effect, said = REFUSES, "reads this dataset, so the rows would go in a circle"
        yield Dependent(effect, dataset, f"input {row}", said)


# --- deleting ------------------------------------------------------------------------------------


def of_column_deletion(column: TargetColumn) -> list[Dependent]:
    """Return the dependents that prevent the deletion of a retired column."""
    reading = ColumnInput.objects.filter(upstream_column=column).select_related("column__dataset__schema")
    return [
        *(Dependent(REFUSES, one.column.dataset, f"column {one.column.name}", "reads it") for one in reading),
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
        *(Dependent(REFUSES, one.dataset, "input", "reads it") for one in reading.select_related("dataset__schema")),
        *(
            Dependent(REFUSES, one.child, f"reference {one.role_name}".strip(), "refers to it; delete that first")
            for one in referring
        ),
    ]


# --- shared --------------------------------------------------------------------------------------


def _feeds(dataset: TargetDataset) -> QuerySet[DatasetInput]:
    """Return the inputs of other datasets that read this one, with their columns."""
    return dataset.feeds.select_related("dataset__schema").prefetch_related("dataset__columns__inputs")


def _pairs(column: TargetColumn, effect: str, *, active: bool = True) -> Iterable[Dependent]:
    """References that pair the column with another; by default only those in use."""
    found = Reference.objects.filter(pairs__child_column=column) | Reference.objects.filter(pairs__parent_column=column)
    if active:
        found = found.filter(active=True)
    said = "pairs it with a column of the other side, by key and not by name" if effect == STAYS else "needs it"
    for reference in found.distinct().select_related("child__schema", "parent__schema"):
        yield Dependent(effect, reference.child, f"reference to {reference.parent}", said)


def _names(text: str, column: str) -> bool:
    """Return whether a filter or expression reads a column of this name."""
    if not text:
        return False
    try:
        return column.lower() in {name.lower() for name in check_expression(text)}
    except MetadataError:  # written by an older version, or by hand: better shown than hidden
        return True
