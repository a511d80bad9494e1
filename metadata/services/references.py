"""References: foreign keys from the rows of one dataset to the rows of another."""

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Q

from elevata.audit.services.transactions import check_fields, claim, writing
from elevata.core.errors import MetadataError
from metadata.domain import naming, stable_keys
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.quality.unknown_parents import KEEP, End, rule_problem
from metadata.domain.types import hash_alike
from metadata.models import Reference, ReferencePair, TargetColumn, TargetDataset, TargetSchema
from metadata.services.models import following
from metadata.services.rows.checks import with_place
from metadata.services.rows.row_changes import remove, store, store_all
from metadata.services.rows.row_names import free_key

Pairs = Iterable[tuple[TargetColumn, TargetColumn]]


def create_reference(
    *,
    child: TargetDataset,
    parent: TargetDataset,
    pairs: Pairs,
    role_name: str = "",
    unknown_parent: str = KEEP,
    key: UUID | None = None,
) -> Reference:
    """Create a reference; ``pairs`` are (child column, parent's business-key column)."""
    with writing(), following([child]):
        derived = key or free_key(
            Reference, lambda attempt: stable_keys.reference_key(child.key, parent.key, role_name, attempt)
        )
        reference = Reference(
            child=child, parent=parent, role_name=role_name, unknown_parent=unknown_parent, key=derived
        )
        chosen = list(pairs)
        check_reference(reference, chosen)
        store(reference)
        set_pairs(reference, chosen)
        return reference


def update_reference(
    *, reference: Reference, expected_version: int, unknown_parent: str | None = None, reason: str = ""
) -> Reference:
    """Change a reference's rule for unknown parents; None leaves it unchanged."""
    with writing(reason):
        row = claim(reference, expected_version)
        if unknown_parent is not None and row.unknown_parent != unknown_parent:
            row.unknown_parent = unknown_parent
            if row.active:
                check_reference(row, _stored_pairs(row))
            store(row)
        return row


def retire_reference(*, reference: Reference, expected_version: int, reason: str = "") -> Reference:
    """Retire a reference; tables keep its column, but no load fills it."""
    return _set_active(reference, expected_version, False, reason)


def unretire_reference(*, reference: Reference, expected_version: int, reason: str = "") -> Reference:
    """Reactivate a reference, if it is valid for the current columns."""
    return _set_active(reference, expected_version, True, reason)


def _set_active(reference: Reference, expected_version: int, active: bool, reason: str) -> Reference:
    with writing(reason), following([reference.child]):
        row = claim(reference, expected_version)
        if row.active != active:
            row.active = active
            if active:
                check_reference(row, _stored_pairs(row))
            store(row)
        return row


def _stored_pairs(reference: Reference) -> list[tuple[TargetColumn, TargetColumn]]:
    return [(pair.child_column, pair.parent_column) for pair in reference.pairs.all()]


def set_pairs(reference: Reference, pairs: Pairs) -> bool:
    """Set the pairs of a reference; return True if they differed."""
    wanted = [(child.pk, parent.pk) for child, parent in pairs]
    if list(reference.pairs.values_list("child_column_id", "parent_column_id")) == wanted:
        return False
    remove(reference.pairs.all())
    store_all(
        ReferencePair(reference=reference, child_column_id=child, parent_column_id=parent) for child, parent in wanted
    )
    return True


def check_references(dataset: TargetDataset, field: str, *, with_rules: bool = False) -> None:
    """Check that all references from and to a dataset are valid after ``field`` of it or of its columns changed.

    ``with_rules``: only those that have a rule for unknown parents.
    """
    touching = Reference.objects.filter(Q(parent=dataset) | Q(child=dataset), active=True)
    if with_rules:
        touching = touching.exclude(unknown_parent=KEEP)
    rows = touching.select_related("child__schema", "parent__schema")
    for reference in rows.prefetch_related("pairs__child_column", "pairs__parent_column"):
        try:
            check_reference(reference, _stored_pairs(reference))
        except MetadataError as problem:
            message = f"reference {reference} would not hold any more: {problem.message}; retire it first"
            raise MetadataError("in_use", message, field, str(dataset)) from None


