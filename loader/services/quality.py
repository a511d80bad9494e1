"""Quality checks of loads and reads, as manifests and reads need them."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db.models import F, Q, Window
from django.db.models.functions import Lower, RowNumber
from django.utils import timezone

from architecture.domain.tables import TableSpec, history_table, raw_table, rawcore_table
from architecture.models import Environment
from architecture.selectors.dataset_states import described_states
from elevata.core.errors import ProductError
from loader.contract.check_outcomes import BROKEN, STOPPED
from loader.contract.manifest.checks import CheckSpec
from loader.contract.manifest.codec import to_json
from loader.contract.manifest.reads import Masking
from loader.contract.refusals import Refusal
from loader.domain.historization.references import parent_checks
from loader.domain.queries.select_statements import check_query
from loader.models import CheckResult
from loader.services.reads.read_permissions import (
    SensitiveNames,
    hidden_names,
    masking_for,
    must_read,
    sensitive_columns,
)
from metadata.domain.quality import check_kinds
from metadata.domain.quality.check_kinds import DEFAULT_RUNS
from metadata.domain.state import DatasetState
from metadata.models import QualityCheck, TargetDataset
from metadata.selectors.datasets import datasets_by_name


def check_specs(
    datasets: Iterable[DatasetState], states: Mapping[str, DatasetState], *, environment: Environment
) -> dict[str, tuple[CheckSpec, ...]]:
    """Return the checks of datasets by the environment's stable keys; ``states`` are all datasets by key.

    These are the active ones of the metadata, and those of references whose rows with unknown parents are quarantined.
    """
    chosen = list(datasets)
    specs = _specs(chosen, states, environment)
    for state in chosen:
        if of_references := parent_checks(state, states):
            specs[state.key] = (*specs.get(state.key, ()), *of_references)
    others = datasets_read(spec for own in specs.values() for spec in own)
    sensitive = sensitive_columns([states[key] for key in others]) if others else {}
    return {key: tuple(_with_sensitive(spec, states, sensitive) for spec in own) for key, own in specs.items()}


def _with_sensitive(
    spec: CheckSpec, states: Mapping[str, DatasetState], sensitive: Mapping[str, SensitiveNames]
) -> CheckSpec:
    """Return the check with the sensitive columns of the other dataset, or of the tables that its query reads."""
    hidden_by_dataset = {
        key: hidden_names(states[key], sensitive[key]) for key in spec.datasets_read if key in sensitive
    }
    names = {name for hidden in hidden_by_dataset.values() for name in hidden}
    if not names:
        return spec
    by_table = {
        table.qualified_name.lower(): tuple(sorted(hidden_by_dataset.get(table.dataset_key, ())))
        for _, table in spec.views
    }
    return replace(spec, other_sensitive=tuple(sorted(names)), sensitive_by_table=tuple(by_table.items()))


def _specs(
    datasets: Iterable[DatasetState], states: Mapping[str, DatasetState], environment: Environment
) -> dict[str, tuple[CheckSpec, ...]]:
    """Return the active checks of the metadata."""
    checks = _checks_by_dataset(datasets)
    tables = _tables(states.values()) if checks else {}
    past = _past_counts([check for rows in checks.values() for check in rows], environment)
    return {key: tuple(_spec(check, states[key], tables, past) for check in rows) for key, rows in checks.items()}


def _checks_by_dataset(datasets: Iterable[DatasetState]) -> dict[str, list[QualityCheck]]:
    """Return active checks by the environment's keys: a dataset is matched by its key, else by its name."""
    chosen = list(datasets)
    by_key = {state.key for state in chosen}
    by_name = {state.qualified_name.lower(): state.key for state in chosen}
    by_dataset: dict[str, list[QualityCheck]] = {}
    rows = QualityCheck.objects.filter(active=True, dataset__active=True).select_related("dataset__schema")
    names = {name.rpartition(".")[2] for name in by_name}
    chosen_rows = Q(dataset__key__among=by_key) | Q(own_name__among=names)
    for row in rows.annotate(own_name=Lower("dataset__name")).filter(chosen_rows).order_by("name", "pk"):
        own = str(row.dataset.key)
        key = own if own in by_key else by_name.get(str(row.dataset).lower())
        if key is not None:
            by_dataset.setdefault(key, []).append(row)
    return by_dataset


def _tables(states: Iterable[DatasetState]) -> dict[str, TableSpec]:
    """Return the tables that checks can read, by name in lower case."""
    tables: dict[str, TableSpec] = {}
    for state in states:
        if state.materialization != "table" or not state.active:
            continue
        table = raw_table(state) if state.layer == "raw" else rawcore_table(state)
        tables[table.qualified_name.lower()] = table
        if state.historize and state.history_key:
            history = history_table(state)
            tables[history.qualified_name.lower()] = history
    return tables


def _spec(
    check: QualityCheck, state: DatasetState, tables: Mapping[str, TableSpec], past: Mapping[UUID, Sequence[int]]
) -> CheckSpec:
    spec = CheckSpec(str(check.key), check.name, check.kind, check.severity)
    try:
        rule = check.rule
        spec = replace(spec, arguments=rule.arguments)
        if rule.kind == check_kinds.QUERY:
            return _query_spec(spec, state, tables)
        if rule.kind == check_kinds.ROW_COUNT_CHANGE:
            return replace(spec, past=tuple(past.get(check.key, ())[: rule.runs or DEFAULT_RUNS]))
        if rule.dataset:
            other = tables.get(rule.dataset.lower())
            return replace(spec, other=other, problem="" if other else f"there is no table {rule.dataset}")
        return spec
    except ProductError as problem:
        return replace(spec, problem=problem.one_line())


