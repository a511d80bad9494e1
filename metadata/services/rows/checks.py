"""Checks of a row before it is written, with messages for users.

Services and the YAML import share them. The models' constraints check the same in the database.
"""

from collections.abc import Iterable

from django.db.models import Model, Q

from elevata.audit.services.transactions import are_constraints_left_to_database, check_fields
from elevata.core.errors import MetadataError
from metadata.domain import naming
from metadata.domain.copies import check_table
from metadata.domain.history.history_policy import NONE, HistoryPolicy
from metadata.domain.history.load_types import UPSERT, load_type
from metadata.domain.sources.intake import INPUTS, Intake
from metadata.domain.sql import check_expression
from metadata.models import (
    DatasetCopy,
    DatasetInput,
    Reference,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)
from metadata.services.model_checks import check_increment, check_model
from metadata.services.rows.row_names import check_word_list

MAX_DATASET_SHORT_NAME = 90


def refuse_address(name: str, field: str, where: str) -> None:
    """Refuse a name that is a path of the API, which would hide the object with that name."""
    if name == "bulk":
        raise MetadataError("invalid", "is reserved: the API has an address of that name", field, where)


def reason_for_key(policy: HistoryPolicy, *, historize: bool) -> str:
    """Return what of a policy needs a business key, as words; empty if a key is not needed."""
    if policy.is_honoured(historize=historize):
        return "history" if historize else "its history policy"
    return "upsert" if load_type(policy, historize=historize).name == UPSERT else ""


def refuse_if_paired(column: TargetColumn) -> None:
    """Refuse to retire a column that a reference pairs with another."""
    paired = Q(pairs__child_column=column) | Q(pairs__parent_column=column)
    reference = Reference.objects.filter(paired, active=True).first()
    if reference is not None:
        raise MetadataError("in_use", f"reference {reference} needs it", "active", str(column))


def refuse_if_policy_names(column: SourceColumn | TargetColumn) -> None:
    """Refuse to retire a column that the history policy of its dataset names.

    The operation column and the delete flag may be retired if the dataset's input has them.
    """
    dataset = column.dataset
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    is_honoured = dataset.active and policy.is_honoured(historize=dataset.historize)
    if isinstance(dataset, TargetDataset) and not is_honoured:
        return
    for field in policy.fields_naming(column.name):
        delivered = isinstance(dataset, TargetDataset) and column.name.lower() in input_column_names(dataset)
        if column.name not in policy.delivered_only or not delivered:
            message = f"the history policy of {dataset} names it; change that first"
            raise MetadataError("in_use", message, f"history_policy.{field}", str(column))


def check_schema(row: TargetSchema) -> None:
    with_place(row, lambda: naming.check_table_name(row.name))
    check_other(row, TargetSchema, "name")
    refuse_address(row.name, "name", str(row))
    check_word_list(row.tags, "tags", str(row))
    check_fields(row, str(row))


def check_target_dataset(row: TargetDataset) -> None:
    """Check name, layer and policy of a dataset without its columns; see ``check_dataset_columns``."""
    where, layers = str(row), TargetSchema.Layer
    with_place(row, lambda: naming.check_table_name(row.name, history=row.history_of_id is not None))
    named = list(TargetDataset.objects.filter(schema=row.schema, name__iexact=row.name))
    other = next((each for each in named if each.pk != row.pk), None)
    if other is not None:
        retired = "" if other.active else ", which is retired"
        raise MetadataError("name_taken", f"{row.name!r} is the name of another dataset{retired}", "name", where)
    if row.historize and row.schema.layer != layers.RAWCORE and not row.select:
        message = f"layer {row.schema.layer} keeps no history; rawcore and models do"
        raise MetadataError("invalid", message, "historize", where)
    if row.select or row.increment:
        check_model(row)
    if row.schema.layer == layers.RAW and row.materialization != "table":
        raise MetadataError("invalid", "raw datasets are tables", "materialization", where)
    _check_copies(row, is_renamed=row.name not in [each.name for each in named])
    with_place(row, lambda: HistoryPolicy.from_dict(row.history_policy))
    with_place(row, lambda: row.keeping.check(row.schema.layer))
    if row.filter:
        with_place(row, lambda: check_expression(row.filter, field="filter"))
    if row.contract:
        _check_contract(row)
    check_word_list(row.tags, "tags", where)
    check_word_list(row.former_names, "former_names", where)
    check_fields(row, where)


