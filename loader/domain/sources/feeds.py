"""Files, messages and table versions of a feed: those in its raw table, and those that a run must read, each once.

The Delta log of the raw table records them as transaction identifiers: one for each file (path, size, time, content
tag), one for each range of offsets in a partition of a topic, or of versions of a Delta table, and one for each run,
with the number of the run in this table. They are committed with the rows, and checkpoints retain them when the log is
cleaned, so they do not depend on the control database. The commit metadata of each reader's leading table (its history,
or rawcore without one) record the newest number that it has (``NOTE``). Files and ranges with later numbers were read
by runs that failed before they wrote that table: they are read again, and the same commit removes their old rows from
raw.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from loader.contract.refusals import Refusal
from metadata.domain.sources.option_kinds import KEEP_LOADED, REFUSE_CHANGED

NOTE = "feeds"
_FILE, _RANGE, _RUN, _READ = PREFIXES = "elevata.file ", "elevata.offsets ", "elevata.run ", "elevata.snapshot "


@dataclass(frozen=True)
class FeedFile:
    """Listed file. ``etag`` identifies its content, if the store has etags; ``number`` is that of its run."""

    path: str
    size: int
    written: int
    etag: str = ""
    number: int = 0

    def is_as(self, other: "FeedFile") -> bool:
        """Return True if size and content tag are the same, or size and time if there is no tag."""
        if self.size != other.size:
            return False
        return self.etag == other.etag if self.etag and other.etag else self.written == other.written


@dataclass(frozen=True)
class Topic:
    """Topic as its cluster describes it: the earliest offset of each partition, and its end as the run begins.

    ``id`` differs from that of an earlier topic of the same name; it is empty if the cluster has no such ids.
    """

    name: str
    id: str
    partitions: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class FeedRange:
    """Messages of a partition from offset ``start`` to before ``end``; ``number`` is that of their run.

    Of a Delta table, versions: ``base`` is added to them for the order of the events.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    number: int = 0
    base: int = 0


@dataclass(frozen=True)
class FeedLog:
    """Files, ranges of messages and runs in a raw table.

    ``table`` is the table's own id, which a recreated table does not share. ``newest_reads`` has the highest number in
    ``_sequence`` of a snapshot row of Debezium, by the topic's name and id.
    """

    table: str
    files: Mapping[str, FeedFile] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)
    ranges: tuple[FeedRange, ...] = ()
    newest_reads: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, table: str, transactions: Mapping[str, int]) -> "FeedLog":
        """Return the log with these transaction identifiers. Of several readings of one file, use the newest."""
        files: dict[str, FeedFile] = {}
        for name, number in sorted(transactions.items(), key=lambda item: item[1]):
            if name.startswith(_FILE):
                path, size, written, etag = json.loads(name.removeprefix(_FILE))
                files[path] = FeedFile(path, size, written, etag, number)
        runs = {name.removeprefix(_RUN): number for name, number in transactions.items() if name.startswith(_RUN)}
        ranges = tuple(
            replace(FeedRange(*json.loads(name.removeprefix(_RANGE))), number=number)
            for name, number in transactions.items()
            if name.startswith(_RANGE)
        )
        reads = {
            tuple(json.loads(name.removeprefix(_READ))): number
            for name, number in transactions.items()
            if name.startswith(_READ)
        }
        return cls(table, files, runs, ranges, reads)

    @property
    def newest(self) -> int:
        return max(self.runs.values(), default=0)

    def number_in(self, note: str | None, raw: str) -> int:
        """Return the newest number in a history, from its commit's note."""
        table, number = json.loads(note or "{}").get(raw, ("", 0))
        return number if table == self.table else 0

    def newest_read(self, ranges: Iterable[FeedRange]) -> int | None:
        """Return the highest number of a snapshot row that was read of the topic of these ranges."""
        topics = {(offsets.topic, offsets.topic_id) for offsets in ranges}
        return max((number for topic, number in self.newest_reads.items() if topic in topics), default=None)

    def transactions(self, run_id: str, choice: "FeedChoice", newest_read: int | None = None) -> dict[str, int]:
        """Return the transaction identifiers of a run's commit: its own, and those of the deliveries that it adds.

        ``newest_read`` is the highest number of a snapshot row among the messages.
        """
        number = self.newest + 1
        names = [_FILE + json.dumps([file.path, file.size, file.written, file.etag]) for file in choice.files]
        names += [
            _RANGE + json.dumps([offsets.topic, offsets.topic_id, offsets.partition, offsets.start, offsets.end])
            for offsets in choice.ranges
        ]
        recorded = dict.fromkeys([_RUN + run_id, *names], number)
        if newest_read is not None and newest_read > (self.newest_read(choice.ranges) or -1):
            topics = {(offsets.topic, offsets.topic_id) for offsets in choice.ranges}
            recorded |= {_READ + json.dumps(topic): newest_read for topic in topics}
        return recorded


