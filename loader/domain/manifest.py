"""Manifests: requests of a worker to the runner, as frozen dataclasses and as JSON on the pipe.

A manifest is complete; the runner looks nothing up. Tables, columns and datasets are the domains' own dataclasses,
so both sides use the same types.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from architecture.domain.steps.step import Step
from architecture.domain.tables import TableSpec
from loader.domain.quality.checks import CheckSpec
from loader.domain.refusals import Refusal
from metadata.domain.raw_keeping import Keeping
from metadata.domain.sources.clusters import ClusterPlace
from metadata.domain.sources.locations import DatabasePlace
from metadata.domain.sources.rest_addresses import ApiPlace
from metadata.domain.unknown_parents import KEEP


@dataclass(frozen=True)
class DeliveredColumn:
    """Column that a source is declared to deliver. ``key`` is the source column's stable key."""

    key: str
    name: str
    type: str
    nullable: bool = True
    business_key: bool = False


@dataclass(frozen=True)
class DatabaseSpec:
    """Database of a source, and the name of the secret with its password.

    ``password`` is set by the runner alone (``with_passwords``): it is no part of the manifest on the pipe.
    """

    place: DatabasePlace
    secret: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class ClusterSpec:
    """Kafka cluster of a source, its secret and ``password`` as those of a ``DatabaseSpec``."""

    place: ClusterPlace
    secret: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class ApiSpec:
    """REST API of a source: base URL, options of the system, and the name of the secret for its authentication.

    ``password`` is set as that of a database.
    """

    place: ApiPlace
    options: dict = field(default_factory=dict)
    secret: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class SourceSpec:
    """Location, format and declared columns of a delivery. ``metadata.domain.sources.reading_options`` has the options.

    ``one_row_per_key`` is False for dated rows: those of one key differ by their time. ``database`` is that of a
    source of format ``table``, whose location is the table; ``cluster`` that of one of format ``kafka``, whose location
    is the topic; ``api`` that of one of format ``rest``, whose location is the endpoint. ``intake`` selects the rows
    that are read (``metadata.domain.sources.intake``). ``undated`` are location and parameters of an endpoint with
    placeholders instead of the run's dates.
    """

    name: str
    location: str
    format: str
    columns: tuple[DeliveredColumn, ...]
    options: dict = field(default_factory=dict)
    one_row_per_key: bool = True
    database: DatabaseSpec | None = None
    cluster: ClusterSpec | None = None
    api: ApiSpec | None = None
    intake: dict = field(default_factory=dict)
    undated: tuple[str, ...] = ()

    @property
    def system(self) -> DatabaseSpec | ClusterSpec | ApiSpec | None:
        """Return the database, cluster or API of the source; None for files."""
        return self.database or self.cluster or self.api

    @property
    def secret(self) -> str:
        """Return the name of the secret that reading the source needs; empty if it needs none."""
        return self.system.secret if self.system else ""

    def check_password(self) -> None:
        """Raise Refusal SECRET_NOT_SET if the source needs a secret and has no password."""
        if self.system is not None and self.secret and not self.system.password:
            raise Refusal(
                "SECRET_NOT_SET",
                f"{self.name}: neither {self.secret} nor {self.secret}_FILE is set where the worker runs",
                hint="Set it for the worker and start that again, or correct the variable's name in the system.",
            )

    def with_password(self, values: Mapping[str, str]) -> "SourceSpec":
        """Return the source with the password of its system, from the values of secrets."""
        password = values.get(self.secret, "")
        if self.database is not None:
            return replace(self, database=replace(self.database, password=password))
        if self.cluster is not None:
            return replace(self, cluster=replace(self.cluster, password=password))
        return self if self.api is None else replace(self, api=replace(self.api, password=password))


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
    """Part of a hash: its stable key and the column with its value."""

    key: str
    column: str


@dataclass(frozen=True)
class ForeignKey:
    """Foreign-key column with the hash of ``components``; NULL if any of them is NULL.

    ``rule`` is that for unknown parents; with one but ``keep``, ``parent`` is the parent's rawcore table.
    """

    column: str
    components: tuple[HashComponent, ...]
    rule: str = KEEP
    parent: TableSpec | None = None


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
    options: dict = field(default_factory=dict)
    feed: bool = False
    rank: int = 0
    incremental: bool = False
    window: str = ""


