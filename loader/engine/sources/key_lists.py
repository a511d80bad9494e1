"""Key lists: the keys of all rows of a source, beside the rows of its delta in the raw table.

They are read after the delta: in a database with snapshots in the same snapshot, of a Delta table at the same version,
and else at the place that the source's intake names. So a row that comes in between has its key in the list, and one
that goes in between is closed by the next run.

The keys are written to Parquet files in the folder of the raw table, where Delta ignores names that begin with ``_``.
The commit of the delta notes their folder: rows and keys are one delivery, and a run that dies before it leaves the
former delivery with its keys. The next load with a key list, or a vacuum, removes folders that no commit names any
more.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from elevata.core.words import counted
from loader.contract.manifest.loads import RawLoad
from loader.engine.pyspark_types import jvm_of
from loader.engine.sources.databases import OpenedTable, open_keys
from loader.engine.sources.deliveries import Delivery, read_delivery, read_opened
from loader.engine.sources.endpoints import read_endpoint
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sources.formats import DELTA
from metadata.domain.sql import quote_identifier

NOTE, _FOLDER = "key_list", "_key_lists"


@dataclass(frozen=True)
class KeyList:
    """Key list of a delivery: the name of its folder, the number of its rows and of those that repeat a key.

    ``doubt`` is the reason why keys may be missing; such a list closes no keys.
    """

    folder: str
    rows: int
    repeated: int
    doubt: str = ""

    def as_note(self) -> dict[str, str]:
        return {NOTE: json.dumps(asdict(self), sort_keys=True)}

    @classmethod
    def of_note(cls, notes: Mapping[str, str]) -> "KeyList | None":
        return cls(**json.loads(notes[NOTE])) if NOTE in notes else None

    @property
    def counts(self) -> dict[str, int]:
        return {"keys": self.rows} | ({"repeated_keys": self.repeated} if self.repeated else {})

    def warnings(self, name: str) -> list[str]:
        warnings = []
        if self.repeated:
            warnings.append(f"{name}: the key list repeats {counted(self.repeated, 'key')}, which count once.")
        if self.doubt:
            warnings.append(f"{name}: the key list is not proven complete: {self.doubt}. No key was closed by it.")
        return warnings


def write_key_list(
    session: SparkSession, raw: DeltaTable, load: RawLoad, delivery: Delivery, run_id: str, phase: Callable[[str], None]
) -> KeyList:
    """Read and check the key list of a delivery, and write it beside the raw table. Raise Refusal.

    ``phase`` reports progress, and raises if the run was cancelled.
    """
    phase("reading the key list")
    keys = _read(session, load, delivery, run_id, phase)
    try:
        types = {field.name: field.dataType for field in raw.schema().fields}
        columns = [
            F.col(quote_identifier(name)).cast(types[raw_name]).alias(raw_name)
            for raw_name, name in load.columns
            if name in keys.frame.columns
        ]
        folder = uuid4().hex
        with keys.reading():
            keys.frame.select(*columns).write.parquet(_path(raw, folder))
        keys.check_unchanged()
    finally:
        keys.release()
    return KeyList(folder, keys.rows, keys.duplicates, keys.doubt)


def _read(
    session: SparkSession, load: RawLoad, delivery: Delivery, run_id: str, phase: Callable[[str], None]
) -> Delivery:
    source, opened = load.key_list, delivery.opened
    assert source is not None
    if isinstance(opened, OpenedTable):
        return read_opened(open_keys(opened, source), source)
    if source.api is not None:
        keys, _ = read_endpoint(
            session, replace(load, source=source, dataset=f"{load.dataset}.keys"), run_id, phase, None
        )
        return keys
    return read_delivery(session, source, opened.files if source.format == DELTA else ())


def read_key_list(session: SparkSession, raw: DeltaTable, key_list: KeyList) -> DataFrame:
    """Return the keys of a delivery, under the names of raw columns."""
    return session.read.parquet(_path(raw, key_list.folder))


def remove_other_key_lists(session: SparkSession, raw: DeltaTable, kept: KeyList | None) -> None:
    """Remove the key lists of former deliveries, and of runs that died before their commit."""
    place = jvm_of(session).org.apache.hadoop.fs.Path(f"{raw.location}/{_FOLDER}")
    system = place.getFileSystem(session._jsc.hadoopConfiguration())
    if not system.exists(place):
        return
    for status in system.listStatus(place):
        if kept is None or status.getPath().getName() != kept.folder:
            system.delete(status.getPath(), True)


def _path(raw: DeltaTable, folder: str) -> str:
    return f"{raw.location}/{_FOLDER}/{folder}"
