"""Quality checks of datasets: creation, changes, and what renames and retirements of columns do to them."""

from collections.abc import Collection, Iterator
from typing import Any
from uuid import UUID

from django.db.models import Q

from elevata.audit.services.transactions import assign, check_fields, claim, writing
from elevata.core.errors import MetadataError
from metadata.domain import naming, stable_keys
from metadata.domain.quality.check_kinds import WARN, QualityRule, check_severity
from metadata.models import QualityCheck, TargetColumn, TargetDataset, TargetSchema
from metadata.selectors.datasets import datasets_by_name
from metadata.services.rows.row_changes import remove, store
from metadata.services.rows.row_names import free_key

CHECK_FIELDS = ("name", "arguments", "severity", "description")


def create_check(
    *,
    dataset: TargetDataset,
    name: str,
    kind: str,
    arguments: dict[str, Any] | None = None,
    severity: str = WARN,
    description: str = "",
    key: UUID | None = None,
) -> QualityCheck:
    """Create a check of a dataset; its next load runs it."""
    with writing():
        derived = key or free_key(
            QualityCheck, lambda attempt: stable_keys.quality_check_key(dataset.key, name, attempt)
        )
        row = QualityCheck(
            dataset=dataset,
            key=derived,
            name=name,
            kind=kind,
            arguments=arguments or {},
            severity=severity,
            description=description,
        )
        check_quality_check(row)
        return store(row)


def update_check(*, check: QualityCheck, expected_version: int, reason: str = "", **changes: Any) -> QualityCheck:
    """Change a check; its kind stays."""
    with writing(reason):
        row = claim(check, expected_version)
        if assign(row, changes, CHECK_FIELDS):
            check_quality_check(row)
            store(row)
        return row


def retire_check(*, check: QualityCheck, expected_version: int, reason: str = "") -> QualityCheck:
    """Retire a check: loads no longer run it, and its results stay."""
    return _set_active(check, expected_version, False, reason)


def unretire_check(*, check: QualityCheck, expected_version: int, reason: str = "") -> QualityCheck:
    """Reactivate a check, if it is valid for the current columns."""
    return _set_active(check, expected_version, True, reason)


def delete_check(*, check: QualityCheck, expected_version: int, reason: str = "") -> None:
    """Delete a check."""
    with writing(reason):
        remove([claim(check, expected_version)])


def _set_active(check: QualityCheck, expected_version: int, active: bool, reason: str) -> QualityCheck:
    with writing(reason):
        row = claim(check, expected_version)
        if row.active != active:
            row.active = active
            if active:
                check_quality_check(row)
            store(row)
        return row


def check_quality_check(row: QualityCheck) -> None:
    """Check a row before it is written: name, arguments, severity, and for an active check its columns."""
    where = str(row)
    if not row.name.strip():
        raise MetadataError("invalid", "needs a name", "name", where)
    if row.dataset.history_of_id is not None:
        raise MetadataError("invalid", "a history has the checks of its base", "dataset", where)
    try:
        rule = QualityRule.from_dict(row.kind, row.arguments)
        check_severity(rule, row.severity, row.dataset.schema.layer)
        if row.active:
            columns = row.dataset.columns.filter(active=True)
            rule.check_types({column.name: column.type for column in columns})
            _check_other(rule, where)
    except MetadataError as problem:
        raise problem.about(where) from None
    check_fields(row, where)


def _check_other(rule: QualityRule, where: str) -> None:
    """Check that the other dataset of a check exists and has the columns."""
    if not rule.dataset:
        return
    other = named_dataset(rule.dataset)
    if other is None:
        raise MetadataError("bad_check", f"there is no dataset {rule.dataset!r}", "dataset", where)
    known = {name.lower() for name in other.columns.filter(active=True).values_list("name", flat=True)}
    missing = next((name for name in rule.other_columns if name.lower() not in known), None)
    if missing is not None:
        raise MetadataError("bad_check", f"{other} has no active column {missing!r}", "other_columns", where)


def named_dataset(name: str) -> TargetDataset | None:
    """Return the dataset called ``schema.name``, case-insensitively; None if there is none."""
    return datasets_by_name(name).filter(history_of=None).first()


