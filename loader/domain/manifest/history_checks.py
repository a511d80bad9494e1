"""Manifests of history checks and of the replay of history cases."""

from dataclasses import dataclass, field

from architecture.domain.tables import TableSpec
from loader.domain.manifest.loads import HashComponent


@dataclass(frozen=True)
class CheckManifest:
    """Check of a history's invariants (``loader.spark.historization.invariants``), and of the rawcore that follows it.

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
    policy: dict = field(default_factory=dict)
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
