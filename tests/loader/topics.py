"""Dataset whose deliveries are messages of a Kafka topic."""

from dataclasses import dataclass, field, replace
from typing import Any

from architecture.domain.tables import raw_table
from loader.contract.manifest.loads import LoadManifest
from loader.contract.manifest.sources import ClusterSpec
from metadata.domain.sources.clusters import MESSAGE_COLUMNS, parse_cluster
from metadata.domain.state import ColumnState, DatasetState
from tests.loader.harness import finished, stable
from tests.loader.histories import Kept

CDC = {"input": "cdc", "time": "_sequence", "op": "_op"}
EVENTS = {"id": "integer", "v": "string"} | {name: MESSAGE_COLUMNS[name] for name in ("_sequence", "_op")}


@dataclass
class Topic(Kept):
    """Feed whose messages are in one topic; raw has their partition and offset, too."""

    columns: dict[str, str] = field(default_factory=lambda: EVENTS | {"_partition": "integer", "_offset": "bigint"})
    policy: dict = field(default_factory=lambda: dict(CDC))
    options: dict = field(default_factory=lambda: {"envelope": "debezium"})
    format: str = "kafka"
    address: str = ""
    topic: str = ""

    def _columns(self, typed: bool) -> tuple[ColumnState, ...]:
        columns = super()._columns(typed)
        own = {"_partition", "_offset", self.policy["op"]} - {self.policy["time"]}
        return tuple(column for column in columns if column.name not in own) if typed else columns

    @property
    def raw_state(self) -> DatasetState:
        columns = self._columns(typed=False)
        return DatasetState(stable("raw", self.name), "raw", "raw", f"raw_t_{self.name}", columns)

    def manifest(self, path: Any = None, *, at: str, run_id: str, **options: Any) -> LoadManifest:
        made = super().manifest(self.topic, at=at, run_id=run_id, **options)
        (raw,), (rawcore,) = made.raw, made.rawcore
        source = replace(raw.source, cluster=ClusterSpec(parse_cluster(f"kafka://{self.address}")))
        names = {column.name for column in self.state.active_columns} | {self.policy["op"]}
        (read,) = rawcore.inputs
        read = replace(read, columns=tuple(column for column in read.columns if column.name in names))
        return replace(made, raw=(replace(raw, source=source),), rawcore=(replace(rawcore, inputs=(read,)),))

    def run(self, run_id: str, day: int) -> tuple[str, dict, dict]:
        """Load the new messages; return the attempt's status, and the finishing events of raw and the dataset."""
        self.prepare()
        self.sequence += 1
        return self.repeat(self.manifest(at=f"2024-01-0{day + 1}T00:00:00Z", run_id=run_id))

    def repeat(self, manifest: LoadManifest) -> tuple[str, dict, dict]:
        status, events = self.attempt(manifest)
        return status, finished(events, self.raw_state.key), finished(events, self.state.key)

    def refused(self, run_id: str, day: int) -> dict:
        """Return the error of raw, after which nothing was written."""
        before = self.raw()
        status, raw, _ = self.run(run_id, day)
        self.sequence -= 1
        assert (status, self.raw()) == ("failed", before)
        return raw["error"]

    def raw(self) -> list[tuple]:
        frame = self.table(raw_table(self.raw_state)).frame()
        return sorted((int(row["_partition"]), int(row["_offset"]), row["load_run_id"]) for row in frame.collect())

    def short(self) -> list[tuple]:
        return [(id_, v, start, end) for id_, v, start, end, _ in self.versions()]
