"""Manifests of read requests, with the masking of a reader."""

from dataclasses import dataclass, field
from typing import Any

from architecture.domain.tables import TableSpec
from loader.contract.manifest.loads import HashComponent, StageInput
from loader.contract.manifest.sources import SourceSpec


@dataclass(frozen=True)
class Masking:
    """Columns as one reader sees them, by stable key: ``shown`` unchanged, ``hashed`` hashed again with the secret.

    All others are masked. ``shown_names`` (in lower case) decide for columns without a stable key.
    """

    shown: tuple[str, ...]
    shown_names: tuple[str, ...]
    hashed: tuple[str, ...] = ()
    secret: str = ""


@dataclass(frozen=True)
class QuerySource:
    """Published name that a query reads, as a temporary view called ``view``.

    ``query`` is a view's SELECT over earlier temporary views, None for a Delta table. Masked columns are NULL of
    their own type; ``masking`` is None for a reader without restrictions.
    """

    view: str
    table: TableSpec
    query: str | None = None
    masking: Masking | None = None


@dataclass(frozen=True)
class Descendant:
    """Table that stores rows of a raw table under an entity key, and how its stage computes the key.

    ``is_hashed``: the reader may not see the key.
    """

    table: TableSpec
    inputs: tuple[StageInput, ...]
    entity_key: tuple[HashComponent, ...]
    is_hashed: bool = False


@dataclass(frozen=True)
class ReadManifest:
    """Read request; ``loader.engine.queries.reads`` describes the kinds and their arguments.

    ``masking`` is None for a reader without restrictions. ``sources`` are those of kinds ``sql`` and ``try_model``,
    ``inputs`` and ``entity_key`` the raw tables of a dataset and the components of its key, for kind ``origin``;
    ``descendants`` are those of a raw table, for the kind of that name; ``other_sources`` those of a view in the other
    environment, the view last, for a comparison.
    """

    kind: str
    table: TableSpec | None = None
    source: SourceSpec | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    timeout_seconds: float = 60.0
    masking: Masking | None = None
    sources: tuple[QuerySource, ...] = ()
    inputs: tuple[StageInput, ...] = ()
    entity_key: tuple[HashComponent, ...] = ()
    descendants: tuple[Descendant, ...] = ()
    other_sources: tuple[QuerySource, ...] = ()

    @property
    def own_table(self) -> TableSpec:
        """Return the table or view of a kind that reads one."""
        assert self.table is not None
        return self.table


@dataclass(frozen=True)
class CheckManifest:
    """Check of a history's invariants (``loader.engine.historization.invariants``), and of the rawcore that follows it.

    ``entity_key`` and ``row_hash`` are the components that the load hashes. ``samples`` is the number of keys in a
    finding. ``newest_applied`` is the sequence of the newest run applied to the history, from the control database.
    ``event_log`` is None for a history without one. ``sensitive`` are names of columns in lower case: findings
    contain none of their values.
    """

    name: str
    history: TableSpec
    rawcore: TableSpec
    entity_key: tuple[HashComponent, ...]
    row_hash: tuple[HashComponent, ...]
    policy: dict[str, Any] = field(default_factory=dict)
    samples: int = 5
    timeout_seconds: float = 3600.0
    newest_applied: int | None = None
    sensitive: tuple[str, ...] = ()
    event_log: TableSpec | None = None


@dataclass(frozen=True)
class ReplayManifest:
    """History cases to run (``loader.domain.reference.cases``): a file's text, and the ids to select (None: all)."""

    cases: str
    only: tuple[str, ...] | None = None
