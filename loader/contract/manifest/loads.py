"""Manifests of load runs: raw tables, stage, history and rawcore, and models."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from architecture.domain.tables import TableSpec
from loader.contract.manifest.checks import CheckSpec
from loader.contract.manifest.sources import SourceSpec
from metadata.domain.models.increment import CHANGED_KEYS
from metadata.domain.quality.unknown_parents import KEEP


@dataclass(frozen=True)
class RawLoad:
    """Load of one delivery into its raw table, whole or not at all.

    ``columns`` are pairs of a raw column's name and its name in the delivery.
    ``sensitive`` are names in lower case, delivered and raw: refusals contain none of their values.
    ``feed``: each file is read once and the table keeps the rows of every run. ``keeps_all``: the table keeps the
    deliveries of all runs, else only the latest. ``key_list`` is the source of the keys of all rows, for readers with
    delete detection by key list. ``quality`` are checks of the delivered rows.
    """

    dataset: str
    name: str
    table: TableSpec
    source: SourceSpec
    columns: tuple[tuple[str, str], ...]
    feed: bool = False
    keeps_all: bool = False
    depends_on: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    quality: tuple[CheckSpec, ...] = ()
    key_list: SourceSpec | None = None

    def with_password(self, values: Mapping[str, str]) -> "RawLoad":
        """Return the load with the password of its system, from the values of secrets."""
        key_list = None if self.key_list is None else self.key_list.with_password(values)
        return replace(self, source=self.source.with_password(values), key_list=key_list)


@dataclass(frozen=True)
class HashComponent:
    """Part of a hash: its stable key and the column with its value.

    ``type`` is the type as which the value is compared if it is not that of the column.
    """

    key: str
    column: str
    type: str | None = None


@dataclass(frozen=True)
class ForeignKey:
    """Foreign-key column with the hash of ``components``; NULL if any of them is NULL.

    ``rule`` is that for unknown parents; with one but ``keep``, ``parent`` is the parent's rawcore table. ``keys`` is
    the parent's leading table if its key has a uuid, a time or json, so that its rows may have keys of v1.
    """

    column: str
    components: tuple[HashComponent, ...]
    rule: str = KEEP
    parent: TableSpec | None = None
    keys: TableSpec | None = None


@dataclass(frozen=True)
class StageColumn:
    """Column of a stage view: ``expression`` is Spark SQL over the input, cast to ``type``."""

    name: str
    type: str
    expression: str


@dataclass(frozen=True)
class StageInput:
    """Input of a stage view: a raw table, and the columns and rows taken from it.

    ``options`` are the source's reading options that affect the conversion of text (``timezone``). ``feed``: only
    the rows of this run are read. ``rank``: position of its source in the policy's ``rank``, from 0, the best.
    ``incremental``: the table has the rows that are new or changed in its source. ``window`` is the column that has the
    source's watermark, for delete detection in the read window.
    """

    table: TableSpec
    columns: tuple[StageColumn, ...]
    filter: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    feed: bool = False
    rank: int = 0
    incremental: bool = False
    window: str = ""


@dataclass(frozen=True)
class ComputedRows:
    """History batch that is computed from versions instead of being read from files.

    It ends the selected open versions (``deletes``) or opens a version after each of them, at the time ``at``; a
    version that started later is ended at its start, or replaced. ``values`` are new values by column, as text;
    ``copies`` are columns by the column that takes their values. Selected are versions whose timestamps are earlier
    than those in ``before`` (by column), that have the values in ``equal`` (as text), and any value in the column
    ``having``. With ``ended``, the last versions of keys without an open version are taken instead of open ones.

    With ``every``, all versions are written with their own times instead, and ``deletes`` ends the selected open ones
    of them. ``history`` is the table of another dataset whose versions are taken; then only columns in ``copies`` and
    ``values`` have values.
    """

    at: str
    deletes: bool = False
    values: dict[str, Any] = field(default_factory=dict)
    copies: dict[str, Any] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    equal: dict[str, Any] = field(default_factory=dict)
    having: str = ""
    ended: bool = False
    every: bool = False
    history: TableSpec | None = None


@dataclass(frozen=True)
class ReferringRows:
    """Rows of a child whose unknown parents get ghost rows: those of its stage, and of its rawcore ``table``.

    ``inputs`` have the child's business key, its delete flag and the columns of the reference only. ``columns`` are
    pairs of the parent's business-key column and the child's column. ``policy`` is the child's history policy.
    """

    name: str
    table: TableSpec
    inputs: tuple[StageInput, ...]
    entity_key: tuple[HashComponent, ...]
    foreign_key: tuple[HashComponent, ...]
    columns: tuple[tuple[str, str], ...]
    policy: dict[str, Any] = field(default_factory=dict)
    delivery_checked: bool = False


@dataclass(frozen=True)
class HistoryFiles:
    """Paths or URIs of a history batch's files, by kind (``loader.domain.reference.batch_files``).

    ``format`` is csv or parquet; ``compression`` is none or, for CSV only, zstd. ``names`` are the dataset's columns
    by their names in the files. ``null_string`` and ``unmodified_string`` replace those of the history policy; with a
    ``null_string``, empty fields of text columns are empty texts. ``dated`` is the time of rows in files without times.
    ``binary`` is the encoding of binary values in CSV: hex or base64. With ``rows`` there are no files.
    """

    earliest_start: tuple[str, ...] = ()
    upsert: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    format: str = "csv"
    compression: str = "none"
    names: dict[str, Any] = field(default_factory=dict)
    null_string: str | None = None
    unmodified_string: str | None = None
    dated: str | None = None
    binary: str = "hex"
    rows: ComputedRows | None = None


@dataclass(frozen=True)
class ModelQuery:
    """SELECT of a model, over temporary views of the tables that it reads: pairs of a view's name and its table.

    ``varies``: the result depends on the run, not only on the rows of the tables.
    """

    sql: str
    views: tuple[tuple[str, TableSpec], ...]
    varies: bool = False


@dataclass(frozen=True)
class ModelLoad:
    """Load of a model into its table. ``increment`` selects the rows that are computed anew (all if empty).

    ``digest`` identifies the SELECT, with the views beneath it, and the described columns: with another one, and with
    ``full``, all rows are computed anew. ``quality`` are checks of the rows that are added; see ``RawcoreLoad`` for
    ``after``.
    """

    dataset: str
    name: str
    table: TableSpec
    query: ModelQuery
    digest: str
    increment: dict[str, Any] = field(default_factory=dict)
    sequence: int = 0
    full: bool = False
    depends_on: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    quality: tuple[CheckSpec, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def needs_changes(self) -> bool:
        """Return True if nothing is computed as long as no input has other rows, whatever the values of the run."""
        return not self.query.varies or self.increment.get("by") == CHANGED_KEYS


@dataclass(frozen=True)
class RawcoreLoad:
    """Load of stage into the history, by the dataset's policy, and then into rawcore.

    ``history`` is None if the dataset is not historized, ``event_log`` if rows carry no time of their own that counts.
    ``entity_key`` is empty for rows without a business key, which are only appended.
    ``row_hash`` covers the columns whose changes open a version. ``sequence`` is ``txnVersion``;
    ``newest_applied_at`` and ``newest_applied`` are the time (ISO 8601) of the newest applied run in the control
    database, and its sequence if the table was not recreated since. ``delivery_checked``: the checks of stage can be
    skipped, because the only input's delivery was checked for the same types and the same unique key. ``files``
    replaces stage if history comes as batch files, ``query`` if the dataset is a model. ``children`` refer to rows of
    this dataset and add ghost rows. ``sensitive`` are names of columns in lower case: refusals contain none of their
    values. ``quality`` are checks of the rows of stage; the dataset waits for those in ``after``, whatever their end,
    because its checks read them.
    """

    dataset: str
    name: str
    table: TableSpec
    history: TableSpec | None
    inputs: tuple[StageInput, ...]
    entity_key: tuple[HashComponent, ...]
    row_hash: tuple[HashComponent, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    event_log: TableSpec | None = None
    policy: dict[str, Any] = field(default_factory=dict)
    sequence: int = 0
    newest_applied_at: str | None = None
    newest_applied: int | None = None
    delivery_checked: bool = False
    depends_on: tuple[str, ...] = ()
    files: HistoryFiles | None = None
    query: ModelQuery | None = None
    children: tuple[ReferringRows, ...] = ()
    sensitive: tuple[str, ...] = ()
    quality: tuple[CheckSpec, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def leading(self) -> TableSpec:
        """Return the table that is committed first and defines which rows are new."""
        return self.history or self.table


@dataclass(frozen=True)
class LoadManifest:
    """One attempt of one load run.

    ``deletes_share`` and ``deletes_keys`` are the limits of ``loader.domain.historization.load_guards.DeleteGuard``.
    Datasets of up to ``small_rows`` rows are loaded together by one Spark job (``loader.engine.loads.small_loads``);
    with 0, none is. ``full`` and ``since`` set from where sources with a watermark are read
    (``loader.domain.sources.marks.Reading``). ``refused`` are refusals, as JSON, of datasets that fail at once.
    """

    run_id: str
    load_timestamp: str
    attempt: int
    raw: tuple[RawLoad, ...]
    rawcore: tuple[RawcoreLoad, ...]
    models: tuple[ModelLoad, ...] = ()
    allow_empty: bool = False
    allow_deletes: bool = False
    deletes_share: float = 0.2
    deletes_keys: int = 1000
    already_done: tuple[str, ...] = ()
    small_rows: int = 0
    full: bool = False
    since: str = ""
    refused: dict[str, Any] = field(default_factory=dict)

    @property
    def secrets(self) -> frozenset[str]:
        """Return the names of the secrets that its sources need."""
        return frozenset(load.source.secret for load in self.raw) - {""}

    def with_passwords(self, values: Mapping[str, str]) -> "LoadManifest":
        """Return the manifest with the password of each source, from the values of its secrets."""
        return replace(self, raw=tuple(load.with_password(values) for load in self.raw))
