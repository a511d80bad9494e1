"""Rename and retirement of metadata objects."""

from elevata.audit.services.transactions import claim, writing
from elevata.core.errors import MetadataError
from metadata.domain import naming
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sources.intake import Intake
from metadata.domain.sql import rename_in_expression
from metadata.models import SourceDataset, TargetColumn, TargetDataset
from metadata.services.model_checks import refuse_derived
from metadata.services.models import derive, following
from metadata.services.quality import follow_column, follow_dataset, refuse_if_checks_name
from metadata.services.references import check_references
from metadata.services.rows.checks import (
    check_dataset_columns,
    check_history,
    check_target_column,
    check_target_dataset,
    refuse_if_paired,
    refuse_if_policy_names,
    with_place,
)
from metadata.services.rows.quoted_names import refuse_quoted_name
from metadata.services.rows.row_changes import store
from metadata.services.rows.row_names import BY_GENERATION, BY_PERSON, former_names_of, set_in_use, set_retired


def rename_dataset(
    *, dataset: TargetDataset, name: str, expected_version: int, reason: str = "", quoted_name: bool = True
) -> TargetDataset:
    """Rename a dataset and its history, and the references to them; see ``former_names_of``.

    ``quoted_name`` accepts a name that most engines need quotes for.
    """
    with writing(reason):
        row = claim(dataset, expected_version)
        if row.history_of_id is not None:
            raise MetadataError("invalid", "a history dataset is named after its base; rename that", "name", str(row))
        if row.name != name:
            old = str(row)
            children = TargetDataset.objects.filter(references__parent=row, references__role_name="")
            with following([row, *children]):
                _rename(row, name)
                refuse_quoted_name(row, accepted=quoted_name)
                follow_dataset(row, old)
                _check_technical_names(row)
                if hasattr(row, "history"):
                    _rename(row.history, naming.history_name(name))
        return row


def rename_column(
    *, column: TargetColumn, name: str, expected_version: int, reason: str = "", quoted_name: bool = True
) -> TargetColumn:
    """Rename a column, and the references to it in policy, filters and expressions; see ``former_names_of``.

    ``quoted_name`` accepts a name that most engines need quotes for.
    """
    with writing(reason), following([column.dataset]):
        row = claim(column, expected_version)
        refuse_derived(row.dataset, "name")
        if row.name != name:
            old = row.name
            row.former_names = former_names_of(row, name)
            row.name = name
            check_target_column(row)
            refuse_quoted_name(row, accepted=quoted_name)
            store(row)
            follow_policy(row.dataset, old, name)
            _follow_logic(row, old)
            follow_column(row, old)
            _check_readers(row.dataset)
        return row


def retire_dataset(*, dataset: TargetDataset, expected_version: int, reason: str = "") -> TargetDataset:
    """Retire a dataset with its history; the tables in the warehouse are not changed."""
    with writing(reason):
        row = claim(dataset, expected_version)
        with following([row]):
            set_retired(row, by=BY_PERSON)
            if hasattr(row, "history"):
                set_retired(row.history, by=BY_GENERATION)
        return row


def unretire_dataset(*, dataset: TargetDataset, expected_version: int, reason: str = "") -> TargetDataset:
    with writing(reason):
        row = claim(dataset, expected_version)
        base = row.history_of
        if base is not None and not (base.historize and base.active):
            raise MetadataError("invalid", "its base must be in use and historized first", "active", str(row))
        set_in_use(row)
        if row.historize and hasattr(row, "history"):
            set_in_use(row.history)
        if row.select:
            derive(row)
            row = TargetDataset.objects.select_related("schema").get(pk=row.pk)
        check_dataset_columns(row)
        return row


def retire_column(*, column: TargetColumn, expected_version: int, reason: str = "") -> TargetColumn:
    """Retire a column; tables keep it, but no load fills it."""
    with writing(reason), following([column.dataset]):
        row = claim(column, expected_version)
        refuse_derived(row.dataset, "active")
        if row.active:
            refuse_if_paired(row)
            refuse_if_policy_names(row)
            refuse_if_checks_name(row)
        set_retired(row, by=BY_PERSON)
        check_dataset_columns(row.dataset)
        _check_readers(row.dataset)
        return row


def unretire_column(*, column: TargetColumn, expected_version: int, reason: str = "") -> TargetColumn:
    with writing(reason), following([column.dataset]):
        row = claim(column, expected_version)
        refuse_derived(row.dataset, "active")
        if not row.active:
            row.active, row.retired_at, row.retired_by = True, None, ""
            check_target_column(row)
            store(row)
            check_dataset_columns(row.dataset)
            check_references(row.dataset, "active")
        return row


def _rename(row: TargetDataset, name: str) -> None:
    row.former_names = former_names_of(row, name)
    row.name = name
    check_target_dataset(row)
    store(row)


def _check_technical_names(row: TargetDataset) -> None:
    """Check that the key columns named after the dataset, here and in referring datasets, are free."""
    reserved = naming.reserved_column_names(row.schema.layer, row.name)
    for column in row.columns.all():
        if column.name.lower() in reserved:
            raise MetadataError(
                "name_taken",
                f"column {column.name!r} has the name of a technical column then",
                "name",
                str(row),
            )
    referring = row.referenced_by.filter(role_name="").select_related("child")
    wanted = naming.foreign_key_name("", row.name)
    for reference in referring:
        if reference.child.columns.filter(name__iexact=wanted).exists():
            raise MetadataError("name_taken", f"{reference.child} has a column {wanted!r} already", "name", str(row))


def follow_policy(dataset: TargetDataset | SourceDataset, old: str, new: str) -> None:
    """Rename a column in the dataset's history policy, and in the intake of a source dataset."""
    policy, intake = HistoryPolicy.from_dict(dataset.history_policy), Intake.from_dict(getattr(dataset, "intake", {}))
    renamed, followed = policy.renamed({old: new}), intake.renamed({old: new})
    if renamed != policy:
        dataset.history_policy = renamed.to_dict()
    if followed != intake and isinstance(dataset, SourceDataset):
        dataset.intake = followed.to_dict()
    if (renamed, followed) != (policy, intake):
        store(dataset)


def _check_readers(dataset: TargetDataset) -> None:
    """Check the history of datasets that read this one, whose operation column may exist only in their input."""
    for item in dataset.feeds.select_related("dataset__schema"):
        check_history(item.dataset)


def _follow_logic(column: TargetColumn, old: str) -> None:
    """Rename a column in the expressions and filters of the datasets that read it."""
    for item in column.dataset.feeds.filter(dataset__select="").select_related("dataset__schema"):
        reader = item.dataset
        if reader.filter:
            filter_ = _rewritten(reader, "filter", old, column.name)
            if filter_ != reader.filter:
                was, reader.filter = reader.filter, filter_
                store(reader, followed={"filter": was})
        for reading in reader.columns.filter(inputs__upstream_column=column).exclude(expression=""):
            expression = _rewritten(reading, "expression", old, column.name)
            if expression != reading.expression:
                was, reading.expression = reading.expression, expression
                store(reading, followed={"expression": was})


def _rewritten(row: TargetDataset | TargetColumn, field: str, old: str, new: str) -> str:
    rewritten: list[str] = []
    with_place(row, lambda: rewritten.append(rename_in_expression(getattr(row, field), old, new)))
    return rewritten[0]
