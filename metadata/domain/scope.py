"""Scope of a load, report, check or export: all datasets, those of a schema, one, or those that words select."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from elevata.core.errors import MetadataError
from metadata.domain.selection import MAX_WORDS, NothingSelected, is_name, select_states
from metadata.domain.state import DatasetState

ALL, SCHEMA, DATASET, SELECTION, FILES = "all", "schema", "dataset", "selection", "files"
# Kinds that users request: of the warehouse, not of two state files.
REQUESTED = (ALL, SCHEMA, DATASET, SELECTION)
KINDS = (*REQUESTED, FILES)
# Kinds that can leave out what is blocked: a dataset's own change cannot go on without its inputs.
RESTRICTABLE = (ALL, SCHEMA, SELECTION)
# Words of a selection that its description shows.
_SHOWN = 5


class ScopeProblem(MetadataError):
    """Error for an invalid scope, or for one that names an unknown dataset or schema."""

    def __init__(self, message: str) -> None:
        super().__init__("unknown_scope", message, "scope")


@dataclass(frozen=True)
class Scope:
    """Requested datasets.

    Attributes:
        kind: one of ``KINDS``; ``files`` compares two state files with all their datasets.
        name: of a schema or dataset (``schema.name``); the words of a selection (``metadata.domain.selection``).
        target_only: leaves out the datasets that the requested ones read.
        exclude: words of datasets that a selection leaves out.
        source, target: labels of two state files; no part of the fingerprint.
        keys: stable keys of the datasets of a report that was resolved before, whose ``name`` may be outdated.
        without_blocked: a report leaves out datasets whose changes the policy blocks.
        without: stable keys of those datasets, once the report is created.
    """

    kind: str = ALL
    name: str = ""
    target_only: bool = False
    exclude: str = ""
    source: str = ""
    target: str = ""
    keys: frozenset[str] | None = None
    without_blocked: bool = False
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "without", tuple(self.without))  # a list where it was stored as JSON
        if self.kind not in KINDS:
            raise ScopeProblem(f"{self.kind!r} is no kind of scope; kinds are {', '.join(KINDS)}")
        if self.exclude and self.kind != SELECTION:
            raise ScopeProblem("words to leave out go with a selection")
        if self.without_blocked and self.kind not in RESTRICTABLE:
            raise ScopeProblem("leaving out what is blocked goes with all datasets, a schema or a selection")
        if self.kind == SELECTION and not self.name.split():
            raise ScopeProblem("a selection names at least one dataset")
        if len(self.name) > MAX_WORDS:
            message = f"the names of the datasets have {len(self.name)} characters; {MAX_WORDS} are possible"
            raise ScopeProblem(f"{message}. Select fewer, or a schema")

    @property
    def everything(self) -> bool:
        """Return True if no dataset is left out."""
        return self.kind in (ALL, FILES) and not self.without

    @property
    def has_words(self) -> bool:
        """Return True for a selection by words that are not all names."""
        return self.kind == SELECTION and (bool(self.exclude) or not is_name(self.name))

    def with_names(self, states: Iterable[DatasetState], tags: Mapping[str, Collection[str]]) -> "Scope":
        """Return a selection of the names of the datasets that its words select.

        A report is of names, so that later changes of tags and lineage do not change what it contains.
        """
        try:
            selected = select_states(states, self.name, tags, self.exclude)
        except NothingSelected as unknown:
            raise ScopeProblem(f"{unknown.message}. {unknown.hint}") from unknown
        return replace(self, name=" ".join(state.qualified_name for state in selected), exclude="")

    def __str__(self) -> str:
        """Return ``all datasets``, ``schema rawcore``, ``dataset rawcore.rc_a alone`` or ``dev → prod``."""
        if self.without_blocked:
            return f"{replace(self, without_blocked=False)} without blocked ones"
        if self.kind == FILES:
            return f"{self.source or 'previous state'} → {self.target or 'desired state'}"
        if self.kind == ALL:
            return "all datasets"
        if self.kind == SELECTION:
            words = self.name.split()
            more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
            excluded = f" without {', '.join(self.exclude.split())}" if self.exclude else ""
            return f"datasets {', '.join(words[:_SHOWN])}{more}{excluded}"
        return f"{self.kind} {self.name}{' alone' if self.target_only else ''}"

    def as_json(self) -> dict[str, Any]:
        """Return the scope for storage; ``from_json`` restores it."""
        row: dict[str, Any] = {"kind": self.kind, "name": self.name, "target_only": self.target_only}
        if self.exclude:
            row["exclude"] = self.exclude
        if self.without_blocked:
            row |= {"without_blocked": True, "without": list(self.without)}
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Scope":
        """Return a stored scope. Raise ScopeProblem if it is invalid."""
        return cls(**row)
