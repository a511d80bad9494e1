"""Files of a feed: those in its raw table, and those that a run must read. Each is loaded once.

The Delta log of the raw table records them as transaction identifiers: one for each file (path, size, time, content
tag) and one for each run, with the number of the run in this table. They are committed with the rows, and checkpoints
retain them when the log is cleaned, so they do not depend on the control database. The commit metadata of each reader's
leading table (its history, or rawcore without one) record the newest number that it has (``NOTE``). Files with later
numbers were read by runs that failed before they wrote that table: they are read again, and the same commit removes
their old rows from raw.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from loader.domain.refusals import Refusal

NOTE = "feeds"
_FILE, _RUN = "elevata.file ", "elevata.run "


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
class FeedLog:
    """Files and runs in a raw table. ``table`` is the table's own id, which a recreated table does not share."""

    table: str
    files: Mapping[str, FeedFile] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, table: str, transactions: Mapping[str, int]) -> "FeedLog":
        """Return the log with these transaction identifiers. Of several readings of one file, use the newest."""
        files: dict[str, FeedFile] = {}
        for name, number in sorted(transactions.items(), key=lambda item: item[1]):
            if name.startswith(_FILE):
                path, size, written, etag = json.loads(name.removeprefix(_FILE))
                files[path] = FeedFile(path, size, written, etag, number)
        runs = {name.removeprefix(_RUN): number for name, number in transactions.items() if name.startswith(_RUN)}
        return cls(table, files, runs)

    @property
    def newest(self) -> int:
        return max(self.runs.values(), default=0)

    def held(self, note: str | None, raw: str) -> int:
        """Return the newest number in a history, from its commit's note."""
        table, number = json.loads(note or "{}").get(raw, ("", 0))
        return number if table == self.table else 0

    def transactions(self, run_id: str, files: Iterable[FeedFile]) -> dict[str, int]:
        """Return the transaction identifiers of a run's commit: its own, and those of the files that it adds."""
        number = self.newest + 1
        names = [_FILE + json.dumps([file.path, file.size, file.written, file.etag]) for file in files]
        return dict.fromkeys([_RUN + run_id, *names], number)


@dataclass(frozen=True)
class FeedChoice:
    """Files that a run reads, runs whose rows it replaces, and paths that no longer exist."""

    files: tuple[FeedFile, ...]
    replaced: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def choose(name: str, log: FeedLog, listed: Iterable[FeedFile], *, held: int, one_file: bool) -> FeedChoice:
    """Return the files to read from a feed's location, if all its histories have the numbers up to ``held``.

    ``one_file``: the location is one file, which every delivery replaces; it is read again if it has changed.
    Otherwise raise Refusal CHANGED_SINCE_LOADED for a file that changed after it was loaded.
    """
    by_path = {file.path: file for file in listed}
    files = []
    for path, file in by_path.items():
        loaded = log.files.get(path)
        if loaded is not None and loaded.number <= held:
            if file.is_as(loaded):
                continue
            if not one_file:
                raise _changed_file(name, file, loaded)
        files.append(file)
    unread = [file for file in log.files.values() if file.number > held]
    missing = tuple(file.path for file in unread if file.path not in by_path)
    lost = {file.number for file in unread if file.path not in by_path}
    replaced = tuple(run for run, number in log.runs.items() if number > held and number not in lost)
    return FeedChoice(tuple(files), replaced, missing)


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
        "Where every delivery replaces one file, name that file as the location.",
    )