@dataclass(frozen=True)
class CurrentRows:
    """History batch that is computed from the history's open versions instead of being read from files.

    It ends the selected versions (``deletes``) or opens a version after each of them, at the time ``at``; a version
    that started later is ended at its start, or replaced. ``values`` are new values by column, as text; ``copies`` are
    columns by the column that takes their values. Selected are versions whose timestamps are earlier than those in
    ``before`` (by column), that have the values in ``equal`` (as text), and any value in the column ``having``. With
    ``ended``, the last versions of keys without an open version are taken instead of open ones.
    """

    at: str
    deletes: bool = False
    values: dict = field(default_factory=dict)
    copies: dict = field(default_factory=dict)
    before: dict = field(default_factory=dict)
    equal: dict = field(default_factory=dict)
    having: str = ""
    ended: bool = False


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
    policy: dict = field(default_factory=dict)
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
    names: dict = field(default_factory=dict)
    null_string: str | None = None
    unmodified_string: str | None = None
    dated: str | None = None
    binary: str = "hex"
    rows: CurrentRows | None = None


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

    ``digest`` identifies the SELECT with the described columns: with another one, and with ``full``, all rows are
    computed anew. ``quality`` are checks of the rows that are added; see ``RawcoreLoad`` for ``after``.
    """

    dataset: str
    name: str
    table: TableSpec
    query: ModelQuery
    digest: str
    increment: dict = field(default_factory=dict)
    sequence: int = 0
    full: bool = False
    depends_on: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    quality: tuple[CheckSpec, ...] = ()
    after: tuple[str, ...] = ()


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
    policy: dict = field(default_factory=dict)
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
    Datasets of up to ``small_rows`` rows are loaded together by one Spark job (``loader.spark.small_loads``); with 0,
    none is. ``full`` and ``since`` set from where sources with a watermark are read
    (``loader.domain.sources.marks.Reading``).
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

    @property
    def secrets(self) -> frozenset[str]:
        """Return the names of the secrets that its sources need."""
        return frozenset(load.source.secret for load in self.raw) - {""}

    def with_passwords(self, values: Mapping[str, str]) -> "LoadManifest":
        """Return the manifest with the password of each source, from the values of its secrets."""
        return replace(self, raw=tuple(load.with_password(values) for load in self.raw))


@dataclass(frozen=True)
class PublishedName:
    """A name to publish (``loader.domain.catalogs.publication``). ``kind`` is table, view or function.

    ``key`` is the stable key of a table; ``statement`` defines a view or function.
    ``reads`` are pairs (name, stable key) of the tables that a view or function reads. ``digest`` covers the statement
    and the columns of those tables.
    """

    name: str
    kind: str
    dataset: str
    key: str = ""
    statement: str = ""
    digest: str = ""
    reads: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class PublishManifest:
    """Names to publish in a catalog, or with ``check`` only to compare with it.

    ``schemas`` are those that the warehouse uses or used: with ``whole``, entries of the warehouse in them that are
    not among ``names`` are extra. ``mark`` identifies the warehouse's views and functions in the catalog
    (``loader.domain.catalogs.publication.mark_of``), ``address`` is the setting ELEVATA_CATALOG.
    """

    names: tuple[PublishedName, ...]
    schemas: tuple[str, ...]
    mark: str
    address: str
    check: bool = False
    whole: bool = True


@dataclass(frozen=True)
class ObserveManifest:
    """Tables to observe, by stable key; the answer contains those that exist.

    Dropped tables, whose files remain, are included with ``dropped``. A table whose log cannot be read fails the
    request, or with ``skip_unreadable`` is listed under ``unreadable`` in the answer.
    """

    tables: tuple[str, ...]
    dropped: bool = False
    skip_unreadable: bool = False


@dataclass(frozen=True)
class ExecuteManifest:
    """Steps to execute, in order; each is verified by observing the table afterwards.

    ``done`` are the positions of steps that an earlier attempt finished: they are not run again. ``sensitive``
    are stable keys of columns: refusals contain none of their values.
    """

    execution: str
    steps: tuple[Step, ...]
    done: tuple[int, ...] = ()
    sensitive: tuple[str, ...] = ()


@dataclass(frozen=True)
class SizesManifest:
    """Tables to measure, by stable key; their logs are read, not their rows."""

    tables: tuple[str, ...]


@dataclass(frozen=True)
class DownstreamQuery:
    """A query over published tables: a SELECT, or the statement that publishes a view."""

    name: str
    sql: str


@dataclass(frozen=True)
class DryRunManifest:
    """Steps of a dry run on shallow clones, which are dropped in any case.

    ``tables`` are those that ``queries`` read besides the changed ones, by stable key. ``after`` are
    queries that only exist afterwards (views over renamed tables). ``sensitive`` are stable keys of
    columns whose values are masked.
    """

    dry_run: str
    steps: tuple[Step, ...]
    tables: tuple[str, ...] = ()
    queries: tuple[DownstreamQuery, ...] = ()
    after: tuple[DownstreamQuery, ...] = ()
    samples: int = 5
    sensitive: tuple[str, ...] = ()


@dataclass(frozen=True)
class RevertManifest:
    """Revert of the load run ``reverted_run``, with ``reverted_sequence``, in a dataset's history.

    ``load`` is the dataset's load manifest with the sequence of the revert itself. ``newest_applied_at`` is the time
    of the newest run that stays applied. ``later_runs`` are runs after the reverted one that stay applied.
    ``refused`` is a refusal as JSON, raised unless the table shows that the revert was already done.
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
    """Removal of a history's closed versions that ended before ``ended_before``, in the type of the history's times.

    ``archive`` is the folder they are written to first, as a Delta table; None deletes them without a copy.
    """

    run_id: str
    load: RawcoreLoad
    ended_before: str
    archive: str | None = None


