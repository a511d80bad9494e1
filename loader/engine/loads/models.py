"""Loads of models: the SELECT over the tables as they are, written as one commit of the model's table.

The commit records the content of every table that was read. A later run computes nothing if no content moved, and
only the rows that the model's increment selects if it declares one (``metadata.domain.models.increment``).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import and_

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from elevata.core.words import counted
from loader.contract.manifest.loads import ModelLoad
from loader.contract.refusals import Refusal
from loader.domain.models import reason_for_all
from loader.engine.compared_texts import compared, types_by_name
from loader.engine.expressions import any_of
from loader.engine.historization.model_queries import Input, failures_of, model_frame, open_inputs
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.loads.dataset_load import Outcome, Task, check_quality
from loader.engine.loads.tries import retry
from loader.engine.samples import SAMPLES
from loader.engine.session import USER_METADATA, persisted
from loader.engine.tables.commits import commit, open_files
from loader.engine.tables.run_commits import RunCommit
from loader.engine.tables.table_files import PLACE, TableFiles, misses_version
from loader.engine.tables.tables import DeltaTable
from metadata.domain.models.increment import CHANGED_KEYS, KEY, WINDOW, Increment
from metadata.domain.sql import quote_identifier
from metadata.domain.types import parse, spark_type

# Notes of a model's commit.
INPUTS, DIGEST = "inputs", "model"
_NEW, _OLD = "n", "o"


@dataclass(frozen=True)
class Known:
    """Record of the inputs' contents and versions in a model's newest commit; ``at`` is the time of its run."""

    contents: Mapping[str, str]
    versions: Mapping[str, int]
    digest: str
    run_id: str
    at: datetime | None = None

    @classmethod
    def of(cls, last_run: RunCommit | None) -> "Known":
        notes = last_run.notes if last_run is not None and not last_run.foreign else {}
        inputs = json.loads(notes.get(INPUTS, "{}"))
        return cls(
            {key: content for key, (content, _) in inputs.items()},
            {key: version for key, (_, version) in inputs.items()},
            notes.get(DIGEST, ""),
            last_run.run_id if last_run is not None else "",
            datetime.fromisoformat(last_run.at) if last_run is not None and last_run.at else None,
        )

    def moved(self, inputs: list[Input]) -> list[Input]:
        """Return the inputs with other rows than those that the commit was computed from."""
        return [item for item in inputs if self.contents.get(item.spec.key) != item.content]


def load_model(task: Task, load: ModelLoad) -> Outcome:
    """Compute the model's rows and commit them; read again if another writer changed the table meanwhile."""
    outcome = Outcome()
    retry(lambda: _load_model(task, load, outcome), outcome)
    return outcome


def _load_model(task: Task, load: ModelLoad, outcome: Outcome) -> None:
    session = task.session(load.sequence)
    # Without a key, equal rows are replaced together.
    key = _key_of(load) or tuple(column.name for column in load.table.columns)
    target = open_files(session, DeltaTable(session, task.warehouse, load.table.key), key)
    if outcome.version_before is None:
        outcome.version_before = target.version
    known = Known.of(target.table.newest_run_commit())
    task.phase("comparing inputs")
    inputs = open_inputs(session, task.warehouse, load.query, load.name)
    moved = known.moved(inputs)
    is_same = known.digest == load.digest and not load.full
    if is_same and not moved and load.needs_changes:
        outcome.unchanged_since = known.run_id
        outcome.counts = {"rows": target.rows() or 0}
        outcome.version_after = target.version
        return
    task.phase("computing")
    increment = Increment.from_dict(load.increment) if is_same else Increment()
    result = ModelRows(session, load, inputs, target, increment, known, moved, task.manifest.load_timestamp)
    try:
        with failures_of(load.name):
            result.prepare()
            result.check(task, outcome)
            contents = {item.spec.key: [item.content, item.files.version] for item in inputs}
            notes = {INPUTS: json.dumps(contents, sort_keys=True), DIGEST: load.digest}
            session.conf.set(USER_METADATA, task.commit_metadata(load.sequence, notes=notes))
            task.phase("writing")
            result.write()
    finally:
        result.release()
    outcome.counts = result.counts
    outcome.warnings += result.warnings
    outcome.version_after = DeltaTable(session, task.warehouse, load.table.key).version()


def _key_of(load: ModelLoad) -> tuple[str, ...]:
    return tuple(column.name for column in load.table.of_purpose("business_key"))


