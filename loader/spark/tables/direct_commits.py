"""Delta commits built directly: files to read, rows to mark as deleted, rows to add.

Delta's public interfaces determine the affected rows themselves: a MERGE reads the target twice, an overwrite
queries the log, and each costs Spark jobs before the first row is written. A load has already read the rows
it closes, with their files and places. So it builds the commit itself from the parts of Delta's own commands:
Delta's transaction writes the files, deleted rows are marked in deletion vectors, and one commit with the
table's transaction id and number contains everything. Protocol, log and readers are unchanged Delta. A table
without deletion vectors gets the files anew that hold deleted rows.

These parts are not a public interface: the versions are pinned, and ``tests/loader`` tests each part on real
tables. A transaction starts from the snapshot whose files were read and registers a read of the whole table:
if another writer commits in between, Delta refuses the commit (``TableMoved``).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.util import inheritable_thread_target

from architecture.domain.steps.features import DELETION_VECTORS, features_of
from loader.spark.tables.table_files import CONFLICTS, PLACE, Changes, TableFiles
from loader.spark.tables.tables import DeltaTable, metadata_of

# Place of a row as one number: half of it is a hash of its file's name (the name itself would weigh more than the
# row), the other half its position in the file. Spark joins by a single number fastest.
_GONE = "__gone_place"
_HALF = 32
_ROW_BITS = (1 << _HALF) - 1
# Seed of Spark's xxhash64, and the number of salts tried until every file has a number of its own.
_SPARK_SEED, _SALTS = 42, 1000


@dataclass(frozen=True)
class DirectFiles(TableFiles):
    """Files of a table at one version, as listed in the log; read on first access."""

    session: SparkSession
    table: DeltaTable

    @cached_property
    def snapshot(self) -> Any:
        """Return the newest snapshot as of the first access; reads and the commit use this one."""
        return self.table.snapshot()

    @property
    def version(self) -> int:
        return self.snapshot.version()

    @cached_property
    def all(self) -> list[Any]:
        """Return Delta's AddFile entries, from the checksum file if it lists them (small tables), else from the log."""
        checksum = self.snapshot.checksumOpt()
        known = checksum.get().allFiles() if checksum.isDefined() else checksum
        if known.isDefined():
            files = known.get()
            return [files.apply(i) for i in range(files.length())]
        return list(self.snapshot.allFiles().collectAsList())

    @property
    def marks_rows(self) -> bool:
        """Return True if the table marks deleted rows in deletion vectors."""
        return DELETION_VECTORS in features_of(metadata_of(self.snapshot).properties)

    def where(self, column: str, *values: str) -> list[Any]:
        """Return the files of the partitions with these values."""
        physical = self.table.physical_names()[column]
        found = []
        for file in self.all:
            held = file.partitionValues().get(physical)
            if held.isDefined() and held.get() in values:
                found.append(file)
        return found

    def frame(self, files: list[Any] | None = None, *, placed: bool = False, salt: str | None = None) -> DataFrame:
        """Return the rows of these files, by default of all, and with ``placed`` the place of each row.

        ``salt`` is that of the places, by default the one that tells these files apart. The file list is known,
        unlike for ``DeltaTable.frame``, whose log query runs jobs of its own and skips files by statistics. This
        reads every file.
        """
        files = self.all if files is None else files
        log = self.snapshot.deltaLog()
        none = _option(self.session)
        frame = DataFrame(log.createDataFrame(self.snapshot, _seq(self.session, files), False, none), self.session)
        if placed:
            salt = _numbered(self.session, [_name(file.path()) for file in files])[0] if salt is None else salt
            frame = frame if self.marks_rows else self._with_row_index(frame)
            number = F.shiftleft(F.xxhash64(F.lit(salt), "_metadata.file_name"), _HALF)
            return frame.select("*", number.bitwiseOR(F.col("_metadata.row_index")).alias(PLACE))
        return frame

    def rows(self) -> int | None:
        return rows_in(self.all)

    def commit(self, changes: Changes) -> bool:
        session, jvm, app_id = self.session, self.session._jvm, changes.app_id
        jvm.org.apache.spark.sql.SparkSession.setActiveSession(session._jsparkSession)
        log = self.snapshot.deltaLog()
        transaction = log.startTransaction(_option(session), _some(session, self.snapshot))
        transaction.readWholeTable()
        if app_id is not None:
            # As the transaction's txnVersion does, so that another commit under the same application conflicts,
            # too; but that one replays the log for the number.
            transaction.readTxn().addOne(app_id)
            if self.table.committed_sequence(app_id, self.snapshot) >= changes.sequence:
                return False
        add, gone, gone_from = changes.add, changes.gone, changes.gone_from or []
        remove, overwrites = list(changes.remove or []), bool(changes.remove or gone is not None)
        if gone is not None and not self.marks_rows:
            touched, kept = _kept(self, gone, gone_from)
            remove, gone = remove + touched, None
            add = kept if add is None else add if kept is None else add.unionByName(kept)
        now = int(jvm.java.lang.System.currentTimeMillis())
        actions = [file.removeWithTimestamp(now, True) for file in remove]
        actions += [jvm.org.apache.spark.sql.delta.actions.Action.fromJson(action) for action in changes.written]
        with ThreadPoolExecutor(1) as beside:
            # Marking is small jobs with pauses between them: in parallel with writing it costs next to nothing.
            marked = None
            if gone is not None:
                marked = beside.submit(_as_here(session, _marked), session, log, gone, gone_from, now)
            if add is not None:
                written = transaction.writeFiles(add._jdf)
                actions += [written.apply(i) for i in range(written.length())]
        if marked is not None:
            actions += marked.result()
        numbered = dict(changes.recorded) | ({app_id: changes.sequence} if app_id is not None else {})
        for name, number in numbered.items():
            actions.append(jvm.org.apache.spark.sql.delta.actions.SetTransaction(name, number, _option(session, now)))
        if changes.last is not None:
            changes.last()
        try:
            transaction.commit(_seq(session, actions), _operation(session, overwrites=overwrites))
        except CONFLICTS as conflict:
            raise self.moved() from conflict
        return True

    def _with_row_index(self, frame: DataFrame) -> DataFrame:
        """Return the frame of a table without deletion vectors, with ``_metadata.row_index``.

        Delta's file format has this field only under a protocol with deletion vectors; the log's stays as it is.
        """
        delta = "org.apache.spark.sql.delta"
        marks = _module(self.session, f"{delta}.DeletionVectorsTableFeature$")
        protocol = _module(self.session, f"{delta}.actions.Protocol$").forTableFeature(marks)
        protocol = self.snapshot.protocol().merge(_seq(self.session, [protocol]))
        read = frame._jdf.queryExecution().analyzed().relation()
        relation = read.copy(
            read.location(),
            read.partitionSchema(),
            read.dataSchema(),
            read.bucketSpec(),
            self.snapshot.deltaLog().fileFormat(protocol, self.snapshot.metadata()),
            read.options(),
            self.session._jsparkSession,
        )
        return DataFrame(self.session._jsparkSession.baseRelationToDataFrame(relation), self.session)


