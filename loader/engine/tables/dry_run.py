"""Dry run on shallow clones.

The clones are in a separate folder of the warehouse and are published in schemas of their own, so tables and
names of the warehouse are unchanged. The next dry run removes the clones of an interrupted one.
"""

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from architecture.domain.steps.statements import catalog_name, place_of
from architecture.domain.steps.step import DROP_VIEWS, PUBLISH_VIEW
from loader.contract.manifest.executions import DownstreamQuery, DryRunManifest
from loader.domain.catalogs.table_names import query_of, renamed_schemas, with_other_names
from loader.engine.pyspark_types import jvm_of
from loader.engine.session import dataset_session
from loader.engine.tables.sizes import size_of
from loader.engine.tables.steps import execute, make_room
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sensitivity import MASK
from metadata.domain.sql import quote_identifier, quote_text

log = logging.getLogger(__name__)

FOLDER = ".dry_runs"
_VIEW_STEPS = (PUBLISH_VIEW, DROP_VIEWS)
_HASH = re.compile(r"[0-9a-f]{64}")
_active: set[str] = set()
_lock = threading.Lock()


def dry_run(
    spark: SparkSession,
    warehouse: str,
    manifest: DryRunManifest,
    emit: Callable[..., None],
    canceled: threading.Event | None = None,
) -> dict[str, Any] | None:
    """Run the steps on clones and return the results; None if it was cancelled. The clones are dropped in any case.

    They are ``succeeded``, ``error`` of the failed step, ``steps`` (ordinal, status, error, seconds), ``tables`` by
    key with ``before`` and ``after`` (name, columns, rows, bytes, samples; None without a table), and
    ``queries`` (name, ``breaks``, and for ``before`` and ``after`` None or the error).
    """
    dry_run = _DryRun(dataset_session(spark, user_metadata=""), warehouse.rstrip("/"), manifest)
    with _lock:
        _active.add(dry_run.folder)
    try:
        dry_run.clear_what_remained()
        return dry_run.perform(emit, canceled or threading.Event())
    except Exception:
        if canceled is not None and canceled.is_set():  # its Spark jobs were cancelled
            return None
        raise
    finally:
        dry_run.drop_clones()
        with _lock:
            _active.discard(dry_run.folder)


def _prefix(name: str) -> str:
    return f"__dry_run_{name}_"


