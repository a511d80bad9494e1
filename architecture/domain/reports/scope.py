"""Scope of a report: all datasets, a schema's, one with its inputs, or one alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from architecture.domain.states.current import CurrentState
from elevata.core.errors import MetadataError
from metadata.domain.state import DatasetState

ALL, SCHEMA, DATASET, FILES = "all", "schema", "dataset", "files"
KINDS = (ALL, SCHEMA, DATASET, FILES)
# Dependency modes: a dataset alone, or with what it reads.
TARGET_ONLY, WITH_DEPENDENCIES = "target_only", "with_dependencies"


class ScopeProblem(MetadataError):
    """A scope that names nothing that is there or desired."""

    def __init__(self, message: str) -> None:
        super().__init__("unknown_scope", message, "scope")


@dataclass(frozen=True)
class Scope:
    """``name`` is a schema's or a dataset's (``schema.name``); ``target_only`` leaves dependencies out.

    Of ``files``, two state files, everything is in scope; ``source`` and ``target`` are what people
    call the two sides. They are shown, and no part of a fingerprint. ``keys`` are the datasets that it
    came to before: then the name, which one of them may no longer have, is not asked again.
    """

    kind: str = ALL
    name: str = ""
    target_only: bool = False
    source: str = ""
    target: str = ""
    keys: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ScopeProblem(f"{self.kind!r} is no kind of scope; kinds are {', '.join(KINDS)}")
        if self.target_only and self.kind != DATASET:
            raise ScopeProblem("target-only goes with a dataset")

    @property
    def everything(self) -> bool:
        return self.kind in (ALL, FILES)

    @property
    def dependency_mode(self) -> str:
        return TARGET_ONLY if self.target_only else WITH_DEPENDENCIES

    def describe(self) -> str:
        """``all datasets``, ``schema rawcore``, ``dataset rawcore.rc_a (alone)``, ``dev → prod``."""
        if self.kind == FILES:
            return f"{self.source or 'previous state'} → {self.target or 'desired state'}"
        if self.kind == ALL:
            return "all datasets"
        return f"{self.kind} {self.name}{' (alone)' if self.target_only else ''}"

    def as_json(self, datasets: Iterable[str] = ()) -> dict[str, Any]:
        """``datasets`` are the names that it came to; left out where it is everything."""
        said: dict[str, Any] = {"kind": self.kind}
        if self.name:
            said |= {"name": self.name, "dependency_mode": self.dependency_mode}
        said |= {name: value for name in ("source", "target") if (value := getattr(self, name))}
        listed = sorted(datasets)
        return {**said, "datasets": listed} if listed else said

    def resolve(self, current: CurrentState, desired: Sequence[DatasetState]) -> frozenset[str]:
        """Stable keys of the datasets in scope, those that are only there and those only desired included."""
        if self.keys is not None:
            return self.keys
        there = {one.state.key: one.state for one in current.datasets}
        wanted = {dataset.key: dataset for dataset in desired}
        if self.everything:
            return frozenset(there) | frozenset(wanted)
        chosen = {key for states in (there, wanted) for key, state in states.items() if self._names(state)}
        if not chosen:
            raise ScopeProblem(f"there is no {self.kind} {self.name}")
        if not self.target_only:
            chosen = _with_upstream(chosen, wanted)
        names = {wanted[key].qualified_name for key in chosen if key in wanted}
        same = {key for key, state in there.items() if state.qualified_name in names and key not in wanted}
        return frozenset(chosen | same)

    def _names(self, state: DatasetState) -> bool:
        return self.name == (state.schema if self.kind == SCHEMA else state.qualified_name)


def _with_upstream(chosen: set[str], wanted: dict[str, DatasetState]) -> set[str]:
    found, waiting = set(chosen), list(chosen)
    while waiting:
        dataset = wanted.get(waiting.pop())
        for key in dataset.inputs if dataset else ():
            if key in wanted and key not in found:
                found.add(key)
                waiting.append(key)
    return found
