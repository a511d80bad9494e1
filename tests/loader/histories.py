"""Dataset with any history policy and its maintenance runs, on real tables."""

import threading
from dataclasses import dataclass, replace
from typing import Any

from architecture.domain.tables import rawcore_table
from loader.contract.manifest.loads import HistoryFiles, RawcoreLoad
from loader.contract.manifest.maintenance import CompactManifest, PruneManifest, RevertManifest
from loader.engine.maintenance.maintenance_runs import perform_run
from metadata.domain.state import ColumnState
from tests.loader.harness import Dataset, finished


@dataclass
class Kept(Dataset):
    """``Dataset`` with a history policy. Runs of every kind are named run-1, run-2 …."""

    delivery_checked: bool = False

    def _columns(self, typed: bool) -> tuple[ColumnState, ...]:
        columns = super()._columns(typed)
        return tuple(column for column in columns if column.name != self.policy.get("op")) if typed else columns

    def maintenance(self) -> RawcoreLoad:
        """Return the dataset's load for a maintenance run, with the next number."""
        self.sequence += 1
        return self.manifest("nowhere", at="2024-01-01T00:00:00Z", run_id="-").rawcore[0]

    def batch(self, *, at: str, run_id: str | None = None, **files: Any) -> tuple[str, dict]:
        """Load batch files: ``upsert=[paths]`` and so on, ``format`` and ``compression``."""
        self.prepare()
        self.sequence += 1
        made = self.manifest("nowhere", at=at, run_id=run_id or f"run-{self.sequence}")
        load = replace(
            made.rawcore[0],
            inputs=(),
            depends_on=(),
            files=HistoryFiles(**{k: tuple(map(str, v)) if isinstance(v, list) else v for k, v in files.items()}),
        )
        self.made = replace(made, raw=(), rawcore=(load,))
        status, events = self.attempt(self.made)
        return status, finished(events, self.state.key)

    def perform_run(self, kind: str, manifest: Any) -> tuple[str, dict]:
        """Perform a maintenance run; return its status and the dataset's finishing event."""
        self.events = []
        result = perform_run(self.spark, self.warehouse, kind, manifest, self._record, threading.Event(), kind)
        self.answer = result["answer"]
        return result["status"], finished(self.events, self.state.key)

    def revert_manifest(self, run_id: str, sequence: int, **more: Any) -> RevertManifest:
        load = self.maintenance()
        later = tuple(f"run-{n}" for n in range(sequence + 1, load.sequence))
        return RevertManifest(f"run-{load.sequence}", load, run_id, sequence, **{"later_runs": later, **more})

    def prune_manifest(self, ended_before: str, archive: str | None = None) -> PruneManifest:
        load = self.maintenance()
        return PruneManifest(f"run-{load.sequence}", load, ended_before, archive)

    def compact_manifest(self) -> CompactManifest:
        return CompactManifest("compact", self.state.key, self.state.qualified_name, self.tables())

    def versions(self) -> list[tuple]:
        """Return id, v, start, end and state of every version, whatever type dates them."""
        spec = self.history_spec
        names = [spec.column(purpose).name for purpose in ("started_at", "ended_at", "state", "segment")]
        rows = self.table(spec).frame().selectExpr("*", *(f"CAST({n} AS STRING) AS __{n}" for n in names)).collect()
        versions = [(row["id"], row["v"], *(row[f"__{names[i]}"] for i in (0, 1, 2))) for row in rows]
        return sorted(versions, key=str)

    def rawcore_keys(self) -> list:
        return sorted(row["id"] for row in self.table(rawcore_table(self.state)).frame().select("id").collect())