def _query_spec(spec: CheckSpec, state: DatasetState, tables: Mapping[str, TableSpec]) -> CheckSpec:
    checked = check_query(spec.arguments["sql"], tables)
    views = tuple((view, tables[name]) for name, view in checked.views.items())
    return replace(spec, query=checked.query, views=views, own_view=checked.views.get(state.qualified_name.lower(), ""))


def _past_counts(checks: Iterable[QualityCheck], environment: Environment) -> dict[UUID, list[int]]:
    """Return the row counts of checks in their last runs, by key, newest first, without those that they stopped."""
    runs = {
        c.key: int(c.arguments.get("runs") or DEFAULT_RUNS) for c in checks if c.kind == check_kinds.ROW_COUNT_CHANGE
    }
    rows = CheckResult.objects.filter(check_key__among=runs, environment=environment, run__isnull=False)
    place = Window(RowNumber(), partition_by=F("check_key"), order_by=F("pk").desc())
    counts = rows.exclude(outcome__in=(STOPPED, BROKEN)).exclude(value=None).annotate(place=place)
    newest = counts.filter(place__lte=max(runs.values(), default=0)).order_by("-pk")
    by_check: dict[UUID, list[int]] = {}
    for key, value in newest.values_list("check_key", "value"):
        by_check.setdefault(key, []).append(int(value or 0))
    return by_check


def datasets_read(specs: Iterable[CheckSpec]) -> set[str]:
    """Return the keys of the datasets whose tables these checks read."""
    return {key for spec in specs for key in spec.datasets_read}


def quality_arguments(
    state: DatasetState, *, environment: Environment, user: Any, check: str | None = None
) -> dict[str, Any]:
    """Return the arguments of a read that runs a dataset's checks, or the one with the key, on its table as it is.

    Raise Refusal NO_CHECK for an unknown key, or MetadataError ``not_permitted`` unless the user may read the data that
    the checks read; the system (None) may.
    """
    specs, _ = _readable_specs(state, environment, user, check)
    return {"checks": [to_json(spec) for spec in specs], "checked_at": timezone.now().isoformat()}


def _readable_specs(
    state: DatasetState, environment: Environment, user: Any, check: str | None
) -> tuple[tuple[CheckSpec, ...], list[TargetDataset]]:
    """Return the dataset's checks, or the one with the key, and the other datasets that they read."""
    states = {item.key: item for item in described_states(environment=environment)}
    specs = check_specs([state], states, environment=environment).get(state.key, ())
    if check is not None:
        specs = tuple(spec for spec in specs if spec.key == check)
        if not specs:
            hint = "Choose one of its active checks."
            raise Refusal("NO_CHECK", f"{state.qualified_name} has no such active check", hint=hint)
    names = (states[key].qualified_name for key in datasets_read(specs))
    others = list(datasets_by_name(*names).select_related("history_of__schema"))
    for row in others:
        must_read(user, row)
    return specs, others


def failing_rows_arguments(
    state: DatasetState, table: TableSpec, masking: Masking | None, key: str, *, environment: Environment, user: Any
) -> dict[str, Any]:
    """Return the arguments of a read of the rows of a table that fail the check with this key.

    Which rows fail tells the values that the check compares, so it may compare no column that is masked for the user.
    Raise Refusal NO_CHECK, NO_FAILING_ROWS, CHECK_BROKEN or MASKED_COLUMN, or MetadataError ``not_permitted`` unless
    the user may read the data that the check reads; the system (None) may.
    """
    if table.kind in ("view", "history"):
        hint = "Open the data of the table that loads write."
        raise Refusal("NO_FAILING_ROWS", f"checks do not read {table.qualified_name}", hint=hint)
    (spec,), others = _readable_specs(state, environment, user, key)
    if spec.problem:
        raise Refusal("CHECK_BROKEN", f"check {spec.name} cannot run: {spec.problem}", hint="Correct the check.")
    if not spec.rule.definition.finds_rows:
        raise Refusal(
            "NO_FAILING_ROWS",
            f"check {spec.name} is of kind {spec.kind}, which no single row fails",
            hint="A query of a check can be run on the page SQL." if spec.kind == check_kinds.QUERY else "",
        )
    must_not_compare(spec.name, spec.rule.reads, table, masking)
    for row in others:
        assert spec.other is not None
        compared = {name.lower() for name in spec.rule.other_columns}
        must_not_compare(spec.name, compared, spec.other, masking_for(user, row, spec.other))
    return {"check": to_json(spec), "checked_at": timezone.now().isoformat()}


def must_not_compare(name: str, columns: Set[str], table: TableSpec, masking: Masking | None) -> None:
    """Raise Refusal MASKED_COLUMN if a check compares columns (names in lower case) that are masked or hashed."""
    if masking is None:
        return
    shown = {column.name.lower() for column in table.columns if column.key in masking.shown}
    if hidden := sorted(columns - shown):
        raise Refusal(
            "MASKED_COLUMN",
            f"check {name} compares {', '.join(hidden)} of {table.qualified_name}, which is masked for you, so its "
            "failing rows are not shown",
            hint="Ask an administrator for the role of a steward.",
        )