def _check_copies(row: TargetDataset, *, is_renamed: bool) -> None:
    """Refuse a view that has copies, and a new name that a copy without a table of its own cannot have."""
    is_view = row.materialization == TargetDataset.Materialization.VIEW
    if row.pk is None or not (is_view or is_renamed):
        return
    copies = list(row.copies.select_related("system"))
    if is_view and copies:
        message = f"has a copy in {copies[0].system}, and a view has no table to copy; delete the copy first"
        raise MetadataError("in_use", message, "materialization", str(row))
    check_copies_named_after_datasets(copies, str(row))


def check_copies_named_after_datasets(copies: Iterable[DatasetCopy], where: str) -> None:
    """Refuse a rename if a copy without a table of its own would get a name that its target refuses or has."""
    rows = [copy for copy in copies if not copy.table]
    for copy in rows:
        try:
            check_table(copy.system.kind, copy.table_name)
        except MetadataError as problem:
            message = f"the copy {copy} has the dataset's name: {problem.message}"
            raise MetadataError(problem.code, message, "name", where) from None
    refuse_tables_of_other_copies(rows, "name", where)


def refuse_tables_of_other_copies(rows: list[DatasetCopy], field: str, where: str) -> None:
    """Refuse copies whose tables other copies have in the same system, ignoring case."""
    others = DatasetCopy.objects.filter(system__in=[row.system for row in rows])
    others = others.exclude(pk__in=[row.pk for row in rows]).select_related("dataset__schema")
    taken = {(other.system_id, other.table_name.lower()): other for other in others}
    for row in rows:
        other = taken.get((row.system_id, row.table_name.lower()))
        if other is not None:
            message = f"{other.dataset} is copied to {other.table_name} in {row.system}, too; give one another table"
            raise MetadataError("name_taken", message, field, where)


def _check_contract(row: TargetDataset) -> None:
    if row.history_of_id is not None or row.schema.layer != TargetSchema.Layer.SERVING:
        raise MetadataError("invalid", "only a dataset of the serving layer is a contract", "contract", str(row))
    if not row.owner.strip():
        raise MetadataError("invalid", "a contract needs an owner", "owner", str(row))


def check_key_place(row: SourceColumn | TargetColumn) -> None:
    if row.key_ordinal == 0:
        raise MetadataError("invalid", "counts from 1", "key_ordinal", str(row))


def check_target_column(row: TargetColumn) -> None:
    where, dataset = str(row), row.dataset
    if dataset.history_of_id is not None:
        raise MetadataError("invalid", "a history dataset's columns are its base's; change them there", "", where)
    layer = dataset.schema.layer
    reserved = naming.reserved_column_names(layer, dataset.name)
    if row.name.lower().endswith(naming.KEY_SUFFIX):
        reserved |= _foreign_keys(dataset)
    prefix = naming.reserved_prefix(layer)
    with_place(row, lambda: naming.check_column_name(row.name, reserved=reserved, reserved_prefix=prefix))
    with_place(row, lambda: row.type)
    check_other_column(row, TargetColumn.objects.filter(dataset=dataset))
    if row.expression and not dataset.select:
        if dataset.schema.layer == TargetSchema.Layer.RAW:
            raise MetadataError("invalid", "raw holds what was delivered, without expressions", "expression", where)
        with_place(row, lambda: check_expression(row.expression))
    check_key_place(row)
    check_word_list(row.tags, "tags", where)
    check_word_list(row.former_names, "former_names", where)
    check_fields(row, where)


