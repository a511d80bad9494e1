"""Datasets of a report's scope, and the scope in its document."""

from collections.abc import Iterable, Sequence
from typing import Any

from architecture.domain.states.current_state import CurrentState
from elevata.core.words import suggestion
from metadata.domain.scope import ALL, DATASET, FILES, SCHEMA, SELECTION, Scope, ScopeProblem
from metadata.domain.selection import reached
from metadata.domain.state import DatasetState

# Dependency modes: a dataset alone, or with its inputs.
TARGET_ONLY, WITH_DEPENDENCIES = "target_only", "with_dependencies"


def scope_document(scope: Scope, datasets: Iterable[str] = ()) -> dict[str, Any]:
    """Return the scope of ``change-report/v1``; ``datasets`` are the resolved names, empty if all are in scope."""
    document: dict[str, Any] = {"kind": scope.kind}
    if scope.name:
        document |= {"name": scope.name, "dependency_mode": TARGET_ONLY if scope.target_only else WITH_DEPENDENCIES}
    document |= {name: value for name in ("source", "target", "without_blocked") if (value := getattr(scope, name))}
    listed = sorted(datasets)
    return {**document, "datasets": listed} if listed else document


def keys_in_scope(scope: Scope, current: CurrentState, desired: Sequence[DatasetState]) -> frozenset[str]:
    """Return the stable keys of the datasets in scope, including those that only exist or are only desired."""
    if scope.target_only and scope.kind != DATASET:
        raise ScopeProblem("target-only goes with a dataset")
    if scope.keys is not None:
        return scope.keys
    return _resolve(scope, current, desired) - set(scope.without)


def _resolve(scope: Scope, current: CurrentState, desired: Sequence[DatasetState]) -> frozenset[str]:
    before = {dataset.state.key: dataset.state for dataset in current.datasets}
    after = {dataset.key: dataset for dataset in desired}
    if scope.kind in (ALL, FILES):
        return frozenset(before) | frozenset(after)
    states = (*before.values(), *after.values())
    names = scope.name.split() if scope.kind == SELECTION else (scope.name,)
    _refuse_unknown(scope.kind, names, states)
    selected = {state.key for state in states if _name_in(scope.kind, state) in names}
    if not scope.target_only:
        selected |= reached(
            selected & after.keys(), {key: after.keys() & set(state.inputs) for key, state in after.items()}
        )
    desired_names = {after[key].qualified_name for key in selected if key in after}
    same = {key for key, state in before.items() if state.qualified_name in desired_names and key not in after}
    return frozenset(selected | same)


def _refuse_unknown(kind: str, names: Iterable[str], states: Iterable[DatasetState]) -> None:
    known = {_name_in(kind, state) for state in states}
    missing = [name for name in names if name not in known]
    if missing:
        meant = suggestion(missing[0], known)
        kind = DATASET if kind == SELECTION else kind
        raise ScopeProblem(f"there is no {kind} {missing[0]}{meant and f'; {meant}'}")


def _name_in(kind: str, state: DatasetState) -> str:
    return state.schema if kind == SCHEMA else state.qualified_name
