"""What a worker asks of the runner: requests as frozen dataclasses, JSON on the pipe.

A manifest holds everything the runner needs to know; it looks nothing up. Tables, columns and
datasets are the domains' own dataclasses, so both sides speak of the same things.
"""

from dataclasses import asdict, dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from architecture.domain.states.tables import TableSpec
from architecture.domain.steps.step import Step

PROTOCOL = 1


@dataclass(frozen=True)
class DeliveredColumn:
    """A column the source promises. ``key`` is the source column's stable key."""

    key: str
    name: str
    type: str
    nullable: bool = True
    business_key: bool = False


@dataclass(frozen=True)
class SourceSpec:
    """Where a delivery is and what it must look like. ``options`` are described in ``loader.spark.sources``.

    ``one_row_per_key`` is False for a feed: its rows of one key differ by their time.
    """

    name: str
    location: str
    format: str
    columns: tuple[DeliveredColumn, ...]
    options: dict = field(default_factory=dict)
    one_row_per_key: bool = True


@dataclass(frozen=True)
class RawLoad:
    """Bring one delivery into its raw table, whole or not at all.

    ``columns`` says which raw column each delivered one becomes: (raw column name, delivered name).
    ``sensitive`` are names in lower case, delivered and raw: refusals tell none of their values.
    ``feed``: each file is read once and the table keeps every run's rows; otherwise only the latest delivery's.
    """

    dataset: str
    name: str
    table: TableSpec
    source: SourceSpec
    columns: tuple[tuple[str, str], ...]
    feed: bool = False
    depends_on: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()


@dataclass(frozen=True)
class HashComponent:
    """One part of a hash: the stable key it goes under and the column whose value it is."""

    key: str
    column: str


@dataclass(frozen=True)
class ForeignKey:
    """``column`` holds the hash of ``components``; NULL where any of them is NULL."""

    column: str
    components: tuple[HashComponent, ...]


@dataclass(frozen=True)
class StageColumn:
    """A column of the stage view: ``expression`` is Spark SQL over the input, cast to ``type``."""

    name: str
    type: str
    expression: str


@dataclass(frozen=True)
class StageInput:
    """One input of a stage view: a raw table and what is taken from it.

    ``options`` are the source's reading options, for how text becomes values (``timezone``).
    ``feed``: only the rows that this run brought are taken.
    """

    table: TableSpec
    columns: tuple[StageColumn, ...]
    filter: str | None = None
    options: dict = field(default_factory=dict)
    feed: bool = False


@dataclass(frozen=True)
class HistoryFiles:
    """The files of a history batch, by what they say (``loader.domain.reference.batch_files``): paths or URIs.

    ``format`` is csv or parquet, ``compression`` none or, of CSV, zstd.
    """

    earliest_start: tuple[str, ...] = ()
    upsert: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    format: str = "csv"
    compression: str = "none"


