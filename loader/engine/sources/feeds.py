"""Feeds: the files or messages that a run reads, and their record in the commits of the raw table."""

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.contract.manifest.loads import LoadManifest, RawcoreLoad, RawLoad
from loader.domain.sources.feeds import NOTE, PREFIXES, FeedChoice, FeedFile, FeedLog, choose, with_note
from loader.engine.session import source_roots
from loader.engine.sources.deliveries import Part
from loader.engine.sources.files import DeliveredFile, is_one_file, list_files
from loader.engine.sources.formats.delta_changes import new_versions
from loader.engine.sources.kafka.snapshot_rows import EarlierRows
from loader.engine.sources.kafka.topics import OpenedTopic, new_messages
from loader.engine.sources.opened import Opened
from loader.engine.tables.commits import open_files
from loader.engine.tables.run_commits import RunCommit
from loader.engine.tables.table_files import PLACE, TableFiles
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sources.formats import DELTA, OP, SEQUENCE, reads_changes
from metadata.domain.sources.option_kinds import REFUSE_CHANGED
from metadata.domain.sql import quote_identifier


@dataclass(frozen=True)
class Feed:
    """Files or messages of a feed that one run reads, and the number of this run's rows already in raw."""

    load: RawLoad
    run_id: str
    table: TableFiles  # at the version whose log was read, so that a commit after it is a conflict
    log: FeedLog
    choice: FeedChoice
    files: tuple[DeliveredFile, ...] = ()
    rows: int = 0
    warnings: tuple[str, ...] = ()
    newest_read: int | None = None

    @classmethod
    def of(cls, session: SparkSession, warehouse: str, load: RawLoad, manifest: LoadManifest) -> "Feed":
        """Return the files or messages to read, from the location and the tables' logs.

        Raise Refusal CHANGED_SINCE_LOADED, or those of ``list_files`` or ``new_messages``.
        """
        raw = DeltaTable(session, warehouse, load.table.key)
        column, run_id = load.table.column("run_id").name, manifest.run_id
        table = open_files(session, raw, (column,))
        # The version before its log: a commit in between then is a conflict.
        log = _log_of(raw) if table.version >= 0 else FeedLog("")
        if run_id in log.runs:
            own = raw.frame().where(F.col(quote_identifier(column)) == run_id).count()
            message = "The table already held this run: nothing was added."
            return cls(load, run_id, table, log, FeedChoice(()), rows=own, warnings=(message,))
        applied = _common_feed_number(session, warehouse, load, manifest, log)
        if load.source.cluster is not None:
            choice, noted = new_messages(session, load, log, applied)
            return cls(load, run_id, table, log, choice, warnings=noted)
        if reads_changes(load.source.format, load.source.options):
            choice, noted = new_versions(session, load, log, applied, full=manifest.full)
            return cls(load, run_id, table, log, choice, warnings=noted)
        location = load.source.location
        listed = {file.path: file for file in list_files(session, location, source_roots(session))}
        choice = choose(
            load.name,
            log,
            (FeedFile(file.path, file.size, file.written, file.etag) for file in listed.values()),
            applied=applied,
            one_file=is_one_file(session, location),
            changed_files=load.source.options.get("changed_files", REFUSE_CHANGED),
        )
        files = tuple(listed[file.path] for file in choice.files)
        warnings: list[str] = []
        if choice.gone:
            paths = ", ".join(DeliveredFile(path, 0, 0).shown for path in choice.gone[:3])
            warnings.append(
                f"{len(choice.gone)} files were read by a run that did not reach the history, and are no longer at "
                f"{location}: {paths}. Deliver them again if they are to be loaded."
            )
        if choice.changed:
            paths = ", ".join(DeliveredFile(path, 0, 0).shown for path in choice.changed[:3])
            warnings.append(
                f"Changed after they were loaded, and not read again: {paths} ({len(choice.changed)} in all)."
            )
        if not files:
            warnings.append(f"No new files: each of the {len(listed)} at {location} was loaded before.")
        return cls(load, run_id, table, log, choice, files, warnings=tuple(warnings))

    @property
    def part(self) -> Part:
        """Return what is read; empty if nothing is new."""
        return self.files or self.choice.ranges

    @property
    def counts(self) -> dict[str, int]:
        has_files = self.load.source.cluster is None and self.load.source.format != DELTA
        return {"files": len(self.files)} if has_files else {}

    @property
    def recorded(self) -> dict[str, int]:
        """Return the transaction identifiers of the run's commit."""
        return self.log.transactions(self.run_id, self.choice, self.newest_read)

    def after_reading(self, opened: Opened) -> "Feed":
        """Return the feed with what only its messages tell."""
        return replace(self, newest_read=opened.numbers.newest_read) if isinstance(opened, OpenedTopic) else self

    def earlier_rows(self) -> EarlierRows | None:
        """Return the rows of former loads, of runs that are not replaced; None if none is of a snapshot."""
        newest_read = self.log.newest_read(self.choice.ranges)
        names = {name: raw_name for raw_name, name in self.load.columns}
        keys = [column.name for column in self.load.source.columns if column.business_key]
        if newest_read is None or not {OP, SEQUENCE, *keys} <= names.keys():
            return None
        run_id = F.col(quote_identifier(self.load.table.column("run_id").name))
        columns = [F.col(quote_identifier(names[name])).alias(name) for name in dict.fromkeys((*keys, OP, SEQUENCE))]
        is_kept = ~run_id.isin(*self.choice.replaced) if self.choice.replaced else F.lit(True)
        return EarlierRows(newest_read, self.table.frame().where(is_kept).select(*columns))

    def replaced_rows(self) -> DataFrame | None:
        """Return the places of raw rows whose files are read again."""
        if not self.choice.replaced or not self.table.all:
            return None
        run_id = F.col(quote_identifier(self.load.table.column("run_id").name))
        return self.table.frame(placed=True).where(run_id.isin(*self.choice.replaced)).select(PLACE)