def rows_in(files: list[Any]) -> int | None:
    """Return the number of rows in the files by their statistics, None if these are missing; no file is read."""
    counts = [file.numLogicalRecords() for file in files]
    return sum(count.get() for count in counts) if all(count.isDefined() for count in counts) else None


def _as_here(session: SparkSession, do: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function for use in another thread, with this thread's Spark session and job group.

    Its jobs are cancelled together with the run.
    """

    def work(*arguments: Any) -> Any:
        session._jvm.org.apache.spark.sql.SparkSession.setActiveSession(session._jsparkSession)
        return do(*arguments)

    return inheritable_thread_target(session)(work)


def _kept(files: DirectFiles, gone: DataFrame, gone_from: list[Any]) -> tuple[list[Any], DataFrame | None]:
    """Return the files that hold rows at the places ``gone``, and the other rows of these files."""
    by_name = {_name(file.path()): file for file in gone_from}
    salt, names = _numbered(files.session, list(by_name))
    numbers = gone.select(F.shiftright(PLACE, _HALF).cast("int")).distinct().collect()
    touched = [by_name[names[row[0]]] for row in numbers]
    if not touched:
        return [], None
    places = gone.select(F.col(PLACE).alias(_GONE))
    rows = files.frame(touched, placed=True, salt=salt)
    return touched, rows.join(places, F.col(PLACE) == F.col(_GONE), "left_anti").drop(PLACE)


def _marked(session: SparkSession, log: Any, gone: DataFrame, files: list[Any], now: int) -> list[Any]:
    """Return the actions that mark rows as deleted; a file without remaining rows is removed."""
    generator = _module(session, "org.apache.spark.sql.delta.commands.DeletionVectorBitmapGenerator$")
    by_name = {_name(file.path()): file for file in files}
    _, numbers = _numbered(session, list(by_name))
    vectors = {
        name: file.deletionVector().serializeToBase64() for name, file in by_name.items() if file.deletionVector()
    }
    name = _lookup(numbers)[F.shiftright(PLACE, _HALF).cast("int")]
    places = gone.select(
        name.alias(generator.FILE_NAME_COL()),
        (_lookup(vectors)[name] if vectors else F.lit(None).cast("string")).alias(generator.FILE_DV_ID_COL()),
        F.col(PLACE).bitwiseAND(F.lit(_ROW_BITS)).alias(generator.ROW_INDEX_COL()),
    )
    built = generator.buildDeletionVectors(session._jsparkSession, places._jdf, log, 0)
    actions = []
    for i in range(built.length()):
        result = built.apply(i)
        file = by_name[result.filePath()]
        physical = file.numPhysicalRecords()
        if physical.isDefined() and physical.get() == result.deletionVector().cardinality():
            actions.append(file.removeWithTimestamp(now, True))
            continue
        pair = file.removeRows(result.deletionVector(), True, True)
        actions += [pair._1(), pair._2()]
    return actions


def _numbered(session: SparkSession, names: list[str]) -> tuple[str, dict[int, str]]:
    """Return the salt that gives each name a distinct number, and the names by number, as in placed frames.

    The salt depends on the names only, so a frame and its later commit agree.
    """
    jvm = session._jvm
    text = jvm.org.apache.spark.unsafe.types.UTF8String.fromString
    hashed = jvm.org.apache.spark.sql.catalyst.expressions.XXH64.hashUTF8String
    texts = {name: text(name) for name in names}
    for salt in map(str, range(_SALTS)):
        salted = hashed(text(salt), _SPARK_SEED)
        numbers = {_low_half(hashed(name, salted)): of for of, name in texts.items()}
        if len(numbers) == len(texts):
            return salt, numbers
    raise RuntimeError("the names of a table's files could not be told apart")


def _low_half(number: int) -> int:
    """Return the lower half of a number as a signed number, as after a left and right shift."""
    return ((number & _ROW_BITS) ^ (1 << (_HALF - 1))) - (1 << (_HALF - 1))


def _lookup(pairs: dict[Any, str]) -> Column:
    return F.create_map(*(F.lit(part) for pair in pairs.items() for part in pair))


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _operation(session: SparkSession, *, overwrites: bool) -> Any:
    """Return the operation for the log; the run is in the commit's ``userMetadata``."""
    mode = session._jvm.org.apache.spark.sql.SaveMode
    write = getattr(session._jvm, "org.apache.spark.sql.delta.DeltaOperations$Write")
    none = _option(session)
    return write(mode.Overwrite if overwrites else mode.Append, *([none] * 8))


def _seq(session: SparkSession, items: list[Any]) -> Any:
    """Return an immutable Scala sequence."""
    held = session._jvm.java.util.ArrayList()
    for item in items:
        held.add(item)
    return getattr(session._jvm, "scala.jdk.javaapi.CollectionConverters").asScala(held).toSeq()


def _option(session: SparkSession, value: int | None = None) -> Any:
    if value is None:
        return getattr(session._jvm, "scala.Option").empty()
    return _some(session, session._jvm.java.lang.Long.valueOf(value))


def _some(session: SparkSession, value: Any) -> Any:
    return getattr(session._jvm, "scala.Option").apply(value)


def _module(session: SparkSession, name: str) -> Any:
    return getattr(getattr(session._jvm, name), "MODULE$")