@dataclass(frozen=True)
class AcceptManifest:
    """Acceptance of a dataset's table that lacks runs which the control database records as applied."""

    run_id: str
    load: RawcoreLoad


@dataclass(frozen=True)
class QuarantineManifest:
    """Decision on waiting rows of a dataset's quarantine: ``decision`` is release or drop.

    ``dataset`` is the stable key of the dataset and its table. ``entries`` are the rows' identities, ``of_run`` limits
    them to a run; without either, all waiting rows are meant. ``sensitive`` as in ``RawcoreLoad``.
    """

    run_id: str
    dataset: str
    name: str
    decision: str
    entries: tuple[str, ...] = ()
    of_run: str = ""
    sensitive: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompactManifest:
    """Compaction of the small files of a dataset's tables (limits: ``loader.domain.run_states``)."""

    run_id: str
    dataset: str
    name: str
    tables: tuple[TableSpec, ...]


@dataclass(frozen=True)
class Masking:
    """Columns as one reader sees them, by stable key: ``shown`` unchanged, ``hashed`` hashed again with the secret.

    All others are masked. ``shown_names`` (in lower case) decide for columns without a stable key.
    """

    shown: tuple[str, ...]
    shown_names: tuple[str, ...]
    hashed: tuple[str, ...] = ()
    secret: str = ""


@dataclass(frozen=True)
class QuerySource:
    """Published name that a query reads, as a temporary view called ``view``.

    ``query`` is a view's SELECT over earlier temporary views, None for a Delta table. Masked columns are NULL of
    their own type; ``masking`` is None for a reader without restrictions.
    """

    view: str
    table: TableSpec
    query: str | None = None
    masking: Masking | None = None


@dataclass(frozen=True)
class VacuumManifest:
    """Removal of files to which a dataset's tables have not referred for ``retention_hours``.

    Before, the deliveries that ``keeping`` no longer keeps are removed from a raw table. A dry run lists both and
    removes nothing. Both measure the disk use of each table.
    """

    run_id: str
    dataset: str
    name: str
    tables: tuple[TableSpec, ...]
    retention_hours: int
    dry_run: bool = False
    keeping: Keeping | None = None


@dataclass(frozen=True)
class ReadManifest:
    """Read request; ``loader.spark.reads`` describes the kinds and their arguments.

    ``masking`` is None for a reader without restrictions. ``sources`` are those of kinds ``sql`` and ``try_model``,
    ``inputs`` and ``entity_key`` the raw tables of a dataset and the components of its key, for kind ``origin``.
    """

    kind: str
    table: TableSpec | None = None
    source: SourceSpec | None = None
    arguments: dict = field(default_factory=dict)
    timeout_seconds: float = 60.0
    masking: Masking | None = None
    sources: tuple[QuerySource, ...] = ()
    inputs: tuple[StageInput, ...] = ()
    entity_key: tuple[HashComponent, ...] = ()


@dataclass(frozen=True)
class CheckManifest:
    """Check of a history's invariants (``loader.spark.historization.invariants``), and of the rawcore that follows it.

    ``entity_key`` and ``row_hash`` are the components that the load hashes. ``samples`` is the number of keys in a
    finding. ``newest_applied`` is the sequence of the newest run applied to the history, from the control database.
    ``event_log`` is None for a history without one. ``sensitive`` are names of columns in lower case: findings
    contain none of their values.
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
    event_log: TableSpec | None = None


@dataclass(frozen=True)
class ReplayManifest:
    """History cases to run (``loader.domain.reference.cases``): a file's text, and the ids to select (None: all)."""

    cases: str
    only: tuple[str, ...] | None = None


def to_json(value: Any) -> Any:
    """Return a manifest as plain JSON values. Raise TypeError for types that JSON does not have."""
    return asdict(value) if is_dataclass(value) else value


def from_json(kind: type, described: Any) -> Any:
    """Return an instance of the dataclass ``kind`` from its JSON. Raise TypeError for an unknown field."""
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