def check_dataset_checks(dataset: TargetDataset, field: str) -> None:
    """Check that all active checks of a dataset are valid after ``field`` of it or of its columns changed."""
    for check in dataset.checks.filter(active=True).select_related("dataset__schema"):
        try:
            check_quality_check(check)
        except MetadataError as problem:
            message = f"check {check.name} would not be valid any more: {problem.message}; change or retire it first"
            raise MetadataError("in_use", message, field, str(dataset)) from None


def checks_naming(column: TargetColumn) -> list[QualityCheck]:
    """Return the active checks that name a column: of its dataset, and of datasets that compare with it or read it."""
    own = [check for check in column.dataset.checks.filter(active=True) if check.rule.names_column(column.name)]
    others = [check for check in _checks_of_others(column.dataset) if _names_other(check, column.name)]
    return list(dict.fromkeys(own + others))


def refuse_if_checks_name(column: TargetColumn) -> None:
    """Refuse to retire a column that an active check names."""
    named = checks_naming(column)
    if named:
        message = f"check {named[0]} names it; change or retire that first"
        raise MetadataError("in_use", message, "active", str(column))


def follow_column(column: TargetColumn, old: str) -> None:
    """Rename a column in the checks that name it. Raise MetadataError for one that a SELECT names."""
    dataset = column.dataset
    for check in dataset.checks.select_related("dataset__schema"):
        try:
            renamed = check.rule.renamed(old, column.name)
        except MetadataError as problem:
            raise problem.about(str(check)) from None
        _store_rule(check, renamed)
    for check in _checks_of_others(dataset, retired=True):
        if _names_other(check, old):
            _refuse_select(check, f"names {old!r}", str(column))
            _store_rule(check, check.rule.other_renamed(old, column.name))


def follow_dataset(dataset: TargetDataset, old: str) -> None:
    """Rename a dataset in the checks that compare with it; ``old`` is its former ``schema.name``.

    Raise MetadataError ``in_use`` if a SELECT reads it.
    """
    for check in _named_as(old, retired=True):
        _refuse_select(check, "reads it", old)
        _follow(check, {**check.arguments, "dataset": str(dataset)})


def follow_schema(schema: TargetSchema, old: str) -> None:
    """Rename a schema in the checks that compare with its datasets.

    Raise MetadataError ``in_use`` if a SELECT reads one.
    """
    compares = Q(arguments__dataset__istartswith=f"{old}.")
    for check in _checks_with(compares, old, [old.lower()]):
        _refuse_select(check, "reads it", old)
        _follow(check, {**check.arguments, "dataset": f"{schema.name}.{check.rule.dataset.partition('.')[2]}"})


def _store_rule(check: QualityCheck, rule: QualityRule) -> None:
    if rule.arguments != check.rule.arguments:
        _follow(check, rule.arguments)


def _follow(check: QualityCheck, arguments: dict[str, Any]) -> None:
    was, check.arguments = check.arguments, arguments
    store(check, followed={"arguments": was})


def _refuse_select(check: QualityCheck, use: str, where: str) -> None:
    """Raise MetadataError ``in_use`` for a check with a SELECT, whose text follows no rename."""
    if check.rule.sql:
        raise MetadataError("in_use", f"check {check} {use} in its SELECT; change that first", "name", where)


def _names_other(check: QualityCheck, column: str) -> bool:
    if check.rule.sql:
        return check.rule.names_column(column)
    return column.lower() in {name.lower() for name in check.rule.other_columns}


def _checks_of_others(dataset: TargetDataset, *, retired: bool = False) -> list[QualityCheck]:
    return _named_as(str(dataset), retired=retired)


def _named_as(name: str, *, retired: bool) -> list[QualityCheck]:
    """Return the checks that compare with a dataset, or whose SELECT reads its table or history."""
    tables = [name.lower(), naming.history_name(name).lower()]
    checks = _checks_with(Q(arguments__dataset__iexact=name), name.partition(".")[2], tables)
    return [check for check in checks if retired or check.active]


def _checks_with(compares: Q, text: str, tables: Collection[str]) -> Iterator[QualityCheck]:
    """Yield the checks that compare with a dataset, and those whose SELECT has the text and reads one of the tables."""
    rows = QualityCheck.objects.filter(compares | Q(arguments__sql__icontains=text))
    for check in rows.select_related("dataset__schema").order_by("pk"):
        if not check.rule.sql or check.rule.selects_from(tables):
            yield check
