"""Declared key and quality checks of a model, as a trial of its SELECT runs them on the rows of the result."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone

from architecture.selectors.dataset_states import described_states
from architecture.services.environments import current_environment
from loader.contract.manifest.checks import CheckSpec
from loader.contract.manifest.codec import to_json
from loader.contract.manifest.reads import QuerySource, ReadManifest
from loader.models import ReadRequest
from loader.services.quality import check_specs, datasets_read
from loader.services.reads.read_permissions import masking_for, may_read
from loader.services.reads.trials import TRY_MODEL, Trial, trial_of
from metadata.domain.quality.check_kinds import NOT_NULL, QUERY, STOP, UNIQUE
from metadata.models import TargetDataset
from metadata.selectors.datasets import datasets_by_name

KEY_IS_UNIQUE, KEY_HAS_NO_NULL = "key is unique", "key has no NULL"


def trial_checks(
    trial: Trial, *, dataset: TargetDataset | None, key: Sequence[str] | None, user: Any
) -> dict[str, Any]:
    """Return the arguments of a trial that also checks the rows: the checks, and why others are left out.

    The declared key is checked as two checks that stop a load. ``key`` are the columns that the user entered, None for
    those of the model. A check that compares a column which is masked for the user is left out, since its rows would
    tell masked values, and so is one of a table that the user may not read.
    """
    names = {column.name.lower(): column.name for column in trial.described.columns}
    specs = _key_checks(tuple(names.get(name.lower(), name) for name in (trial.key if key is None else key)))
    others: dict[str, TargetDataset] = {}
    if dataset is not None:
        of_dataset, others = _checks_of(dataset)
        specs += of_dataset
    left_out = {spec.name: _reason(spec, trial, others, user) for spec in specs}
    shown_key = [name for name in trial.key if name.lower() in names and name.lower() not in trial.masked]
    return {
        "checks": [to_json(spec) for spec in specs if not left_out[spec.name]],
        "left_out_checks": {name: reason for name, reason in left_out.items() if reason},
        "shown_key": shown_key,
        "checked_at": timezone.now().isoformat(),
    }


def _key_checks(key: Sequence[str]) -> list[CheckSpec]:
    if not key:
        return []
    kinds = {KEY_IS_UNIQUE: UNIQUE, KEY_HAS_NO_NULL: NOT_NULL}
    return [CheckSpec(name, name, kind, STOP, {"columns": list(key)}) for name, kind in kinds.items()]


def _checks_of(dataset: TargetDataset) -> tuple[list[CheckSpec], dict[str, TargetDataset]]:
    """Return the active checks of a model, and the other datasets that they read, by stable key of the environment."""
    environment = current_environment()
    states = {state.key: state for state in described_states(environment=environment)}
    own = next((state for state in states.values() if state.qualified_name == str(dataset)), None)
    if own is None:
        return [], {}
    specs = list(check_specs([own], states, environment=environment).get(own.key, ()))
    names = {states[key].qualified_name: key for key in datasets_read(specs)}
    rows = datasets_by_name(*names).select_related("history_of__schema")
    return specs, {names[str(row)]: row for row in rows if str(row) in names}


def _reason(spec: CheckSpec, trial: Trial, others: Mapping[str, TargetDataset], user: Any) -> str:
    """Return why a check is left out for a user; empty if it is not."""
    if spec.problem or user is None:
        return ""
    compared = {name for name in trial.masked if spec.rule.names_column(name)}
    if compared or spec.kind == QUERY and trial.masked:
        return f"{', '.join(sorted(compared or trial.masked))} is masked for you"
    tables = (*((spec.other,) if spec.other else ()), *(table for _, table in spec.views))
    for table in tables:
        row = others.get(table.dataset_key)
        if row is None or not may_read(user, row):
            return f"you may not read {table.qualified_name}"
        masking = masking_for(user, row, table)
        if masking is None:
            continue
        hidden = {column.name.lower() for column in table.columns if column.key not in masking.shown}
        used = hidden if spec.kind == QUERY else hidden & {name.lower() for name in spec.rule.other_columns}
        if used:
            return f"{table.qualified_name} has columns that are masked for you"
    return ""


def trial_manifest(read: ReadRequest, *, timeout_seconds: float) -> ReadManifest:
    """Return the manifest of a trial with the present permissions of its user."""
    trial, arguments = trial_of(read, read.requested_by), read.arguments
    more = {"query": trial.sql, "key": list(trial.key), "left_out": sorted(trial.masked)}
    if arguments.get("check"):
        key = arguments.get("declared_key")
        more |= trial_checks(trial, dataset=read.dataset, key=key, user=read.requested_by)
    return ReadManifest(
        TRY_MODEL,
        table=trial.table,
        arguments=arguments | more,
        timeout_seconds=timeout_seconds,
        masking=trial.masking,
        sources=tuple(QuerySource(item.view, item.table, masking=item.masking) for item in trial.inputs),
    )
