"""Creation and changes of target schemas, datasets and columns.

Renames and retirement are in ``lifecycle``.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from elevata.accounts.services.users import move_schema_grants
from elevata.audit.services.transactions import assign, claim, writing
from elevata.core.errors import MetadataError
from metadata.domain import stable_keys
from metadata.domain.naming import ENGINE_PREFIX, safe_column_name
from metadata.domain.types import DataType
from metadata.models import DatasetCopy, SourceColumn, SourceDataset, TargetColumn, TargetDataset, TargetSchema
from metadata.services.datasets.generation import ensure_history
from metadata.services.datasets.inputs import columns_named_in, link_column, link_dataset
from metadata.services.model_checks import refuse_derived
from metadata.services.models import derive, following
from metadata.services.quality import check_dataset_checks, follow_schema
from metadata.services.references import check_references
from metadata.services.rows.checks import (
    check_copies_named_after_datasets,
    check_dataset_columns,
    check_schema,
    check_target_column,
    check_target_dataset,
)
from metadata.services.rows.quoted_names import refuse_quoted_name
from metadata.services.rows.row_changes import store
from metadata.services.rows.row_names import free_key, set_retired
from metadata.services.sources import DESCRIBED, next_ordinal, plain_fields

SCHEMA_FIELDS = ("name", "layer", "ordinal", *DESCRIBED)
MODEL_FIELDS = ("select", "increment", "materialization", "historize")
KEEPING = ("keep", "keep_days", "keep_deliveries")
DATASET_FIELDS = (*MODEL_FIELDS, "history_policy", "filter", *KEEPING, "contract", "sensitivity", *DESCRIBED)
# Fields that references depend on, and the fields that users set them by.
_KEY_FIELDS = {"role": "role", "key_ordinal": "role", "type": "type", "nullable": "nullable"}
# Fields of a dataset on which the rules for unknown parents depend.
_RULE_FIELDS = ("history_policy", "materialization")
# Fields of a model's column that follow from the SELECT.
_DERIVED = ("type", "nullable", "ordinal", "expression")
COLUMN_FIELDS = (
    "type",
    "nullable",
    "ordinal",
    "role",
    "key_ordinal",
    "expression",
    "pii",
    "sensitivity",
    *DESCRIBED,
)


def create_schema(*, name: str, layer: str, **described: Any) -> TargetSchema:
    with writing():
        row = TargetSchema(name=name, layer=layer)
        assign(row, described, SCHEMA_FIELDS)
        check_schema(row)
        return store(row)


def update_schema(*, schema: TargetSchema, expected_version: int, **changes: Any) -> TargetSchema:
    with writing():
        row = claim(schema, expected_version)
        if "layer" in changes and changes["layer"] != row.layer and row.datasets.exists():
            raise MetadataError("invalid", "a schema with datasets stays in its layer", "layer", str(row))
        name = row.name
        if assign(row, changes, SCHEMA_FIELDS):
            check_schema(row)
            store(row)
            move_schema_grants(old=name, new=row.name)
            if row.name != name:
                copies = DatasetCopy.objects.filter(dataset__schema=row)
                check_copies_named_after_datasets(copies.select_related("dataset__schema", "system"), str(row))
                follow_schema(row, name)
        return row


def create_target_dataset(
    *,
    schema: TargetSchema,
    name: str,
    inputs: Iterable[SourceDataset | TargetDataset] = (),
    key: UUID | None = None,
    take_columns: bool = False,
    business_key: Sequence[str] | None = None,
    quoted_name: bool = True,
    **described: Any,
) -> TargetDataset:
    """Create a dataset described by a user.

    ``take_columns`` copies the columns of its inputs. A model, which has a ``select``, gets inputs and columns from it;
    ``business_key`` are the names of its key columns. ``quoted_name`` accepts names that most engines need quotes for.
    """
    with writing():
        derived = key or free_key(
            TargetDataset, lambda attempt: stable_keys.target_dataset_key(schema.name, name, attempt)
        )
        row = TargetDataset(schema=schema, name=name, key=derived)
        assign(row, plain_fields(row, described), DATASET_FIELDS)
        check_target_dataset(row)
        refuse_quoted_name(row, accepted=quoted_name)
        store(row)
        if row.select:
            if take_columns or list(inputs):
                refuse_derived(row, "inputs")
            _derive(row, business_key, quoted_name)
            row = TargetDataset.objects.select_related("schema").get(pk=row.pk)
        else:
            link_dataset(row, inputs)
        if take_columns:
            _take_columns(row)
        check_dataset_columns(row)
        if row.historize:
            ensure_history(row)
        return row


def update_target_dataset(
    *,
    dataset: TargetDataset,
    expected_version: int,
    business_key: Sequence[str] | None = None,
    quoted_name: bool = True,
    **changes: Any,
) -> TargetDataset:
    """Change a dataset; disabling history retires the history dataset and deletes nothing.

    The columns of a model follow its ``select``; ``business_key`` are the names of its key columns, None keeps them.
    ``quoted_name`` accepts new names of columns that most engines need quotes for.
    """
    with writing():
        row = claim(dataset, expected_version)
        was = row.select
        if business_key is not None and not (changes.get("select") or was):
            raise MetadataError(
                "invalid", "is given with a SELECT only; set the roles of columns", "business_key", str(row)
            )
        with following([row]):
            differs = assign(row, plain_fields(row, changes), DATASET_FIELDS)
            if differs:
                _check_kind(row, was)
                check_target_dataset(row)
                store(row)
            if row.select and (business_key is not None or (differs and set(changes) & set(MODEL_FIELDS))):
                _derive(row, business_key, quoted_name)
                row = TargetDataset.objects.select_related("schema").get(pk=row.pk)
        if differs:
            check_dataset_columns(row)
            for field in _RULE_FIELDS:
                if field in changes:
                    check_references(row, field, with_rules=True)
            if row.historize:
                ensure_history(row)
            elif hasattr(row, "history"):
                set_retired(row.history, by=TargetDataset.RetiredBy.GENERATION)
        return row


def _derive(row: TargetDataset, business_key: Sequence[str] | None, quoted_name: bool) -> None:
    """Derive a model whose SELECT a user wrote, and check the new names in it."""
    known = set(row.columns.values_list("name", flat=True))
    derive(row, business_key)
    for column in row.columns.filter(active=True).exclude(name__in=known).select_related("dataset__schema"):
        refuse_quoted_name(column, accepted=quoted_name, field="select")


def _check_kind(row: TargetDataset, was: str) -> None:
    """Refuse to make a dataset with columns a model, or a model another dataset."""
    if was and not row.select:
        raise MetadataError("invalid", "a model keeps a SELECT; create another dataset without one", "select", str(row))
    if row.select and not was and row.columns.exists():
        raise MetadataError("invalid", "has columns described by hand; create a model beside it", "select", str(row))


def create_target_column(
    *,
    dataset: TargetDataset,
    name: str,
    type: str | DataType,
    inputs: Iterable[SourceColumn | TargetColumn] | None = None,
    key: UUID | None = None,
    quoted_name: bool = True,
    **described: Any,
) -> TargetColumn:
    """Create a column after the others; by default, the inputs are those that its expression names.

    ``quoted_name`` accepts a name that most engines need quotes for.
    """
    with writing(), following([dataset]):
        row = add_column(dataset, name, type, described, inputs=inputs, key=key)
        refuse_quoted_name(row, accepted=quoted_name)
        check_dataset_columns(row.dataset)
        if not row.nullable:
            check_references(row.dataset, "nullable", with_rules=True)
        return row


def add_column(
    dataset: TargetDataset,
    name: str,
    type: str | DataType,
    described: dict[str, Any],
    *,
    inputs: Iterable[SourceColumn | TargetColumn] | None = None,
    key: UUID | None = None,
) -> TargetColumn:
    """Write a new column; the caller must check its dataset afterwards."""
    refuse_derived(dataset, "columns")
    derived = key or free_key(TargetColumn, lambda attempt: stable_keys.target_column_key(dataset.key, name, attempt))
    row = TargetColumn(dataset=dataset, name=name, key=derived)
    values = {"type": type, **described}
    values["ordinal"] = described.get("ordinal") or next_ordinal(dataset)
    assign(row, plain_fields(row, values), COLUMN_FIELDS)
    check_target_column(row)
    store(row)
    link_column(row, columns_named_in(row) if inputs is None else inputs)
    return row


def update_target_column(
    *,
    column: TargetColumn,
    expected_version: int,
    inputs: Iterable[SourceColumn | TargetColumn] | None = None,
    **changes: Any,
) -> TargetColumn:
    """Change a column; a new expression also sets its inputs, unless they are given."""
    with writing(), following([column.dataset]):
        row = claim(column, expected_version)
        if change_column(row, changes, inputs):
            check_dataset_columns(row.dataset)
            check_keys(row.dataset, changes)
        return row


def check_keys(dataset: TargetDataset, changed: Iterable[str]) -> None:
    """Check the references of a dataset if its business key, or the type or nullability of a column, changed."""
    names = set(changed)
    for field in dict.fromkeys(field for name, field in _KEY_FIELDS.items() if name in names):
        check_references(dataset, field)
    if "type" in names:
        check_dataset_checks(dataset, "type")


def change_column(
    row: TargetColumn, changes: dict[str, Any], inputs: Iterable[SourceColumn | TargetColumn] | None = None
) -> bool:
    """Write the differences of a claimed column; return True if there are any.

    The caller must check its dataset afterwards.
    """
    expression, derived = row.expression, {name: getattr(row, name) for name in _DERIVED}
    differs = assign(row, plain_fields(row, changes), COLUMN_FIELDS)
    for name in _DERIVED:
        if getattr(row, name) != derived[name]:
            refuse_derived(row.dataset, name)
    if differs:
        check_target_column(row)
        store(row)
    if row.dataset.select:
        return differs
    if inputs is None and row.expression and row.expression != expression:
        inputs = columns_named_in(row)
    if inputs is not None and link_column(row, inputs):
        if not differs:
            store(row)
        return True
    return differs


def order_target_columns(
    *, dataset: TargetDataset, order: Sequence[TargetColumn], seen: Sequence[TargetColumn]
) -> list[TargetColumn]:
    """Reorder the active columns in one transaction; retired ones keep their positions.

    ``seen`` is the order the user saw: MetadataError ``order_changed`` if it is not current any more.
    """
    with writing():
        rows = {row.pk: row for row in _locked(dataset)}
        if [row.pk for row in seen] != list(rows):
            message = "another user changed the columns; reload the page"
            raise MetadataError("order_changed", message, "ordinal", str(dataset))
        if sorted(row.pk for row in order) != sorted(rows):
            raise MetadataError("invalid", "must hold every column in use once", "ordinal", str(dataset))
        places = sorted({row.ordinal for row in rows.values()})
        if len(places) < len(rows):
            places = list(range(1, len(rows) + 1))
        for row, place in zip([rows[row.pk] for row in order], places, strict=True):
            if row.ordinal != place:
                row.ordinal = place
                store(row)
        return [rows[row.pk] for row in order]


def set_dataset_inputs(
    *,
    dataset: TargetDataset,
    expected_version: int,
    inputs: Iterable[SourceDataset | TargetDataset],
    reason: str = "",
) -> TargetDataset:
    """Set the dataset's inputs, in this order; an input that columns still read cannot be removed."""
    with writing(reason):
        row = claim(dataset, expected_version)
        if row.history_of_id is not None:
            raise MetadataError("invalid", "a history reads its base and nothing else", "inputs", str(row))
        refuse_derived(row, "inputs")
        if link_dataset(row, inputs):
            check_dataset_columns(row)
            store(row)
        return row


