"""States of target datasets: all that a change report compares, with the rules that decide which rows a load brings.

Columns and inputs are read as values: with thousands of datasets, creating model instances takes most of the time.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce

from metadata.domain import naming
from metadata.domain.copies import LEAVE_OUT, rule_of
from metadata.domain.load_policy import (
    HOLDING_BACK,
    check_rules,
    column_rule,
    columns_decide,
    load_policy,
    source_rules,
)
from metadata.domain.quality.unknown_parents import GHOST
from metadata.domain.sources import raw_keeping
from metadata.domain.state import CheckState, ColumnState, ContractState, DatasetState, ExposureState, ReferenceState
from metadata.domain.types import DataType
from metadata.models import (
    ColumnInput,
    DatasetCopy,
    DatasetInput,
    Exposure,
    QualityCheck,
    Reference,
    ReferencePair,
    SourceColumn,
    TargetColumn,
    TargetDataset,
)

_SOURCE = ("format", "options", "intake", "new_columns")
# Fields of inputs that ``rules_of_rows`` needs.
SOURCE_FIELDS = tuple(f"source__{name}" for name in _SOURCE)
_Row = Mapping[str, Any]


def dataset_states(datasets: QuerySet[TargetDataset] | None = None) -> tuple[DatasetState, ...]:
    """Return all target datasets (or the given ones) as states, inactive ones included, ordered by name.

    History datasets have no state of their own: their key is the ``history_key`` of the base's state. The number of
    queries does not depend on the number of datasets.
    """
    selected = TargetDataset.objects.all() if datasets is None else datasets
    rows = selected.filter(history_of__isnull=True).order_by()
    pks = rows.values("pk")
    exposed = Exists(Exposure.objects.filter(dataset=OuterRef("pk")))
    checked = Exists(holding_back(OuterRef("pk")))
    copied = Exists(sensitive_copies(OuterRef("pk")))
    values = list(rows.values(*_UNCHANGED, *_CONVERTED, exposed=exposed, checked=checked, copied=copied))
    checks = _contract_checks([row["pk"] for row in values if row["contract"]])
    exposures = _exposure_states([row["pk"] for row in values if row["exposed"]])
    read, referring = list(_inputs_read(pks)), list(_references(pks))
    known = {row["pk"] for row in values}
    columns, inputs = _column_states(pks), _dataset_inputs(read)
    refers = _reference_states(pks, [row for row in referring if row["child_id"] in known])
    rules = rules_of_rows(read, referring, [row["pk"] for row in values if row["checked"]])
    copies = _copy_rules([row["pk"] for row in values if row["copied"]])
    states = (
        DatasetState(
            **{name: row[name] for name in _UNCHANGED},
            key=str(row["key"]),
            schema=row["schema__name"],
            layer=row["schema__layer"],
            columns=tuple(columns[row["pk"]]),
            former_names=tuple(row["former_names"]),
            history_key=str(row["history__key"]) if row["history__key"] else None,
            filter=row["filter"] or None,
            select=row["select"] or None,
            load_policy=load_policy(
                keeping=raw_keeping.policy_of(row["keep"], row["keep_days"], row["keep_deliveries"]),
                **rules[row["pk"]],
                copies=copies[row["pk"]],
            ),
            inputs=tuple(inputs[row["pk"]]),
            references=tuple(refers[row["pk"]]),
            contract=ContractState(tuple(checks[row["pk"]])) if row["contract"] else None,
            exposures=tuple(exposures[row["pk"]]),
        )
        for row in values
    )
    return tuple(sorted(_add_inputs_by_name(states), key=lambda state: state.qualified_name))


def _add_inputs_by_name(states: Iterable[DatasetState]) -> Iterator[DatasetState]:
    """Yield the states, with inputs for columns that have neither inputs nor an expression.

    Loads fill such a column from the input columns of its name. As inputs in the state, these show that a rename
    upstream changes the column's values.
    """
    states = list(states)
    upstream = {key for state in states if any(map(_is_filled_by_name, state.columns)) for key in state.inputs}
    keys: dict[str, dict[str, str]] = defaultdict(dict)
    if upstream:
        rows = TargetColumn.objects.filter(dataset__key__among=upstream, active=True)
        for dataset, name, key in rows.values_list("dataset__key", "name", "key"):
            keys[str(dataset)][name] = str(key)
    for state in states:
        names = [keys[key] for key in state.inputs if key in keys]
        columns = tuple(_with_inputs_by_name(column, names) for column in state.columns)
        yield replace(state, columns=columns) if names else state


def _is_filled_by_name(column: ColumnState) -> bool:
    return not column.inputs and not column.expression


def _with_inputs_by_name(column: ColumnState, inputs: Iterable[Mapping[str, str]]) -> ColumnState:
    """Return the column with the input columns of its name. ``inputs`` are the datasets' columns: names to keys."""
    if not _is_filled_by_name(column):
        return column
    return replace(column, inputs=tuple(keys[column.name] for keys in inputs if column.name in keys))


