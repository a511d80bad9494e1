"""Dataset over a Delta table or Parquet files with a change number in each row."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loader.contract.manifest.loads import LoadManifest
from loader.domain.historization.detection import key_list_source
from loader.domain.sources.marks import marks_in
from tests.loader.harness import finished
from tests.loader.histories import Kept

DAY = [f"2024-02-{n:02d}T00:00:00Z" for n in range(1, 29)]
COLUMNS = {"id": "integer", "v": "string", "n": "bigint"}


@dataclass
class Lake(Kept):
    """Dataset over a Delta table or Parquet files with a change number in each row."""

    intake: Any = None

    @property
    def _feed(self) -> bool:
        return False

    @property
    def location(self) -> Path:
        return self.folder / "lake"

    def deliver(self, rows: list[dict]) -> Path:
        """Replace the rows of the same key, and add the others."""
        values = ", ".join(f"({row['id']}, '{row['v']}', CAST({row['n']} AS BIGINT))" for row in rows)
        known = self._known().where(f"id NOT IN ({', '.join(str(row['id']) for row in rows)})" if rows else "true")
        changed = self.spark.sql(f"SELECT * FROM VALUES {values} t (id, v, n)") if rows else known.limit(0)
        after = known.unionByName(changed).localCheckpoint()
        after.coalesce(1).write.format(self.format).mode("overwrite").save(str(self.location))
        return self.location

    def _known(self):
        if not self.location.exists():
            return self.spark.createDataFrame([], "id INT, v STRING, n BIGINT")
        return self.spark.read.format(self.format).load(str(self.location))

    def manifest(self, path: Path, *, at: str, run_id: str, **options) -> LoadManifest:
        made = super().manifest(path, at=at, run_id=run_id, **options)
        (raw,), (rawcore,) = made.raw, made.rawcore
        detects = self.policy.get("delete_detection")
        (stage_input,) = rawcore.inputs
        inputs = (replace(stage_input, incremental=True, window="n" if detects == "window" else ""),)
        source = replace(raw.source, intake=self.intake)
        raw = replace(raw, source=source, key_list=key_list_source(source) if detects == "key_list" else None)
        return replace(made, raw=(raw,), rawcore=(replace(rawcore, inputs=inputs),))

    def run(self, day: int, *rows: tuple[int, str, int], **options: Any) -> dict:
        """Write rows (key, value, number), load them, and return raw's finishing event."""
        delivered = [{"id": id_, "v": v, "n": n} for id_, v, n in rows]
        self.status, _ = self.load(delivered, at=DAY[day], **options)
        if self.status != "succeeded":
            self.sequence -= 1
        return finished(self.events, self.raw_state.key)

    def mark(self) -> str | None:
        marks = marks_in(self.table(self.history_spec).newest_run_commit().notes)
        return marks[self.raw_state.key].values["n"] if marks else None

    def current_values(self) -> list[tuple]:
        return [(row["id"], row["v"]) for row in self.current()]

    def delete(self, *keys: int) -> None:
        """Remove rows from the source."""
        after = self._known().where(f"id NOT IN ({', '.join(map(str, keys))})").localCheckpoint()
        after.coalesce(1).write.format(self.format).mode("overwrite").save(str(self.location))

    def of_rawcore(self) -> dict:
        """Return the finishing event of rawcore."""
        return finished(self.events, self.state.key)
