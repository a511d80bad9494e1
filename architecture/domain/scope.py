"""Scope of a report: all datasets, those of a schema, a dataset or a selection with its inputs, or a dataset alone."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from architecture.domain.states.current_state import CurrentState
from elevata.core.errors import MetadataError
from elevata.core.words import suggestion
from metadata.domain.selection import MAX_WORDS, NothingSelected, is_name, reached, select_states
from metadata.domain.state import DatasetState

ALL, SCHEMA, DATASET, SELECTION, FILES = "all", "schema", "dataset", "selection", "files"
KINDS = (ALL, SCHEMA, DATASET, SELECTION, FILES)
# Kinds that can leave out what is blocked: a dataset's own change cannot go on without its inputs.
RESTRICTABLE = (ALL, SCHEMA, SELECTION)
# Characters of a scope's name: about 2,000 names of datasets. Of a selection the first names are shown.
MAX_NAME = MAX_WORDS
_SHOWN = 3
# Dependency modes: a dataset alone, or with its inputs.
TARGET_ONLY, WITH_DEPENDENCIES = "target_only", "with_dependencies"


class ScopeProblem(MetadataError):
    """Error of an invalid scope, or of one without existing or desired datasets."""

    def __init__(self, message: str) -> None:
        super().__init__("unknown_scope", message, "scope")


@dataclass(frozen=True)
class Scope:
    """Scope of a report.

    ``name`` is the name of a schema or dataset (``schema.name``), of a selection the names of its datasets, separated
    by spaces; ``target_only`` excludes a dataset's inputs. The kind ``files`` is a comparison of two state files with
    all their datasets; ``source`` and ``target`` are labels of the two, which are not part of the fingerprint. ``keys``
    are the datasets of a scope that was resolved before: its ``name`` may be outdated, so it is not resolved again.
    With ``without_blocked``, a report leaves out datasets whose changes the policy blocks; they are ``without``, by
    stable key, once the report is created.
    """

    kind: str = ALL
    name: str = ""
    target_only: bool = False
    source: str = ""
    target: str = ""
    keys: frozenset[str] | None = None
    without_blocked: bool = False
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "without", tuple(self.without))  # a list where it was stored as JSON
        if self.kind not in KINDS:
            raise ScopeProblem(f"{self.kind!r} is no kind of scope; kinds are {', '.join(KINDS)}")
        if self.target_only and self.kind != DATASET:
            raise ScopeProblem("target-only goes with a dataset")
        if self.without_blocked and self.kind not in RESTRICTABLE:
            raise ScopeProblem("leaving out what is blocked goes with all datasets, a schema or a selection")
        if self.kind == SELECTION and not self.name.split():
            raise ScopeProblem("a selection names at least one dataset")
        if len(self.name) > MAX_NAME:
            message = f"the names of the datasets have {len(self.name)} characters; {MAX_NAME} are possible"
            raise ScopeProblem(f"{message}. Select fewer, or a schema")

    @property
    def everything(self) -> bool:
        return self.kind in (ALL, FILES) and not self.without

    @property
    def dependency_mode(self) -> str:
        return TARGET_ONLY if self.target_only else WITH_DEPENDENCIES

    @property
    def has_words(self) -> bool:
        """Return True for a selection by words (``metadata.domain.selection``) that are not all names."""
        return self.kind == SELECTION and not is_name(self.name)

    def with_names(self, states: Iterable[DatasetState], tags: Mapping[str, Collection[str]]) -> "Scope":
        """Return a selection of the names of the datasets that its words select.

        A report is of names, so that later changes of tags and lineage do not change what it contains.
        """
        try:
            selected = select_states(states, self.name, tags)
        except NothingSelected as unknown:
            raise ScopeProblem(f"{unknown.message}. {unknown.hint}") from unknown
        return replace(self, name=" ".join(state.qualified_name for state in selected))

    def describe(self) -> str:
        """Return ``all datasets``, ``schema rawcore``, ``dataset rawcore.rc_a (alone)`` or ``dev → prod``."""
        if self.without_blocked:
            return f"{replace(self, without_blocked=False).describe()} without blocked ones"
        if self.kind == FILES:
            return f"{self.source or 'previous state'} → {self.target or 'desired state'}"
        if self.kind == ALL:
            return "all datasets"
        if self.kind == SELECTION:
            names = self.name.split()
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            return f"datasets {', '.join(names[:_SHOWN])}{more}"
        return f"{self.kind} {self.name}{' (alone)' if self.target_only else ''}"

    def as_json(self, datasets: Iterable[str] = ()) -> dict[str, Any]:
        """Return the scope as JSON. ``datasets`` are the resolved names, empty if everything is in scope."""
        document: dict[str, Any] = {"kind": self.kind}
        if self.name:
            document |= {"name": self.name, "dependency_mode": self.dependency_mode}
        document |= {name: value for name in ("source", "target", "without_blocked") if (value := getattr(self, name))}
        listed = sorted(datasets)
        return {**document, "datasets": listed} if listed else document

    def resolve(self, current: CurrentState, desired: Sequence[DatasetState]) -> frozenset[str]:
        """Return the stable keys of the datasets in scope, including those that only exist or are only desired."""
        if self.keys is not None:
            return self.keys
        return self._resolve(current, desired) - set(self.without)

    def _resolve(self, current: CurrentState, desired: Sequence[DatasetState]) -> frozenset[str]:
        before = {dataset.state.key: dataset.state for dataset in current.datasets}
        after = {dataset.key: dataset for dataset in desired}
        if self.kind in (ALL, FILES):
            return frozenset(before) | frozenset(after)
        selected = {key for states in (before, after) for key, state in states.items() if self._selects(state)}
        self._refuse_unknown(state for states in (before, after) for state in states.values())
        if not self.target_only:
            selected |= reached(
                selected & after.keys(), {key: after.keys() & set(state.inputs) for key, state in after.items()}
            )
        names = {after[key].qualified_name for key in selected if key in after}
        same = {key for key, state in before.items() if state.qualified_name in names and key not in after}
        return frozenset(selected | same)

    def _refuse_unknown(self, states: Iterable[DatasetState]) -> None:
        known = {state.schema if self.kind == SCHEMA else state.qualified_name for state in states}
        missing = [name for name in self._names() if name not in known]
        if missing:
            meant = suggestion(missing[0], known)
            kind = "dataset" if self.kind == SELECTION else self.kind
            raise ScopeProblem(f"there is no {kind} {missing[0]}{meant and f'; {meant}'}")

    def _names(self) -> tuple[str, ...]:
        return tuple(self.name.split()) if self.kind == SELECTION else (self.name,)

    def _selects(self, state: DatasetState) -> bool:
        return (state.schema if self.kind == SCHEMA else state.qualified_name) in self._names()