def feed_notes(
    session: SparkSession, warehouse: str, load: RawcoreLoad, run_id: str, last_run: RunCommit | None
) -> dict[str, str]:
    """Return the note about feeds for the leading table's next commit (``loader.domain.sources.feeds``).

    ``last_run`` is that table's newest commit of a run.
    """
    note = last_run.notes.get(NOTE) if last_run else None
    for source in load.inputs:
        if source.feed:
            log = _log_of(DeltaTable(session, warehouse, source.table.key))
            note = with_note(note, source.table.key, log, run_id)
    return {NOTE: note} if note else {}


def _common_feed_number(
    session: SparkSession, warehouse: str, load: RawLoad, manifest: LoadManifest, log: FeedLog
) -> int:
    """Return the newest feed number that every dataset reading this feed in the run has loaded.

    It is the log's newest number if none reads the feed.
    """
    numbers = [log.newest]
    for reader in manifest.rawcore:
        if any(source.feed and source.table.key == load.table.key for source in reader.inputs):
            commit = DeltaTable(session, warehouse, reader.leading.key).newest_run_commit()
            numbers.append(log.number_in(commit.notes.get(NOTE) if commit else None, load.table.key))
    return min(numbers)


# What Scala prints between a key and a value of a map.
_ARROW = " -> "


def _log_of(table: DeltaTable) -> FeedLog:
    """Return the files and runs in a raw table's log; its checksum file lists only a few transactions."""
    snapshot = table.snapshot()
    if snapshot.version() < 0:
        return FeedLog("")
    # One call for all of them: identifiers of feeds are JSON on one line.
    lines = snapshot.transactions().mkString("\n").split("\n")
    pairs = (line.rpartition(_ARROW) for line in lines if _ARROW in line)
    transactions = {name: int(number) for name, _, number in pairs if name.startswith(PREFIXES)}
    return FeedLog.of(snapshot.metadata().id(), transactions)