@dataclass
class _DryRun:
    session: SparkSession
    warehouse: str
    manifest: DryRunManifest

    @property
    def name(self) -> str:
        return "".join(character for character in self.manifest.dry_run if character.isalnum())

    @property
    def folder(self) -> str:
        return f"{self.warehouse}/{FOLDER}/{self.name}"

    @property
    def prefix(self) -> str:
        return _prefix(self.name)

    def perform(self, emit: Callable[..., None], canceled: threading.Event) -> dict[str, Any] | None:
        """Return the results, or None as soon as the dry run is cancelled."""
        changed = dict.fromkeys(step.table.key for step in self.manifest.steps)
        names = self._clone([*changed, *(key for key in self.manifest.tables if key not in changed)], canceled)
        before = self._describe_all(changed, canceled)
        if canceled.is_set():
            return None
        published = list(names.values())
        broken_before = self._explain(self.manifest.queries, published)
        # Views are run as queries; publishing them would replace those of the warehouse.
        chosen = {place: step for place, step in enumerate(self.manifest.steps) if step.op not in _VIEW_STEPS}
        places, results = list(chosen), []

        def hear(event: str, **fields: Any) -> None:
            fields["ordinal"] = places[fields["ordinal"]]
            emit(event, **fields)
            if event == "step_finished":
                results.append({name: fields[name] for name in ("ordinal", "status", "error", "seconds")})

        succeeded = execute(
            self.session,
            self.folder,
            list(chosen.values()),
            hear,
            execution=f"dry run {self.manifest.dry_run}",
            canceled=canceled,
            schema_prefix=self.prefix,
            sensitive=self.manifest.sensitive,
        )
        after = self._describe_all(changed, canceled)
        if canceled.is_set():
            return None
        # Former names stay published, because a query with such a name must not read the table of the warehouse.
        published += self._names(changed).values()
        return {
            "succeeded": succeeded,
            "error": next((result["error"] for result in results if result["error"]), None),
            "steps": results,
            "tables": {key: {"before": before[key], "after": after[key]} for key in changed},
            "queries": self._compare_queries(broken_before, published),
        }

    def _table(self, key: str) -> DeltaTable:
        return DeltaTable(self.session, self.folder, key)

    def _describe_all(self, keys: Iterable[str], canceled: threading.Event) -> dict[str, dict[str, Any] | None]:
        """Return the tables by key; without those left when the dry run is cancelled."""
        return {key: self._describe(key) for key in keys if not canceled.is_set()}

    def _clone(self, keys: list[str], canceled: threading.Event) -> dict[str, str]:
        """Clone the existing tables and publish the clones, until it is cancelled; return their names by key."""
        for key in keys:
            if canceled.is_set():
                return {}
            if DeltaTable(self.session, self.warehouse, key).exists():
                source, clone = place_of(key, self.warehouse), place_of(key, self.folder)
                self.session.sql(f"CREATE TABLE {clone} SHALLOW CLONE {source}")
        names = self._names(keys)
        for key, published in names.items():
            name, location = catalog_name(published, self.prefix), self._table(key).location
            schema = quote_identifier(self.prefix + published.partition(".")[0])
            self.session.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            make_room(self.session, name, location)
            self.session.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION {quote_text(location)}")
        return names

    def _names(self, keys: Any) -> dict[str, str]:
        """Return the names of the clones by key; dropped ones have no name."""
        observed = ((key, self._table(key).observe()) for key in keys)
        return {key: table.qualified_name for key, table in observed if table is not None and not table.dropped}

    def _describe(self, key: str) -> dict[str, Any] | None:
        table = self._table(key)
        observed = table.observe()
        if observed is None or observed.dropped:
            return None
        frame = table.frame()
        size = size_of(table)
        shown = [F.col(quote_identifier(name)).cast("string").alias(name) for name in frame.columns]
        rows = frame.select(*shown).limit(self.manifest.samples).collect()
        masked = {column.name for column in observed.columns if column.key in self.manifest.sensitive}
        return {
            "name": observed.qualified_name,
            "columns": [asdict(column) for column in observed.columns],
            "rows": size["rows"] if size["rows"] is not None else table.rows(),
            "bytes": size["bytes"],
            "samples": [_without_values(frame.columns, row, masked) for row in rows],
        }

    def _compare_queries(self, before: dict[str, str | None], names: list[str]) -> list[dict[str, Any]]:
        """Return the errors of each query before and after the steps.

        A query breaks if it worked before the steps, or must work after them, and fails.
        """
        after = self._explain(self.manifest.queries, names)
        new = self._explain(self.manifest.after, names)
        compared = [
            {"name": name, "before": error, "after": after[name], "breaks": error is None and after[name] is not None}
            for name, error in before.items()
        ]
        return compared + [{"name": name, "after": error, "breaks": error is not None} for name, error in new.items()]

    def _explain(self, queries: tuple[DownstreamQuery, ...], names: list[str]) -> dict[str, str | None]:
        """Return for each query None if Spark can plan it over the clones, else the error."""
        renamed = renamed_schemas(names, self.prefix)
        errors: dict[str, str | None] = {}
        for query in queries:
            sql = query_of(query.sql)
            if not sql:
                continue
            try:
                self.session.sql(with_other_names(sql, renamed)).schema  # noqa: B018  planning it is the question
                errors[query.name] = None
            except Exception as failure:  # any message of Spark is the result
                errors[query.name] = str(failure).strip().splitlines()[0].replace(self.prefix, "")
        return errors

    def drop_clones(self, name: str = "") -> None:
        """Remove all clones and schemas of a dry run, by default this one.

        Its folder is deleted last, since it shows the next dry run that there is something to remove.
        """
        name = name or self.name
        for schema in self._schemas(_prefix(name)):
            self.session.sql(f"DROP SCHEMA IF EXISTS {quote_identifier(schema)} CASCADE")
        self._delete(f"{self.warehouse}/{FOLDER}/{name}")

    def clear_what_remained(self) -> None:
        """Remove the clones of interrupted dry runs; only one runner uses the warehouse."""
        jvm = jvm_of(self.session)
        root = jvm.org.apache.hadoop.fs.Path(f"{self.warehouse}/{FOLDER}")
        files = root.getFileSystem(self.session._jsc.hadoopConfiguration())
        if not files.exists(root):
            return
        with _lock:
            busy = {folder.rpartition("/")[2] for folder in _active} - {self.name}
        for status in files.listStatus(root):
            name = status.getPath().getName()
            if name not in busy:
                log.warning("removing the clones of an interrupted dry run: %s", name)
                self.drop_clones(name)

    def _schemas(self, prefix: str) -> list[str]:
        schemas = (row[0] for row in self.session.sql("SHOW SCHEMAS").collect())
        return [name for name in schemas if name.lower().startswith(prefix.lower())]

    def _delete(self, folder: str) -> None:
        path = jvm_of(self.session).org.apache.hadoop.fs.Path(folder)
        path.getFileSystem(self.session._jsc.hadoopConfiguration()).delete(path, True)


def _without_values(names: Sequence[str], row: Sequence[str | None], masked: Collection[str]) -> list[str | None]:
    """Return a row with the values of masked columns replaced.

    Hashes in such a row are masked, too, since a hash confirms a guessed value.
    """
    if not masked:
        return list(row)
    return [
        MASK if name in masked or (value and _HASH.fullmatch(value)) else value
        for name, value in zip(names, row, strict=True)
    ]
