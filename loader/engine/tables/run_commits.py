"""Commits of runs, known by their commit metadata, and changes of other writers."""

import json
from dataclasses import dataclass, field

from loader.engine.session import commit_metadata

LOAD = "load"


@dataclass(frozen=True)
class RunCommit:
    """Commit metadata of a run in ``userMetadata``.

    ``counts`` are the table's ``versions`` and ``open`` versions after the commit; ``notes`` are for the next run
    (``loader.engine.loads.rawcore_loads``). ``what`` is load, or the kind of a maintenance run. ``foreign`` are later
    commits of other writers that changed rows, as ``DELETE (version 7)``, newest first.
    """

    run_id: str
    at: str
    sequence: int
    counts: dict[str, int]
    version: int
    notes: dict[str, str] = field(default_factory=dict)
    what: str = LOAD
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True)
class ForeignChange:
    """Commit of another writer that changed a table's rows."""

    operation: str
    version: int

    @property
    def described(self) -> str:
        return f"{self.operation} (version {self.version})"


def run_metadata(
    *,
    run_id: str,
    at: str,
    sequence: int,
    counts: dict[str, int],
    notes: dict[str, str] | None = None,
    what: str = LOAD,
) -> str:
    """Return the commit metadata of a run, as text for ``userMetadata``."""
    metadata = {"what": what, "run_id": run_id, "at": at, "sequence": sequence, "counts": counts, "notes": notes or {}}
    return commit_metadata(metadata)


def is_ours(user_metadata: str | None) -> bool:
    """Return True if a commit has the commit metadata of a run or an execution."""
    return (user_metadata or "").startswith('{"') and '"what"' in (user_metadata or "")


def run_commit_of(user_metadata: str | None, version: int) -> RunCommit | None:
    if not user_metadata or not user_metadata.startswith("{"):
        return None
    metadata = json.loads(user_metadata)
    if "run_id" not in metadata:
        return None
    return RunCommit(
        metadata["run_id"],
        metadata["at"],
        metadata["sequence"],
        metadata["counts"],
        version,
        metadata.get("notes", {}),
        metadata["what"],
    )
