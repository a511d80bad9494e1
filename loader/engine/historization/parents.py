"""Foreign keys whose parent is unknown, by the rules of ``metadata.domain.quality.unknown_parents``.

A child's load compares its foreign keys with the parent's rawcore, which the same run has loaded before. A parent's
load adds ghost rows to its own stage: they are part of its one commit, and the real row changes them later.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.tables import ColumnSpec, TableSpec
from elevata.core.words import counted
from loader.contract.manifest.loads import ForeignKey, HashComponent, ReferringRows
from loader.contract.refusals import Refusal
from loader.domain.historization.history import CHANGED
from loader.engine.compared_texts import hash_parts, types_by_name
from loader.engine.conversions import typed
from loader.engine.expressions import any_of
from loader.engine.hashing import digest
from loader.engine.historization.difference import Difference
from loader.engine.historization.stage import IS_DELETE, flags_delete, typed_stage, with_hashes
from loader.engine.historization.targets import Stamp, Target, open_versions
from loader.engine.samples import sample_rows
from loader.engine.session import forget
from loader.engine.tables.tables import DeltaTable
from metadata.domain.history.history_policy import IGNORE, HistoryPolicy
from metadata.domain.quality.unknown_parents import KEEP, NULL, REFUSE
from metadata.domain.sql import quote_identifier

# Note of a commit: stable keys of the foreign keys that were NULL for unknown parents. The next load fills them if
# they have another rule.
NULLED = "nulled"
_GHOST, _KNOWN, _STORED = "__ghost", "__known", "__stored_"


class UnknownParents:
    """Unknown parents of one load, as a child and as a parent.

    ``added`` is the number of rows that the rules added to the delivered ones, ``stale`` that of stored rows among
    them.
    """

    def __init__(self, target: Target, stamp: Stamp):
        self.target, self.stamp = target, stamp
        self.load = target.load
        self._policy = HistoryPolicy.from_dict(self.load.policy)
        self.closes_absent = self._policy.closes_absent
        self.counts: dict[str, int] = {}
        self.warnings: list[str] = []
        self.added = self.stale = 0
        self._ghosts: DataFrame | None = None
        self._referred_keys: DataFrame | None = None
        self._checkpoints: list[DataFrame] = []

    @property
    def nulled(self) -> tuple[str, ...]:
        """Return the stable keys of the foreign keys that are NULL for unknown parents."""
        rules = {key.column: key.rule for key in self.load.foreign_keys}
        return tuple(column.key for column in self._columns if rules.get(column.name) == NULL)

    @property
    def in_place(self) -> tuple[str, ...]:
        """Return the foreign keys to compare and update in place: those that are or were NULL for unknown parents."""
        last_run = self.target.last_run
        keys = {*self.nulled, *(last_run.notes.get(NULLED, "").split() if last_run else ())}
        return tuple(column.name for column in self._columns if column.key in keys)

    @property
    def _columns(self) -> tuple[ColumnSpec, ...]:
        return self.load.table.of_purpose("foreign_key")

    # --- ghost rows of a parent -------------------------------------------------------------------

    def with_ghosts(self, stage: DataFrame) -> DataFrame:
        """Return the typed stage with a ghost row for each key that children refer to and that has no row.

        A snapshot needs a row of its own for each such key; with other deliveries, an open row is enough.
        """
        if not self.load.children:
            return stage
        referred = reduce(DataFrame.unionByName, [self._referred(rows) for rows in self.load.children])
        referred = self._kept(referred, _GHOST)
        self._referred_keys = referred.select(F.col(_GHOST).alias(_KNOWN))
        own = stage.select(_hash(stage, self.load.entity_key, self.load.table).alias(_KNOWN))
        own = self._kept(own, _KNOWN)
        missing = _without(referred.dropDuplicates([_GHOST]), own)
        if not self.closes_absent:
            key = quote_identifier(self.load.leading.column("entity_key").name)
            missing = _without(missing, self._open_rows().select(F.col(key).alias(_KNOWN)))
        ghosts = self._checkpoint(missing)
        count = ghosts.count()
        if not count:
            return stage
        self._ghosts = ghosts
        self.added += count
        self.counts["ghosts"] = count
        children = ", ".join(sorted({rows.name for rows in self.load.children}))
        self.warnings.append(
            f"{self.load.name}: {counted(count, 'ghost row')} for keys of {children} that were not delivered."
        )
        return stage.unionByName(ghosts.drop(_GHOST), allowMissingColumns=True)

    def _kept(self, keys: DataFrame, column: str) -> DataFrame:
        """Return own keys with those that are stored."""
        return self.target.former_keys.kept(keys, column, self.load.leading, self.load.event_log)

    def _referred(self, rows: ReferringRows) -> DataFrame:
        """Return the business keys that a child refers to after this run, each with its hash.

        Rows that are outranked, or flagged as deleted, do not count.
        """
        stage = typed_stage(
            self.target.session, self.target.warehouse, rows, run_id=self.stamp.run_id, load_timestamp=self.stamp.at
        )
        types = {column.name: column.type for column in self.load.table.of_purpose("business_key")}
        policy = HistoryPolicy.from_dict(rows.policy)
        live = stage if policy.delete_flag is None else stage.where(~flags_delete(policy))
        keys = _referred_keys(live, rows, types)
        if policy.closes_absent:
            return keys
        entity_key = quote_identifier(rows.table.column("entity_key").name)
        stored = DeltaTable(self.target.session, self.target.warehouse, rows.table.key).frame()
        replacing = live if policy.deletes == IGNORE else stage
        delivered = replacing.select(_hash(stage, rows.entity_key, rows.table).alias(_KNOWN))
        delivered = self.target.former_keys.kept(delivered, _KNOWN, rows.table)
        kept = stored.join(delivered, F.col(entity_key) == F.col(_KNOWN), "left_anti")
        return keys.unionByName(_referred_keys(kept, rows, types))

    def without_referred(self, keys: DataFrame, key: str) -> DataFrame:
        """Return the keys to which no child refers that has ghost rows for unknown parents."""
        return keys if self._referred_keys is None else _without(keys, self._referred_keys, key)

    def emptied(self, difference: Difference) -> int:
        """Return the number of stored rows that become ghost rows: their delivery lacks them."""
        if self._ghosts is None:
            return 0
        key = quote_identifier(difference.key)
        ghosts = self._ghosts.select(F.col(_GHOST).alias(_KNOWN))
        changed = difference.where(CHANGED).select(key)
        return changed.join(ghosts, F.col(key) == F.col(_KNOWN), "left_semi").count()

    # --- foreign keys of a child ------------------------------------------------------------------

    def resolved(self, rows: DataFrame, deleted: DataFrame | None = None) -> DataFrame:
        """Return the hashed rows with the rules applied to their foreign keys. Raise Refusal UNKNOWN_PARENT.

        ``deleted`` has the entity keys of stored rows that the run closes, so they are not brought up to date.
        """
        for key in self.load.foreign_keys:
            if key.rule != KEEP:
                rows = self._resolved(rows, key)
        return self._with_stale_rows(rows, deleted) if self.in_place and not self.closes_absent else rows

    def _resolved(self, rows: DataFrame, key: ForeignKey) -> DataFrame:
        assert key.parent is not None
        column = F.col(quote_identifier(key.column))
        refers = column.isNotNull() & ~F.col(IS_DELETE) if IS_DELETE in rows.columns else column.isNotNull()
        unknown = _without(rows.where(refers), self._known(key), key.column)
        count = unknown.count()
        if not count:
            return rows
        parent = key.parent.qualified_name
        message = f"{self.load.name}: {counted(count, 'row')} with a {key.column} that {parent} does not have"
        if key.rule == REFUSE:
            raise Refusal(
                "UNKNOWN_PARENT",
                message,
                column=key.column,
                count=count,
                samples=sample_rows(unknown, [part.column for part in key.components]),
                hint="Load the parent's rows first, correct the delivery, or choose another rule for unknown parents.",
            )
        self.counts["unknown_parents"] = self.counts.get("unknown_parents", 0) + count
        result = "stored as NULL" if key.rule == NULL else "they have no ghost row yet"
        self.warnings.append(f"{message}: {result}.")
        return self._nulled(rows, key) if key.rule == NULL else rows

    def _known(self, key: ForeignKey) -> DataFrame:
        assert key.parent is not None
        parent = DeltaTable(self.target.session, self.target.warehouse, key.parent.key).frame()
        return parent.select(F.col(quote_identifier(key.parent.column("entity_key").name)).alias(_KNOWN))

    def _nulled(self, rows: DataFrame, key: ForeignKey) -> DataFrame:
        names, column = rows.columns, F.col(quote_identifier(key.column))
        joined = rows.join(self._known(key), column == F.col(_KNOWN), "left")
        return joined.withColumn(key.column, F.when(F.col(_KNOWN).isNotNull(), column)).select(
            *(quote_identifier(name) for name in names)
        )

    def _with_stale_rows(self, rows: DataFrame, deleted: DataFrame | None) -> DataFrame:
        """Return the rows of a batch that keeps absent keys, with the stored rows whose foreign keys are outdated."""
        entity_key = quote_identifier(self.load.leading.column("entity_key").name)
        stored = self._open_rows()
        described = [c.name for c in self.load.table.of_purpose("business_key", "attribute") if c.name in rows.columns]
        now = stored.select(*map(quote_identifier, described))
        if self._policy.delete_flag is not None and self._policy.delete_flag not in described:
            now = now.withColumn(self._policy.delete_flag, F.lit(False))
        now = self.target.former_keys.kept_in(with_hashes(now, self.load), self.load)
        for key in self.load.foreign_keys:
            if key.rule == NULL:
                now = self._nulled(now, key)
        before = stored.select(
            F.col(entity_key).alias(_KNOWN),
            *(F.col(quote_identifier(name)).alias(f"{_STORED}{i}") for i, name in enumerate(self.in_place)),
        )
        differs = any_of(
            ~F.col(quote_identifier(name)).eqNullSafe(F.col(f"{_STORED}{i}")) for i, name in enumerate(self.in_place)
        )
        own = quote_identifier(self.load.table.column("entity_key").name)
        stale = now.join(before, (F.col(own) == F.col(_KNOWN)) & differs, "left_semi")
        stale = _without(stale, rows.select(F.col(own).alias(_KNOWN)), self.load.table.column("entity_key").name)
        if deleted is not None:
            stale = _without(stale, deleted.toDF(_KNOWN), self.load.table.column("entity_key").name)
        stale = self._checkpoint(stale)
        self.stale = stale.count()
        self.added += self.stale
        return rows.unionByName(stale, allowMissingColumns=True)

    def _open_rows(self) -> DataFrame:
        if self.target.history is None or self.load.history is None:
            return self.target.rawcore.frame()
        return open_versions(self.target.history, self.load.history)

    def _checkpoint(self, frame: DataFrame) -> DataFrame:
        self._checkpoints.append(frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK))
        return self._checkpoints[-1]

    def release(self) -> None:
        for frame in self._checkpoints:
            forget(frame)


def _hash(frame: DataFrame, components: tuple[HashComponent, ...], table: TableSpec) -> Column:
    """Return the hash of components of rows that have the columns of ``table``."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    return digest(hash_parts(components, types, types_by_name(table)))


def _referred_keys(frame: DataFrame, rows: ReferringRows, types: Mapping[str, str]) -> DataFrame:
    """Return the parent's business keys in a child's rows. Values that do not fit the parent's types have no row."""
    own = {field.name: field.dataType for field in frame.schema.fields}
    columns = [
        typed(F.col(quote_identifier(child)), types[parent], source=own[child]).alias(parent)
        for parent, child in rows.columns
    ]
    keys = frame.select(_hash(frame, rows.foreign_key, rows.table).alias(_GHOST), *columns)
    return keys.where(~any_of(F.col(quote_identifier(parent)).isNull() for parent, _ in rows.columns))


def _without(rows: DataFrame, known: DataFrame, key: str = _GHOST) -> DataFrame:
    """Return the rows whose key is not in the column ``__known`` of the other frame."""
    return rows.join(known, F.col(quote_identifier(key)) == F.col(_KNOWN), "left_anti")