def _locked(dataset: TargetDataset) -> QuerySet[TargetColumn]:
    return dataset.columns.select_for_update(of=("self",)).filter(active=True).order_by("ordinal", "id")


def _take_columns(dataset: TargetDataset) -> None:
    """Add copies of the input datasets' columns, one for each name."""
    taken: set[str] = set()
    for item in dataset.inputs.all():
        for reads in item.read_dataset.columns.filter(active=True).order_by("ordinal", "id"):
            delivered = item.source_id or reads.name.startswith(ENGINE_PREFIX)
            name = safe_column_name(reads.name, reads.ordinal) if delivered else reads.name
            role = getattr(reads, "role", "business_key" if reads.key_ordinal else "attribute")
            if name.lower() in taken or role == TargetColumn.Role.TECHNICAL:
                continue
            # The business key is that of the first input; another's would be a second one.
            is_key = role == TargetColumn.Role.BUSINESS_KEY and item.ordinal == 1
            taken.add(name.lower())
            described = {
                "nullable": reads.nullable,
                "role": "business_key" if is_key else "attribute",
                "key_ordinal": reads.key_ordinal if is_key else None,
                "description": reads.description,
                "pii": reads.pii,
                "sensitivity": reads.sensitivity,
            }
            add_column(dataset, name, reads.type, described, inputs=[reads])