def dataset_state(dataset: TargetDataset) -> DatasetState:
    """Return the state of a dataset; for a history dataset, the state of its base."""
    (state,) = dataset_states(TargetDataset.objects.filter(pk=dataset.history_of_id or dataset.pk))
    return state


# Fields that a state contains unchanged, and those that it contains in another form.
_UNCHANGED = ("name", "active", "materialization", "historize", "history_policy", "hash_version", "increment")
_CONVERTED = (
    *("pk", "key", "schema__name", "schema__layer", "former_names", "history__key", "filter", "select", "keep"),
    *("keep_days", "keep_deliveries", "contract"),
)
_COLUMN = ("name", "nullable", "role", "active")
_TYPE = ("data_type", "length", "precision", "scale")
_ORDER = ("ordinal", "id")


def _column_states(datasets: QuerySet) -> dict[int, list[ColumnState]]:
    """Return the columns of these datasets, in order, by the dataset's pk."""
    links = ColumnInput.objects.filter(column__dataset__in=datasets).order_by("column_id", *_ORDER)
    inputs = _keys_by_owner(links.values_list("column_id", Coalesce("source_column__key", "upstream_column__key")))
    rows = TargetColumn.objects.filter(dataset__in=datasets).order_by("dataset_id", *_ORDER)
    columns: dict[int, list[ColumnState]] = defaultdict(list)
    for row in rows.values("pk", "dataset_id", "key", "former_names", "expression", *_COLUMN, *_TYPE):
        columns[row["dataset_id"]].append(
            ColumnState(
                **{name: row[name] for name in _COLUMN},
                key=str(row["key"]),
                type=_type(*(row[name] for name in _TYPE)),
                former_names=tuple(row["former_names"]),
                expression=row["expression"] or None,
                inputs=tuple(inputs[row["pk"]]),
            )
        )
    return columns


@lru_cache(maxsize=1024)
def _type(*parts: Any) -> str:
    return str(DataType(*parts))


def _inputs_read(datasets: QuerySet) -> QuerySet:
    """Return the inputs of these datasets, in order, with the fields of sources that decide rows.

    The key of a history is that of its base.
    """
    rows = DatasetInput.objects.filter(dataset__in=datasets).order_by("dataset_id", *_ORDER)
    key = Coalesce("source__key", "upstream__history_of__key", "upstream__key")
    return rows.values("dataset_id", "source_id", *SOURCE_FIELDS, key=key)


def _dataset_inputs(rows: Iterable[Mapping[str, Any]]) -> dict[int, list[str]]:
    """Return the stable keys of inputs, in order, by the dataset's pk."""
    keys = _keys_by_owner((row["dataset_id"], row["key"]) for row in rows)
    return defaultdict(list, {owner: list(dict.fromkeys(read)) for owner, read in keys.items()})


def _keys_by_owner(rows: Iterable[tuple[int, UUID]]) -> dict[int, list[str]]:
    keys: dict[int, list[str]] = defaultdict(list)
    for owner, key in rows:
        keys[owner].append(str(key))
    return keys


def _contract_checks(datasets: Collection[int]) -> dict[int, list[CheckState]]:
    """Return the active checks of contracts, with normal arguments, by the dataset's pk."""
    checks: dict[int, list[CheckState]] = defaultdict(list)
    rows = QualityCheck.objects.filter(dataset__in=datasets, active=True).order_by("key") if datasets else ()
    for row in rows:
        check = CheckState(str(row.key), row.name, row.kind, row.severity, row.rule.arguments)
        checks[row.dataset_id].append(check)
    return checks


def _exposure_states(datasets: Collection[int]) -> dict[int, list[ExposureState]]:
    """Return the exposures of these datasets, by the dataset's pk."""
    exposures: dict[int, list[ExposureState]] = defaultdict(list)
    rows = Exposure.objects.filter(dataset__in=datasets).order_by("name") if datasets else ()
    for row in rows:
        exposures[row.dataset_id].append(ExposureState(row.name, row.kind, row.owner, row.link))
    return exposures