@dataclass(frozen=True)
class RawcoreLoad:
    """Bring what stage holds into the history, by the dataset's policy; then rawcore after it.

    ``history`` is None where the dataset is not historized, ``memory`` where rows carry no time of
    their own. ``row_hash`` covers what opens a version. ``sequence`` is ``txnVersion``;
    ``newest_applied_at`` and ``newest_applied`` are what the control database knows of the newest applied run: its
    time (ISO 8601), and its sequence if the table was not made anew since.
    ``views`` are statements that publish views over the history.
    ``delivery_checked`` says that the one input's delivery was already checked for everything
    stage would check: the same types, and one row for each of the same keys. ``files`` takes the
    place of stage where history comes as batch files. ``sensitive`` are names of columns in lower case:
    refusals tell none of their values.
    """

    dataset: str
    name: str
    table: TableSpec
    history: TableSpec | None
    inputs: tuple[StageInput, ...]
    entity_key: tuple[HashComponent, ...]
    row_hash: tuple[HashComponent, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    memory: TableSpec | None = None
    views: tuple[str, ...] = ()
    policy: dict = field(default_factory=dict)
    sequence: int = 0
    newest_applied_at: str | None = None
    newest_applied: int | None = None
    delivery_checked: bool = False
    depends_on: tuple[str, ...] = ()
    files: HistoryFiles | None = None
    sensitive: tuple[str, ...] = ()

    @property
    def leading(self) -> TableSpec:
        """The table that is committed first and decides what is new."""
        return self.history or self.table


@dataclass(frozen=True)
class LoadManifest:
    """One attempt of one load run. The share and number are those of ``loader.domain.history.DeleteGuard``."""

    run_id: str
    load_timestamp: str
    attempt: int
    raw: tuple[RawLoad, ...]
    rawcore: tuple[RawcoreLoad, ...]
    allow_empty: bool = False
    allow_deletes: bool = False
    deletes_share: float = 0.2
    deletes_keys: int = 1000
    already_done: tuple[str, ...] = ()


@dataclass(frozen=True)
class ObserveManifest:
    """Which tables to look at; tables that do not exist are left out of the answer.

    So are dropped ones, whose files are kept, unless ``dropped`` asks for them, too. A table whose log cannot be
    read fails the request, or with ``skip_unreadable`` is listed under ``unreadable`` beside the answer.
    """

    tables: tuple[str, ...]
    dropped: bool = False
    skip_unreadable: bool = False


@dataclass(frozen=True)
class ExecuteManifest:
    """Steps to execute, in order; each is proved by observing the table afterwards.

    ``done`` are the places of steps that an earlier attempt finished: they are not run again. ``sensitive``
    are stable keys of columns: refusals tell none of their values.
    """

    execution: str
    steps: tuple[Step, ...]
    done: tuple[int, ...] = ()
    sensitive: tuple[str, ...] = ()


@dataclass(frozen=True)
class SizesManifest:
    """Which tables to size up, by stable key; answered from their logs, no row is read."""

    tables: tuple[str, ...]


@dataclass(frozen=True)
class DownstreamQuery:
    """A query over published tables: a SELECT, or the statement that publishes a view."""

    name: str
    sql: str


@dataclass(frozen=True)
class RehearseManifest:
    """Steps to run on shallow clones, which are dropped whatever happens.

    ``tables`` are those that ``queries`` read besides the touched ones, by stable key. ``after`` are
    queries as they will be (views over renamed tables), asked afterwards only. ``sensitive`` are stable keys of
    columns whose values are masked.
    """

    rehearsal: str
    steps: tuple[Step, ...]
    tables: tuple[str, ...] = ()
    queries: tuple[DownstreamQuery, ...] = ()
    after: tuple[DownstreamQuery, ...] = ()
    samples: int = 5
    sensitive: tuple[str, ...] = ()


@dataclass(frozen=True)
class RevertManifest:
    """Take one run, known by its id and its number, out of a dataset's history.

    ``load`` is the dataset as a load has it, with the number of this run. ``newest_applied_at`` is the
    time of the newest run that stays applied; ``later_runs`` stay, too, and brought rows after it.
    ``refused`` is a refusal as JSON: why it cannot be done, unless the table shows that it was.
    """

    run_id: str
    load: RawcoreLoad
    reverted_run: str
    reverted_sequence: int
    newest_applied_at: str | None = None
    later_runs: tuple[str, ...] = ()
    refused: dict | None = None


@dataclass(frozen=True)
class PruneManifest:
    """Remove a history's closed versions that ended before ``ended_before``, a value as versions are dated.

    ``archive`` is the folder they are written to first, as a Delta table; None keeps them nowhere.
    """

    run_id: str
    load: RawcoreLoad
    ended_before: str
    archive: str | None = None


@dataclass(frozen=True)
class AcceptManifest:
    """Take a dataset's table as it is now, though it does not hold the newest run applied to it."""

    run_id: str
    load: RawcoreLoad


@dataclass(frozen=True)
class CompactManifest:
    """Bring small files of a dataset's tables together (``loader.domain.governance`` says which are small)."""

    run_id: str
    dataset: str
    name: str
    tables: tuple[TableSpec, ...]


@dataclass(frozen=True)
class Masking:
    """Columns that a reader sees, by stable key: ``shown`` as they are, ``hashed`` once more with the secret.

    All others are masked. ``shown_names`` (in lower case) decide for columns without a stable key.
    """

    shown: tuple[str, ...]
    shown_names: tuple[str, ...]
    hashed: tuple[str, ...] = ()
    secret: str = ""


@dataclass(frozen=True)
class ReadManifest:
    """A read: see ``loader.spark.reads`` for the kinds and their arguments.

    ``masking`` is None for a reader who may see everything.
    """

    kind: str
    table: TableSpec | None = None
    source: SourceSpec | None = None
    arguments: dict = field(default_factory=dict)
    timeout_seconds: float = 60.0
    masking: Masking | None = None


@dataclass(frozen=True)
class CheckManifest:
    """A history whose invariants are checked (``loader.spark.invariants``), with the rawcore that follows it.

    ``entity_key`` and ``row_hash`` are what the load hashes; ``samples`` is how many keys a finding names;
    ``newest_applied`` is the sequence of the newest run applied to the history, by the control database. Of
    ``sensitive`` columns, names in lower case, it tells no value.
    """

    name: str
    history: TableSpec
    rawcore: TableSpec
    entity_key: tuple[HashComponent, ...]
    row_hash: tuple[HashComponent, ...]
    policy: dict = field(default_factory=dict)
    samples: int = 5
    timeout_seconds: float = 3600.0
    newest_applied: int | None = None
    sensitive: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplayManifest:
    """History cases to run (``loader.domain.replay``): a file's text, and the ids of those that are wanted."""

    cases: str
    only: tuple[str, ...] | None = None


def to_json(value: Any) -> Any:
    """A manifest as plain JSON values. Types JSON does not know are a programming error."""
    return asdict(value) if is_dataclass(value) else value


def from_json(kind: type, described: Any) -> Any:
    """The dataclass ``kind`` from its JSON; an unknown field raises TypeError."""
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind)}
    unknown = set(described) - known
    if unknown:
        raise TypeError(f"{kind.__name__} has no field {sorted(unknown)[0]}")
    return kind(**{name: _value(hints[name], value) for name, value in described.items()})


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _value(next(arg for arg in get_args(hint) if arg is not type(None)), value)
    if origin is tuple:
        args = get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_value(args[0], item) for item in value)
        return tuple(_value(arg, item) for arg, item in zip(args, value, strict=True))
    if is_dataclass(hint):
        return from_json(hint, value)
    return value
