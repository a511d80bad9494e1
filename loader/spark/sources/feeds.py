"""Feed files: the selection of those a run reads, and their record in the commits of the raw table."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.domain.runs.manifest import LoadManifest, RawcoreLoad, RawLoad
from loader.domain.sources.feeds import NOTE, FeedChoice, FeedFile, FeedLog, choose, with_note
from loader.spark.runtime.session import source_roots
from loader.spark.sources.files import DeliveredFile, is_one_file, list_files
from loader.spark.tables.commits import PLACE, TableFiles
from loader.spark.tables.tables import DeltaTable, RunCommit
from metadata.domain.sql import quote_identifier


@dataclass(frozen=True)
class Feed:
    """Files of a feed that one run reads, and the number of this run's rows already in raw."""

    load: RawLoad
    run_id: str
    table: TableFiles  # at the version whose log was read, so that a commit after it is a conflict
    log: FeedLog
    choice: FeedChoice
    files: tuple[DeliveredFile, ...] = ()
    rows: int = 0
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, session: SparkSession, warehouse: str, load: RawLoad, manifest: LoadManifest) -> "Feed":
        """Return the files to read, from the location and the tables' logs.

        Raise Refusal CHANGED_SINCE_LOADED, or those of ``list_files``.
        """
        raw = DeltaTable(session, warehouse, load.table.key)
        table, run_id = TableFiles(session, raw), manifest.run_id
        log = _log_of(table.snapshot)
        if run_id in log.runs:
            own = raw.frame().where(F.col(quote_identifier(load.table.column("run_id").name)) == run_id).count()
            said = "The table already held this run: nothing was added."
            return cls(load, run_id, table, log, FeedChoice(()), rows=own, warnings=(said,))
        location = load.source.location
        listed = {file.path: file for file in list_files(session, location, source_roots(session))}
        choice = choose(
            load.name,
            log,
            (FeedFile(file.path, file.size, file.written, file.etag) for file in listed.values()),
            held=_held(session, warehouse, load, manifest, log),
            one_file=is_one_file(session, location),
        )
        files = tuple(listed[file.path] for file in choice.files)
        warnings = []
        if choice.gone:
            paths = ", ".join(DeliveredFile(path, 0, 0).shown for path in choice.gone[:3])
            warnings.append(
                f"{len(choice.gone)} files were read by a run that did not reach the history, and are no longer at "
                f"{location}: {paths}. Deliver them again if they are to be loaded."
            )
        if not files:
            warnings.append(f"No new files: each of the {len(listed)} at {location} was loaded before.")
        return cls(load, run_id, table, log, choice, files, warnings=tuple(warnings))

    def has_new_files(self) -> bool:
        return bool(self.files)

    @property
    def recorded(self) -> dict[str, int]:
        """Transaction identifiers of the run's commit."""
        return self.log.transactions(self.run_id, self.choice.files)

    def replaced_rows(self) -> DataFrame | None:
        """Return the places of raw rows whose files are read again."""
        if not self.choice.replaced or not self.table.all:
            return None
        run_id = F.col(quote_identifier(self.load.table.column("run_id").name))
        return self.table.frame(placed=True).where(run_id.isin(*self.choice.replaced)).select(PLACE)


def feed_notes(
    session: SparkSession, warehouse: str, load: RawcoreLoad, run_id: str, signed: RunCommit | None
) -> dict[str, str]:
    """Return the note in a history's commit about the feeds it has read (``loader.domain.sources.feeds``)."""
    note = signed.notes.get(NOTE) if signed else None
    for one in load.inputs:
        if one.feed and load.history is not None:
            log = _log_of(DeltaTable(session, warehouse, one.table.key).snapshot())
            note = with_note(note, one.table.key, log, run_id)
    return {NOTE: note} if note else {}


def _held(session: SparkSession, warehouse: str, load: RawLoad, manifest: LoadManifest, log: FeedLog) -> int:
    """Return the newest feed number that all histories reading this feed in the run hold.

    It is the log's newest number if no history reads the feed.
    """
    found = [log.newest]
    for reader in manifest.rawcore:
        if reader.history and any(one.feed and one.table.key == load.table.key for one in reader.inputs):
            signed = DeltaTable(session, warehouse, reader.history.key).newest_run_commit()
            found.append(log.held(signed.notes.get(NOTE) if signed else None, load.table.key))
    return min(found)


def _log_of(snapshot: Any) -> FeedLog:
    """Return the files and runs in a raw table's log; its checksum file lists only a few transactions."""
    if snapshot.version() < 0:
        return FeedLog("")
    pairs = snapshot.transactions().iterator()
    found = {}
    while pairs.hasNext():
        pair = pairs.next()
        found[pair._1()] = pair._2()
    return FeedLog.of(snapshot.metadata().id(), found)