def check_dataset_columns(dataset: TargetDataset) -> None:
    """Check the rules for a dataset together with its columns."""
    check_history(dataset)
    if dataset.select:
        check_increment(dataset)
    else:
        check_logic(dataset)


def check_history(dataset: TargetDataset) -> None:
    """Refuse columns that do not match the dataset's history policy.

    To be called after a change of either.
    """
    active = [column for column in dataset.columns.all() if column.active]
    if not (dataset.active and active):
        return
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    if policy.rank is not None:
        _check_rank(dataset, policy.rank)
    _check_intakes(dataset, policy)
    with_place(dataset, lambda: policy.check_historize(dataset.historize))
    key = [column.name for column in active if column.role == TargetColumn.Role.BUSINESS_KEY]
    if not key and (needs_key := reason_for_key(policy, historize=dataset.historize)):
        raise MetadataError("no_business_key", f"{needs_key} needs a business key", "historize", str(dataset))
    if not policy.is_honoured(historize=dataset.historize):
        return
    delivered = input_column_names(dataset) if policy.delivered_only else ()
    types = {column.name: column.type for column in active}
    with_place(dataset, lambda: policy.check_described(types, key, delivered))


def _check_rank(dataset: TargetDataset, rank: tuple[str, ...]) -> None:
    """Refuse a rank that names other sources than those behind the dataset; one without inputs is not checked."""
    sources = _source_names(dataset)
    wrong = sorted(sources ^ set(rank)) if sources else []
    if wrong:
        message = "is no source of this dataset" if wrong[0] in rank else "is a source of this dataset without a rank"
        listed = ", ".join(sorted(sources))
        raise MetadataError(
            "bad_history_policy", f"{wrong[0]} {message}; its sources are {listed}", "history_policy.rank", str(dataset)
        )


def _source_names(dataset: TargetDataset) -> set[str]:
    """Return the names of the sources that a dataset reads, directly or through other datasets."""
    names, waiting, seen = set(), [dataset.pk], set()
    while waiting:
        seen.update(waiting)
        inputs = DatasetInput.objects.filter(dataset__in=waiting).select_related("source__system")
        names |= {str(item.source) for item in inputs if item.source}
        waiting = [item.upstream_id for item in inputs if item.upstream_id and item.upstream_id not in seen]
    return names


def _check_intakes(dataset: TargetDataset, policy: HistoryPolicy) -> None:
    """Refuse a policy that closes absent keys for a reader of sources of which a load reads changed rows only.

    Refuse delete detection that the one source of the dataset does not permit.
    """
    detects = policy.delete_detection != NONE
    if policy.input in INPUTS and policy.absent_keys == "nothing" and not detects:
        return
    if dataset.schema.layer != TargetSchema.Layer.RAWCORE:
        return
    by_stage = Q(
        feeds__dataset__feeds__dataset__feeds__dataset=dataset,
        feeds__dataset__feeds__dataset__schema__layer=TargetSchema.Layer.STAGE,
    )
    read = by_stage | Q(feeds__dataset__feeds__dataset=dataset)
    sources = SourceDataset.objects.filter(read).select_related("system").distinct()
    if detects:
        _check_detection(dataset, policy, list(sources))
    source = sources.filter(intake__has_key="watermark").first()
    if source is not None:
        try:
            Intake.from_dict(source.intake).check_reader(policy)
        except MetadataError as problem:
            message = f"{source} has a watermark, which {problem.message}"
            raise MetadataError(problem.code, message, "history_policy.input", str(dataset)) from None