def _references(datasets: QuerySet) -> QuerySet:
    """Return the active references of these datasets, and those that add ghost rows to them."""
    ghosts = Q(parent__in=datasets, unknown_parent=GHOST)
    rows = Reference.objects.filter(Q(child__in=datasets) | ghosts, active=True)
    fields = ("pk", "child_id", "parent_id", "key", "role_name", "unknown_parent")
    return rows.values(*fields, "child__key", "parent__name", "parent__key")


def _reference_states(datasets: QuerySet, rows: Iterable[Mapping[str, Any]]) -> dict[int, list[ReferenceState]]:
    """Return the states of these datasets' references by the child's pk."""
    pairs: dict[int, list[tuple[str, str]]] = defaultdict(list)
    links = ReferencePair.objects.filter(reference__child__in=datasets).order_by("reference_id", "id")
    for reference, child, key in links.values_list("reference_id", "child_column__key", "parent_column__key"):
        pairs[reference].append((str(child), str(key)))
    states: dict[int, list[ReferenceState]] = defaultdict(list)
    for row in rows:
        name = naming.foreign_key_name(row["role_name"], row["parent__name"])
        parent, rule = str(row["parent__key"]), row["unknown_parent"]
        state = ReferenceState(str(row["key"]), name, parent, tuple(pairs[row["pk"]]), rule)
        states[row["child_id"]].append(state)
    return states


def holding_back(dataset: Any) -> QuerySet[QualityCheck]:
    """Return the checks of a dataset that keep its rows out."""
    return QualityCheck.objects.filter(dataset=dataset, active=True, severity__in=HOLDING_BACK)


def sensitive_copies(dataset: Any) -> QuerySet[DatasetCopy]:
    """Return the copies of a dataset that have values or hashes of its sensitive columns."""
    return DatasetCopy.objects.filter(dataset=dataset).exclude(sensitive=LEAVE_OUT)


def _copy_rules(datasets: Collection[int]) -> Mapping[int, dict[str, dict[str, str]]]:
    """Return the copies with sensitive columns of these datasets, by the dataset's pk and their keys."""
    rules: dict[int, dict[str, dict[str, str]]] = defaultdict(dict)
    rows = DatasetCopy.objects.filter(dataset__pk__among=datasets).exclude(sensitive=LEAVE_OUT)
    for row in rows.select_related("system").order_by("key") if datasets else ():
        rules[row.dataset_id][str(row.key)] = copy_rule(row)
    return rules


def copy_rule(row: DatasetCopy) -> dict[str, str]:
    """Return a copy as a part of its dataset's state."""
    system = row.system
    return rule_of(system=system.short_name, location=system.location, table=row.table, sensitive=row.sensitive)


def rules_of_rows(
    inputs: Iterable[_Row], references: Iterable[_Row], checked: Collection[int]
) -> Mapping[int, dict[str, dict[str, Any]]]:
    """Return the parts of datasets' load policies by the dataset's pk: sources, checks and ghost rows.

    ``inputs`` have the dataset, the key and ``SOURCE_FIELDS``; ``checked`` are the datasets with checks that keep rows
    out. The number of queries does not depend on the number of datasets.
    """
    rules: dict[int, dict[str, dict[str, Any]]] = defaultdict(lambda: {"sources": {}, "checks": {}, "ghost_rows": {}})
    read = [row for row in inputs if row["source_id"]]
    columns = _column_rules({row["source_id"] for row in read if columns_decide(row["source__options"])})
    for row in read:
        rule = source_rules(**{name: row[f"source__{name}"] for name in _SOURCE}, columns=columns[row["source_id"]])
        rules[row["dataset_id"]]["sources"][str(row["key"])] = rule
    checks = QualityCheck.objects.filter(dataset__pk__among=checked, active=True, severity__in=HOLDING_BACK)
    for check in checks if checked else ():
        rule = check_rules(check.kind, check.severity, check.rule.arguments)
        rules[check.dataset_id]["checks"][str(check.key)] = rule
    for row in references:
        if row["unknown_parent"] == GHOST:
            rules[row["parent_id"]]["ghost_rows"][str(row["key"])] = str(row["child__key"])
    return rules


def _column_rules(sources: Collection[int]) -> Mapping[int, dict[str, str]]:
    """Return the rules of the active columns of these sources by the source's pk."""
    rules: dict[int, dict[str, str]] = defaultdict(dict)
    rows = SourceColumn.objects.filter(dataset__pk__among=sources, active=True).order_by("key")
    for row in rows.values("dataset_id", "key", "key_ordinal", "nullable", *_TYPE) if sources else ():
        type_ = str(DataType(*(row[name] for name in _TYPE)))
        rule = column_rule(type=type_, key_ordinal=row["key_ordinal"], nullable=row["nullable"])
        rules[row["dataset_id"]][str(row["key"])] = rule
    return rules