@dataclass(frozen=True)
class FeedChoice:
    """Files and messages that a run reads, and runs whose rows it replaces.

    ``gone`` are paths of files that no longer exist and were not loaded, ``skipped`` is the number of such messages.
    ``changed`` are paths of files that changed after they were loaded and are left out. ``restarted``: the topic was
    deleted and created again, and is read from its earliest message.
    """

    files: tuple[FeedFile, ...] = ()
    replaced: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    ranges: tuple[FeedRange, ...] = ()
    skipped: int = 0
    changed: tuple[str, ...] = ()
    restarted: bool = False


def choose(
    name: str,
    log: FeedLog,
    listed: Iterable[FeedFile],
    *,
    applied: int,
    one_file: bool,
    changed_files: str = REFUSE_CHANGED,
) -> FeedChoice:
    """Return the files to read from a feed's location, if all its histories have the numbers up to ``applied``.

    ``one_file``: the location is one file, which every delivery replaces; it is read again if it has changed.
    Otherwise ``changed_files`` decides on a file that changed after it was loaded: it is read again, or left out, or
    Refusal CHANGED_SINCE_LOADED is raised.
    """
    by_path = {file.path: file for file in listed}
    files, changed = [], []
    for path, file in by_path.items():
        loaded = log.files.get(path)
        if loaded is not None and loaded.number <= applied:
            if file.is_as(loaded):
                continue
            if not one_file and changed_files == REFUSE_CHANGED:
                raise _changed_file(name, file, loaded)
            if not one_file and changed_files == KEEP_LOADED:
                changed.append(path)
                continue
        files.append(file)
    unread = [file for file in log.files.values() if file.number > applied]
    missing = tuple(file.path for file in unread if file.path not in by_path)
    lost = {file.number for file in unread if file.path not in by_path}
    replaced = tuple(run for run, number in log.runs.items() if number > applied and number not in lost)
    return FeedChoice(tuple(files), replaced, missing, changed=tuple(changed))


def choose_messages(name: str, log: FeedLog, topic: Topic, *, applied: int, skip_lost: bool = False) -> FeedChoice:
    """Return the messages to read from a topic, if all histories of the feed have the numbers up to ``applied``.

    A new partition is read from its earliest message. Raise Refusal TOPIC_REPLACED or OFFSETS_EXPIRED if messages
    that were not loaded no longer exist; with ``skip_lost``, read from the earliest message instead.
    """
    known = [offsets for offsets in log.ranges if offsets.topic == topic.name]
    same = [offsets for offsets in known if offsets.topic_id == topic.id]
    if known and (not same or {offsets.partition for offsets in same} - set(topic.partitions)) and not skip_lost:
        raise _topic_replaced(name, topic, "was deleted and created again")
    ranges, skipped, restarted = [], 0, bool(known) and not same
    lost = {offsets.number for offsets in log.ranges if offsets.number > applied and offsets not in same}
    for partition, (earliest, end) in sorted(topic.partitions.items()):
        own = [offsets for offsets in same if offsets.partition == partition]
        start = _next_offset(own, applied, earliest)
        if not earliest <= start <= end:
            if not skip_lost and start > end:
                message = f"ends at offset {end} in partition {partition}, of which {start} offsets were read"
                raise _topic_replaced(name, topic, message)
            if not skip_lost:
                raise _offsets_expired(name, topic, partition, start, earliest)
            lost |= {
                offsets.number
                for offsets in own
                if offsets.number > applied and not earliest <= offsets.start <= offsets.end <= end
            }
            skipped += max(earliest - start, 0)
            restarted = restarted or start > end
            start = earliest
        if start < end:
            ranges.append(FeedRange(topic.name, topic.id, partition, start, end))
    replaced = tuple(run for run, number in log.runs.items() if number > applied and number not in lost)
    return FeedChoice(replaced=replaced, ranges=tuple(ranges), skipped=skipped, restarted=restarted)