def check_reference(reference: Reference, pairs: list[tuple[TargetColumn, TargetColumn]]) -> None:
    """Check that the pairs cover the parent's business key exactly, in types that hash alike."""
    where = str(reference)
    _check_ends(reference, where)
    business_key = set(reference.parent.columns.filter(active=True, role=TargetColumn.Role.BUSINESS_KEY))
    if not business_key:
        raise MetadataError("no_business_key", f"{reference.parent} has no business key", "parent", where)
    for child_column, parent_column in pairs:
        if child_column.dataset_id != reference.child_id or not child_column.active:
            raise MetadataError("invalid", f"{child_column} is no active column of the child", "columns", where)
        if parent_column not in business_key:
            raise MetadataError("invalid", f"{parent_column} is not in the parent's business key", "columns", where)
        if not hash_alike(child_column.type, parent_column.type):
            raise MetadataError(
                "type_mismatch",
                f"{child_column.name} is {child_column.type}, {parent_column} is {parent_column.type}",
                "columns",
                where,
            )
    paired = [parent for _, parent in pairs]
    missing = sorted(column.name for column in business_key - set(paired))
    if missing or len(paired) != len(set(paired)):
        raise MetadataError(
            "incomplete_key",
            f"the parent's business key must be covered, each column once; {missing[0]!r} is missing"
            if missing
            else "pairs a business key column twice",
            "columns",
            where,
        )
    check_fields(reference, where)
    _check_rule(reference)


def _check_rule(reference: Reference) -> None:
    """Check that the reference can have its rule for unknown parents."""
    if reference.unknown_parent == KEEP:
        return
    attributes = reference.parent.columns.filter(active=True, role=TargetColumn.Role.ATTRIBUTE)
    problem = rule_problem(
        reference.unknown_parent,
        _end(reference.child),
        _end(reference.parent),
        required=attributes.filter(nullable=False).values_list("name", flat=True),
    )
    if problem:
        raise MetadataError("unsuitable_rule", problem, "unknown_parent", str(reference))


def _end(dataset: TargetDataset) -> End:
    is_table = dataset.materialization == TargetDataset.Materialization.TABLE
    is_loaded = is_table and dataset.schema.layer == TargetSchema.Layer.RAWCORE
    return End(str(dataset), HistoryPolicy.from_dict(dataset.history_policy), is_loaded)


def _check_ends(reference: Reference, where: str) -> None:
    for field, dataset in (("child", reference.child), ("parent", reference.parent)):
        if dataset.history_of_id is not None or dataset.schema.layer in naming.KEYLESS_LAYERS:
            raise MetadataError("invalid", f"{dataset} has no entity key to refer by", field, where)
    column_name = naming.foreign_key_name(reference.role_name, reference.parent.name)
    reserved = naming.reserved_column_names(reference.child.schema.layer, reference.child.name)
    if reference.role_name:
        with_place(where, lambda: naming.check_table_name(reference.role_name, field="role_name"))
    if column_name.lower() in reserved:
        raise MetadataError(
            "name_taken",
            f"its column would be called {column_name!r} like the dataset's own key",
            "role_name",
            where,
        )
    if reference.child.columns.filter(name__iexact=column_name).exists():
        raise MetadataError("name_taken", f"the child has a column {column_name!r} already", "role_name", where)
    others = reference.child.references.exclude(pk=reference.pk).select_related("parent")
    if any(
        naming.foreign_key_name(other.role_name, other.parent.name).lower() == column_name.lower() for other in others
    ):
        raise MetadataError("name_taken", f"another reference has the column {column_name!r}", "role_name", where)
