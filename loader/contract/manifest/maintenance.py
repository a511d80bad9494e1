"""Manifests of maintenance runs."""

from dataclasses import dataclass
from typing import Any

from architecture.domain.tables import TableSpec
from loader.contract.manifest.loads import RawcoreLoad
from metadata.domain.sources.raw_keeping import Keeping


@dataclass(frozen=True)
class RevertManifest:
    """Revert of the load run ``reverted_run``, with ``reverted_sequence``, in a dataset's history.

    ``load`` is the dataset's load manifest with the sequence of the revert itself. ``newest_applied_at`` is the time
    of the newest run that stays applied. ``later_runs`` are runs after the reverted one that stay applied.
    ``refused`` is a refusal as JSON, raised unless the table shows that the revert was already done.
    """

    run_id: str
    load: RawcoreLoad
    reverted_run: str
    reverted_sequence: int
    newest_applied_at: str | None = None
    later_runs: tuple[str, ...] = ()
    refused: dict[str, Any] | None = None


@dataclass(frozen=True)
class PruneManifest:
    """Removal of a history's closed versions that ended before ``ended_before``, in the type of the history's times.

    ``archive`` is the folder they are written to first, as a Delta table; None deletes them without a copy.
    """

    run_id: str
    load: RawcoreLoad
    ended_before: str
    archive: str | None = None


@dataclass(frozen=True)
class AcceptManifest:
    """Acceptance of a dataset's table that lacks runs which the control database records as applied."""

    run_id: str
    load: RawcoreLoad


@dataclass(frozen=True)
class QuarantineManifest:
    """Decision on waiting rows of a dataset's quarantine: ``decision`` is release or drop.

    ``dataset`` is the stable key of the dataset and its table. ``entries`` are the rows' tokens, computed with
    ``secret``, ``of_run`` limits them to a run; without either, all waiting rows are meant. ``sensitive`` as in
    ``RawcoreLoad``.
    """

    run_id: str
    dataset: str
    name: str
    decision: str
    entries: tuple[str, ...] = ()
    of_run: str = ""
    sensitive: tuple[str, ...] = ()
    secret: str = ""


@dataclass(frozen=True)
class CompactManifest:
    """Compaction of the small files of a dataset's tables (limits: ``loader.contract.run_states``)."""

    run_id: str
    dataset: str
    name: str
    tables: tuple[TableSpec, ...]


@dataclass(frozen=True)
class VacuumManifest:
    """Removal of files to which a dataset's tables have not referred for ``retention_hours``.

    Before, the deliveries that ``keeping`` no longer keeps are removed from a raw table. A dry run lists both and
    removes nothing. Both measure the disk use of each table.
    """

    run_id: str
    dataset: str
    name: str
    tables: tuple[TableSpec, ...]
    retention_hours: int
    dry_run: bool = False
    keeping: Keeping | None = None