# Ranges of a Delta table's versions, in place of a topic's partitions: changes, or all rows at the last one.
CHANGES, WHOLE = 0, 1


VERSIONS_LOST = (
    "Load and read the whole table (Read whole, --full), and its changes from then on. Keys that were deleted since "
    "the last load stay open then."
)


def choose_versions(
    name: str, log: FeedLog, table: str, table_id: str, newest: int, *, applied: int, full: bool = False
) -> FeedChoice:
    """Return the versions to read from a Delta table, if all histories of the feed have the numbers up to ``applied``.

    Without loaded versions, or with ``full``, it is all rows at the newest version. Raise Refusal TABLE_REPLACED if the
    loaded versions are those of an earlier table, or of a newer state of its folder.
    """
    loaded = [read for read in log.ranges if read.topic == table and read.number <= applied]
    replaced = tuple(run for run, number in log.runs.items() if number > applied)
    known_id, base, end = _loaded_versions(loaded)
    is_other = bool(loaded) and (known_id != table_id or newest + 1 < end)
    if full or not loaded:
        whole = FeedRange(table, table_id, WHOLE, 0, newest + 1, base=base + end if is_other else base)
        return FeedChoice(ranges=(whole,), replaced=replaced)
    if is_other:
        shown = f"ends at version {newest}, and version {end - 1} was loaded"
        reason = "was created again" if known_id != table_id else shown
        raise Refusal(
            "TABLE_REPLACED",
            f"{name}: the table {table} {reason}, so its versions do not continue those that were loaded",
            file=table,
            hint=VERSIONS_LOST,
        )
    changes = FeedRange(table, table_id, CHANGES, end, newest + 1, base=base)
    return FeedChoice(ranges=(changes,) if end <= newest else (), replaced=replaced)


def _loaded_versions(loaded: Iterable[FeedRange]) -> tuple[str, int, int]:
    """Return the id of the loaded table, the number that its versions begin with, and the version after the last one.

    After a table was replaced and read whole, its versions count on from those of the table before, so that the events
    of both have one order.
    """
    table_id, base, end = "", 0, 0
    for read in sorted(loaded, key=lambda read: read.number):
        if read.partition == WHOLE and table_id and (read.topic_id != table_id or read.end < end):
            base, end = base + end, 0
        table_id, end = read.topic_id, max(end, read.end)
    return table_id, base, end


def _next_offset(ranges: Iterable[FeedRange], applied: int, earliest: int) -> int:
    """Return the first offset of a partition that not every history has."""
    ranges = list(ranges)
    loaded = [offsets.end for offsets in ranges if offsets.number <= applied]
    return max(loaded) if loaded else min((offsets.start for offsets in ranges), default=earliest)


_LOST = "To go on with the earliest message, set the option lost_offsets to earliest for one load."


def _topic_replaced(name: str, topic: Topic, reason: str) -> Refusal:
    return Refusal(
        "TOPIC_REPLACED",
        f"{name}: the topic {topic.name} {reason}, so its offsets do not continue those that were loaded",
        file=topic.name,
        hint=_LOST,
    )


def _offsets_expired(name: str, topic: Topic, partition: int, start: int, earliest: int) -> Refusal:
    return Refusal(
        "OFFSETS_EXPIRED",
        f"{name}: partition {partition} of the topic {topic.name} was read to offset {start}, and its earliest message "
        f"now has offset {earliest}: {earliest - start} offsets expired before they were loaded",
        file=topic.name,
        count=earliest - start,
        hint=f"Load more often than the topic's retention, or prolong it. {_LOST}",
    )


def with_note(note: str | None, raw: str, log: FeedLog, run_id: str) -> str | None:
    """Return a history's note after this run, with the number of the run if its rows are in raw."""
    if run_id not in log.runs:
        return note
    return json.dumps(json.loads(note or "{}") | {raw: [log.table, log.runs[run_id]]}, sort_keys=True)


def _changed_file(name: str, file: FeedFile, known: FeedFile) -> Refusal:
    shown = file.path.removeprefix("file:")
    return Refusal(
        "CHANGED_SINCE_LOADED",
        f"{shown} changed after {name} had loaded it: it had {known.size} bytes, it has {file.size}"
        if file.size != known.size
        else f"{shown} was written again after {name} had loaded it",
        file=shown,
        hint="Each file of a feed is loaded once: deliver corrections as a file of another name. "
        "Where every delivery replaces one file, name that file as the location. The source's option changed_files "
        "can read such files again, or keep what was loaded.",
    )