class ModelRows:
    """Rows that a load adds to a model's table, and those that they replace."""

    def __init__(
        self,
        session: SparkSession,
        load: ModelLoad,
        inputs: list[Input],
        target: TableFiles,
        increment: Increment,
        known: Known,
        moved: list[Input],
        load_timestamp: str,
    ):
        self.session, self.load, self.inputs, self.target = session, load, inputs, target
        self.increment, self.known, self.moved = increment, known, moved
        self.at = datetime.fromisoformat(load_timestamp)
        self.counts: dict[str, int] = {}
        self.warnings: list[str] = []
        self._kept: list[DataFrame] = []
        self._add: DataFrame | None = None
        self._gone: DataFrame | None = None
        self._replaces_all = False

    def prepare(self) -> None:
        """Compute the rows to add and to replace; raise Refusal for a key that occurs twice."""
        by = self.increment.by if self.target.all else ""
        keys = self._keys() if by == CHANGED_KEYS else None
        if by == KEY:
            self._by_key()
        elif by == WINDOW:
            self._by_window()
        elif keys is not None:
            self._by_changed_keys(keys)
        else:
            self._add = self._checked(self._rows())
            self._replaces_all = True

    def check(self, task: Task, outcome: Outcome) -> None:
        """Run the quality checks on the rows to add. Raise Refusal QUALITY_STOPPED if one stops the load.

        The rows are computed before, so that an error of the SELECT is not one of each check.
        """
        if self.load.quality and self._add is not None:
            self._add = self._keep(self._add)
            self._add.count()
            check_quality(task, self.session, self.load, self._add, outcome, self._table())

    def _table(self) -> DataFrame | None:
        """Return all rows of the table after the load; None if these are the rows to add."""
        if self._add is None or self._gone is None:
            return None
        rows = self.target.frame(placed=True).join(self._gone, PLACE, "left_anti")
        return rows.select(*map(quote_identifier, self._add.columns)).unionByName(self._add)

    def write(self) -> None:
        commit(
            self.target,
            self.load.table.key,
            self.load.sequence,
            add=self._add,
            remove=self.target.all if self._replaces_all else None,
            gone=self._gone,
            gone_from=self.target.all if self._gone is not None else None,
        )
        after = open_files(self.session, self.target.table).rows()
        self.counts = {"rows": after if after is not None else -1} | self.counts

    def release(self) -> None:
        for frame in self._kept:
            frame.unpersist()

    def _rows(self, only: Mapping[str, DataFrame] | None = None) -> DataFrame:
        """Return the rows of the SELECT with the columns of the table; ``only`` replaces inputs by their views."""
        frames = {item.view: item.frame() for item in self.inputs} | dict(only or {})
        frame = model_frame(self.session, self.load.query, frames, self.load.name)
        return frame.select(*(
            F.col(quote_identifier(column.name)).cast(spark_type(parse(column.type))).alias(column.name)
            for column in self.load.table.columns
        ))  # fmt: skip

    def _keep(self, frame: DataFrame) -> DataFrame:
        kept = persisted(frame, StorageLevel.MEMORY_AND_DISK_DESER)
        self._kept.append(kept)
        return kept

    def _checked(self, rows: DataFrame) -> DataFrame:
        """Return the rows. Raise Refusal KEY_REPEATED or NULL_KEY for rows that break the declared key."""
        key = [quote_identifier(name) for name in _key_of(self.load)]
        if not key:
            return rows
        rows = self._keep(rows)
        types = types_by_name(self.load.table)
        pairs = zip(_key_of(self.load), key, strict=True)
        values = (compared(F.col(quoted), types.get(name, "")).alias(name) for name, quoted in pairs)
        groups = rows.groupBy(*values).agg(F.count(F.lit(1)).alias("__rows"))
        wrong = groups.where((F.col("__rows") > 1) | any_of(F.col(name).isNull() for name in key))
        examples = wrong.limit(SAMPLES + 1).collect()
        if not examples:
            return rows
        samples = tuple(", ".join(str(value) for value in row[:-1]) for row in examples[:SAMPLES])
        if any(value is None for row in examples for value in row[:-1]):
            raise Refusal(
                "NULL_KEY",
                f"{self.load.name}: rows of the SELECT have no value in the declared key",
                samples=samples,
                hint="Exclude these rows, or declare another key.",
            )
        count = wrong.count() if len(examples) > SAMPLES else len(examples)
        raise Refusal(
            "KEY_REPEATED",
            f"{self.load.name}: {counted(count, 'key')} of the SELECT occur in more than one row",
            count=count,
            samples=samples,
            hint="A join multiplies rows: join by the whole key of the other dataset, aggregate first, or declare "
            "another key.",
        )

    def _by_key(self) -> None:
        """Add rows whose key is new or whose values differ; rows of absent keys stay."""
        rows, key = self._checked(self._rows()), _key_of(self.load)
        changed = self._keep(self._joined(rows, key).where(F.col(PLACE).isNull() | self._differ()))
        self._add, self._gone = self._new(changed), changed.where(F.col(PLACE).isNotNull()).select(PLACE)
        replaced = self._gone.count()
        self.counts = {"new": changed.count() - replaced, "changed": replaced}

    def _joined(self, rows: DataFrame, key: tuple[str, ...]) -> DataFrame:
        """Return rows with those of the table that have the same key, and the places of these."""
        placed = self.target.frame(placed=True)
        new = rows.select(*(F.col(quote_identifier(name)).alias(f"{_NEW}_{name}") for name in rows.columns))
        old = placed.select(*(F.col(quote_identifier(name)).alias(f"{_OLD}_{name}") for name in rows.columns), PLACE)
        return new.join(old, _all_of(_same(name) for name in key), "left")

    def _differ(self) -> Column:
        return ~_all_of(_same(column.name) for column in self.load.table.columns)

    def _new(self, joined: DataFrame) -> DataFrame:
        names = [column.name for column in self.load.table.columns]
        return joined.select(*(F.col(quote_identifier(f"{_NEW}_{name}")).alias(name) for name in names))

    def _by_window(self) -> None:
        """Replace the rows whose column lies in the last days before this run, or before the last one if earlier.

        Of a declared key, the stored row is replaced wherever it lies.
        """
        column = F.col(quote_identifier(self.increment.column))
        start = self.increment.start(self.at, self.known.at)
        inside = column >= F.lit(start).cast(self._type_of(self.increment.column))
        self._add = self._checked(self._rows().where(inside))
        placed = self.target.frame(placed=True)
        if key := _key_of(self.load):
            # A row whose date moved into the window is stored outside of it.
            own = (F.col(quote_identifier(name)).alias(f"__k{i}") for i, name in enumerate(key))
            new = self._add.select(*own, F.lit(True).alias("__is_new"))
            placed = placed.join(new, _key_condition(placed, new, key), "left")
            inside = inside | F.col("__is_new")
        self._gone = placed.where(inside).select(PLACE)

    def _type_of(self, name: str) -> str:
        return next(spark_type(parse(column.type)) for column in self.load.table.columns if column.name == name)

    def _keys(self) -> DataFrame | None:
        """Return the keys with changed rows in the declared input; None, with a warning, if they do not suffice."""
        moved = [(item.view, item.spec.qualified_name) for item in self.moved]
        reason = reason_for_all(self.load.query, self.increment.input, moved)
        keys = None if reason else self._changed_keys()
        if keys is None:
            reason = reason or f"the rows of {self.increment.input} at the last load are no longer kept"
            self.warnings.append(f"Computed anew as a whole: {reason}.")
        return keys

    def _changed_keys(self) -> DataFrame | None:
        """Return the keys with changed rows in the only input that changed; None if its former rows are gone."""
        (source,) = self.moved
        version, content = self.known.versions[source.spec.key], self.known.contents[source.spec.key]
        try:
            if not source.has(version, content):
                return None
            keys = self._keep(source.changed_rows(version, list(self.increment.columns)).distinct())
            self.counts = {"keys": keys.count()}
        except JAVA_ERRORS as failure:
            if not misses_version(failure):
                raise
            return None
        return keys

    def _by_changed_keys(self, keys: DataFrame) -> None:
        """Replace the rows with these keys."""
        (source,) = self.moved
        own = [F.col(quote_identifier(name)).alias(f"__k{i}") for i, name in enumerate(self.increment.columns)]
        changed = keys.select(*own)
        frame = source.frame()
        condition = _key_condition(frame, changed, list(self.increment.columns))
        self._add = self._checked(self._rows({source.view: frame.join(changed, condition, "left_semi")}))
        placed = self.target.frame(placed=True)
        condition = _key_condition(placed, changed, list(self.increment.columns.values()))
        self._gone = placed.join(changed, condition, "left_semi").select(PLACE)


def _key_condition(frame: DataFrame, changed: DataFrame, names: Sequence[str]) -> Column:
    pairs = ((frame[quote_identifier(name)], changed[f"__k{i}"]) for i, name in enumerate(names))
    return _all_of(left.eqNullSafe(right) for left, right in pairs)


def _same(name: str) -> Column:
    return F.col(quote_identifier(f"{_NEW}_{name}")).eqNullSafe(F.col(quote_identifier(f"{_OLD}_{name}")))


def _all_of(conditions: Iterator[Column]) -> Column:
    return reduce(and_, conditions, F.lit(True))