def _check_detection(dataset: TargetDataset, policy: HistoryPolicy, sources: list[SourceDataset]) -> None:
    """Refuse delete detection for several sources, or for one that does not show its deletes."""
    field = "history_policy.delete_detection"
    if len(sources) > 1:
        message = f"needs one source; {', '.join(sorted(map(str, sources)))} have keys of their own"
        raise MetadataError("bad_history_policy", message, field, str(dataset))
    for source in sources:
        try:
            Intake.from_dict(source.intake).check_detection(policy, source.format)
        except MetadataError as problem:
            message = f"does not fit {source}: its {problem.field} {problem.message}"
            raise MetadataError("bad_history_policy", message, field, str(dataset)) from None


def check_logic(dataset: TargetDataset) -> None:
    """Check that filter and expressions name only columns of the dataset's inputs."""
    with_logic = [column for column in dataset.columns.all() if column.active and column.expression]
    if not with_logic and not dataset.filter:
        return
    names = input_column_names(dataset)
    if dataset.filter:
        _check_names(check_expression(dataset.filter, field="filter"), names, "filter", str(dataset))
    for column in with_logic:
        _check_names(check_expression(column.expression), names, "expression", str(column))


def input_column_names(dataset: TargetDataset) -> set[str]:
    """Return the names of the active columns of all inputs of a dataset, in lower case."""
    inputs = dataset.inputs.all()
    sources = [item.source_id for item in inputs if item.source_id]
    targets = [item.upstream_id for item in inputs if item.upstream_id]
    return _column_names(sources, targets)


def column_names_of(datasets: Iterable[SourceDataset | TargetDataset]) -> set[str]:
    """Return the names of the active columns of these datasets, in lower case."""
    rows = list(datasets)
    sources = [row.pk for row in rows if isinstance(row, SourceDataset)]
    return _column_names(sources, [row.pk for row in rows if isinstance(row, TargetDataset)])


def _column_names(sources: list[int], targets: list[int]) -> set[str]:
    names = set(SourceColumn.objects.filter(dataset__in=sources, active=True).values_list("name", flat=True))
    names |= set(TargetColumn.objects.filter(dataset__in=targets, active=True).values_list("name", flat=True))
    return {name.lower() for name in names}


def with_place(row: object, check) -> None:
    """Run a check without database access; add the row to its MetadataError."""
    try:
        check()
    except MetadataError as problem:
        raise problem.about(str(row)) from None


def _check_names(used: Iterable[str], known: set[str], field: str, where: str) -> None:
    missing = [name for name in used if name.lower() not in known]
    if missing:
        raise MetadataError(
            "unknown_column",
            f"names {missing[0]!r}, which is no column of the dataset's inputs",
            field,
            where,
        )


def check_other_column(row: SourceColumn | TargetColumn, others) -> None:
    if are_constraints_left_to_database():
        return
    other = others.filter(name__iexact=row.name).exclude(pk=row.pk).first()
    if other is not None:
        raise name_taken(row.name, other.name, str(row), is_retired=not other.active)


def name_taken(name: str, other: str, where: str, *, is_retired: bool = False) -> MetadataError:
    """Return the refusal of a column at ``where`` whose name is that of another one, ignoring case."""
    how = "differs from it only by case" if other != name else "has this name"
    return MetadataError(
        "name_taken", f"another column, {other!r}, {how}{' and is retired' if is_retired else ''}", "name", where
    )


def check_other(row: System | TargetSchema, model: type[Model], field: str) -> None:
    """Refuse a name that is taken, ignoring case, because it becomes part of table and file names."""
    value = getattr(row, field)
    if model._default_manager.filter(**{f"{field}__iexact": value}).exclude(pk=row.pk).exists():
        raise MetadataError("name_taken", f"{value!r} is taken", field, str(row))


def _foreign_keys(dataset: TargetDataset) -> set[str]:
    return {
        naming.foreign_key_name(reference.role_name, reference.parent.name).lower()
        for reference in dataset.references.select_related("parent")
    }


def check_free_text(name: str, where: str) -> None:
    if not name.strip() or any(ord(character) < 32 for character in name):
        raise MetadataError("bad_name", "must be text that can be seen", "name", where)
