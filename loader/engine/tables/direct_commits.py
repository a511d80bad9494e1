"""Delta commits built directly: files to read, rows to mark as deleted, rows to add.

A load has already read the rows that it closes, with their files and places. Delta's public interfaces would
determine them once more: a MERGE reads the target twice, an overwrite queries the log, and each runs Spark jobs
before the first row is written. This module therefore builds the commit from the parts of Delta's own commands.
Delta's transaction writes the files, deletion vectors mark the deleted rows, and one commit contains both, with
application id and version. In a table without deletion vectors, the files with deleted rows are rewritten. The
tables are ordinary Delta tables: protocol, log and readers are Delta's own.

These parts are not a public interface: the versions are pinned, and ``tests/loader`` tests each part on real
tables. A transaction starts from the snapshot whose files were read and registers a read of the whole table:
if another writer commits in between, Delta refuses the commit (``TableMoved``).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.util import inheritable_thread_target

from architecture.domain.steps.features import DELETION_VECTORS, features_of
from elevata.core.canonical_json import sha256_hex
from loader.engine.pyspark_types import jvm_of
from loader.engine.tables.table_files import CONFLICTS, PLACE, Changes, TableFiles, rows_apart
from loader.engine.tables.tables import DeltaTable, metadata_of
from metadata.domain.sql import quote_identifier

_DELTA = "org.apache.spark.sql.delta"

# The place of a row is one number, because Spark joins by a single number fastest: the upper half is a hash of the
# file's name (the name itself may be longer than the row), the lower half the row index in the file.
_GONE = "__gone_place"
_HALF = 32
_ROW_BITS = (1 << _HALF) - 1
# Seed of Spark's xxhash64, and the number of salts to try until each file has a distinct number.
_SPARK_SEED, _SALTS = 42, 1000


@dataclass(frozen=True)
class DirectFiles(TableFiles):
    """Files of a table at one version, as listed in the log; read on first access."""

    session: SparkSession
    table: DeltaTable

    @cached_property
    def snapshot(self) -> Any:
        """Return the table's newest snapshot at the first access; all reads and the commit use it."""
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
        files = []
        for file in self.all:
            value = file.partitionValues().get(physical)
            if value.isDefined() and value.get() in values:
                files.append(file)
        return files

    def frame(self, files: list[Any] | None = None, *, placed: bool = False, salt: str | None = None) -> DataFrame:
        """Return the rows of these files, by default of all, and with ``placed`` the place of each row.

        ``salt`` is hashed with the files' names, by default one that gives these files distinct numbers. Every file
        is read: unlike ``DeltaTable.frame``, this runs no log query, which would skip files by statistics and cost
        jobs of its own.
        """
        files = self.all if files is None else files
        log = self.snapshot.deltaLog()
        none = _option(self.session)
        frame = DataFrame(log.createDataFrame(self.snapshot, _seq(self.session, files), False, none), self.session)
        if placed:
            salt = _number_files(self.session, [_name(file.path()) for file in files])[0] if salt is None else salt
            frame = frame if self.marks_rows else self._with_row_index(frame)
            number = F.shiftleft(F.xxhash64(F.lit(salt), "_metadata.file_name"), _HALF)
            return frame.select("*", number.bitwiseOR(F.col("_metadata.row_index")).alias(PLACE))
        return frame

    def rows(self) -> int | None:
        return rows_in(self.all)

    def content(self) -> str:
        """Return a digest of the table's files, which a commit without changes of rows leaves as it is."""
        return sha256_hex(sorted(_file_id(file) for file in self.all))[:32]

    def content_of(self, version: int) -> str:
        return self._at(version).content()

    def _at(self, version: int) -> "DirectFiles":
        """Return the files of an earlier version."""
        if version not in self._earlier:
            self._earlier[version] = DirectFiles(self.session, self.table)
            self._earlier[version].__dict__["snapshot"] = self.table.snapshot_of(version)
        return self._earlier[version]

    @cached_property
    def _earlier(self) -> dict[int, "DirectFiles"]:
        return {}

    def changed_rows(self, before: int, columns: Sequence[str]) -> DataFrame:
        """Return these columns of the rows that were added or removed since an earlier version.

        Files that both versions have are read only if rows were marked as deleted in between, and of these rows only
        the columns. So a row counts as changed if it was marked and added again without a change.
        """
        old, names = self._at(before), list(map(quote_identifier, columns))
        own, earlier = ({file.path(): file for file in files.all} for files in (self, old))
        added = self.frame([file for path, file in own.items() if path not in earlier])
        removed = [file for path, file in earlier.items() if path not in own]
        rows = rows_apart(added, old.frame(removed), columns) if removed else added.select(*names)
        shared = [(file, earlier[path]) for path, file in own.items() if path in earlier]
        marked = [
            _marked_between(self.session, self.snapshot.deltaLog(), *pair)
            for pair in shared
            if _file_id(pair[0]) != _file_id(pair[1])
        ]
        return rows.unionByName(self.frame(marked).select(*names)) if marked else rows

    def added_rows(self, before: int) -> DataFrame:
        """Return the rows of files that an earlier version does not have.

        Rows whose mark as deleted was removed since are not among them.
        """
        earlier = {file.path() for file in self._at(before).all}
        return self.frame([file for file in self.all if file.path() not in earlier])

    def commit(self, changes: Changes) -> bool:
        session, jvm, app_id = self.session, jvm_of(self.session), changes.app_id
        jvm.org.apache.spark.sql.SparkSession.setActiveSession(session._jsparkSession)
        log = self.snapshot.deltaLog()
        transaction = log.startTransaction(_option(session), _some(session, self.snapshot))
        transaction.readWholeTable()
        if app_id is not None:
            # Register a read of the application's version, so that another commit by the same application
            # conflicts. Delta's own txnVersion registers it as well, but replays the log for the version.
            transaction.readTxn().addOne(app_id)
            if self.table.committed_sequence(app_id, self.snapshot) >= changes.sequence:
                return False
        add, gone, gone_from = changes.add, changes.gone, changes.gone_from or []
        remove, overwrites = list(changes.remove or []), bool(changes.remove or gone is not None)
        if gone is not None and not self.marks_rows:
            files, rest = _remaining_rows(self, gone, gone_from)
            remove, gone = remove + files, None
            add = rest if add is None else add if rest is None else add.unionByName(rest)
        now = int(jvm.java.lang.System.currentTimeMillis())
        actions = [file.removeWithTimestamp(now, True) for file in remove]
        actions += [jvm.org.apache.spark.sql.delta.actions.Action.fromJson(action) for action in changes.written]
        with ThreadPoolExecutor(1) as executor:
            # Marking runs small jobs with pauses between them, so beside the writing it takes almost no extra time.
            marking = None
            if gone is not None:
                marking = executor.submit(_in_session(session, _mark_rows), session, log, gone, gone_from, now)
            if add is not None:
                files_added = transaction.writeFiles(add._jdf)
                actions += [files_added.apply(i) for i in range(files_added.length())]
        if marking is not None:
            actions += marking.result()
        versions = dict(changes.recorded) | ({app_id: changes.sequence} if app_id is not None else {})
        for name, version in versions.items():
            actions.append(jvm.org.apache.spark.sql.delta.actions.SetTransaction(name, version, _option(session, now)))
        if changes.last is not None:
            changes.last()
        try:
            transaction.commit(_seq(session, actions), _operation(session, overwrites=overwrites))
        except CONFLICTS as conflict:
            raise self.moved() from conflict
        return True

    def _with_row_index(self, frame: DataFrame) -> DataFrame:
        """Return the frame of a table without deletion vectors, with ``_metadata.row_index``.

        Delta's file format has this field only under a protocol with deletion vectors. Such a protocol is used for
        this frame only; the one in the table's log does not change.
        """
        marks = _module(self.session, f"{_DELTA}.DeletionVectorsTableFeature$")
        protocol = _module(self.session, f"{_DELTA}.actions.Protocol$").forTableFeature(marks)
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


def _in_session(session: SparkSession, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function for use in another thread, with this thread's Spark session and job group.

    Its jobs are cancelled together with the run.
    """

    def call(*arguments: Any) -> Any:
        jvm_of(session).org.apache.spark.sql.SparkSession.setActiveSession(session._jsparkSession)
        return function(*arguments)

    return inheritable_thread_target(session)(call)


def _remaining_rows(files: DirectFiles, gone: DataFrame, gone_from: list[Any]) -> tuple[list[Any], DataFrame | None]:
    """Return the files with rows at the places ``gone``, and the remaining rows of these files."""
    by_name = {_name(file.path()): file for file in gone_from}
    salt, names = _number_files(files.session, list(by_name))
    numbers = gone.select(F.shiftright(PLACE, _HALF).cast("int")).distinct().collect()
    affected = [by_name[names[row[0]]] for row in numbers]
    if not affected:
        return [], None
    places = gone.select(F.col(PLACE).alias(_GONE))
    rows = files.frame(affected, placed=True, salt=salt)
    return affected, rows.join(places, F.col(PLACE) == F.col(_GONE), "left_anti").drop(PLACE)


def _marked_between(session: SparkSession, log: Any, file: Any, earlier: Any) -> Any:
    """Return the file with those rows only that are marked as deleted in one of its two deletion vectors."""
    delta = f"{_DELTA}.deletionvectors"
    store = _module(session, f"{_DELTA}.storage.dv.DeletionVectorStore$").createInstance(log.newDeltaHadoopConf())
    new_bitmap = getattr(jvm_of(session), f"{delta}.RoaringBitmapArray")

    def marks(vector: Any) -> Any:
        if vector is None:
            return new_bitmap()
        return _module(session, f"{delta}.StoredBitmap$").create(vector, log.dataPath()).load(store)

    now, then = marks(file.deletionVector()), marks(earlier.deletionVector())
    changed = now.copy()
    changed.diff(then)
    then.diff(now)
    changed.merge(then)
    others = new_bitmap()
    # Statistics have the number of rows of each file with a deletion vector.
    records = (file if file.deletionVector() else earlier).numPhysicalRecords().get()
    others.addRange(_module(session, "scala.collection.immutable.Range$").apply(0, records))
    others.diff(changed)
    others.runOptimize()
    portable = _module(session, f"{delta}.RoaringBitmapArrayFormat$").Portable()
    descriptors = _module(session, f"{_DELTA}.actions.DeletionVectorDescriptor$")
    vector = descriptors.inlineInLog(others.serializeAsByteArray(portable), others.cardinality())
    return file.removeRows(vector, False, False)._1()


def _mark_rows(session: SparkSession, log: Any, gone: DataFrame, files: list[Any], now: int) -> list[Any]:
    """Return the actions that mark the rows at the places ``gone`` as deleted; a file without other rows is removed."""
    generator = _module(session, f"{_DELTA}.commands.DeletionVectorBitmapGenerator$")
    by_name = {_name(file.path()): file for file in files}
    _, numbers = _number_files(session, list(by_name))
    vectors = {
        name: file.deletionVector().serializeToBase64() for name, file in by_name.items() if file.deletionVector()
    }
    name = _lookup(numbers)[F.shiftright(PLACE, _HALF).cast("int")]
    places = gone.select(
        name.alias(generator.FILE_NAME_COL()),
        (_lookup(vectors)[name] if vectors else F.lit(None).cast("string")).alias(generator.FILE_DV_ID_COL()),
        F.col(PLACE).bitwiseAND(F.lit(_ROW_BITS)).alias(generator.ROW_INDEX_COL()),
    )
    results = generator.buildDeletionVectors(session._jsparkSession, places._jdf, log, 0)
    actions = []
    for i in range(results.length()):
        result = results.apply(i)
        file = by_name[result.filePath()]
        physical = file.numPhysicalRecords()
        if physical.isDefined() and physical.get() == result.deletionVector().cardinality():
            actions.append(file.removeWithTimestamp(now, True))
            continue
        pair = file.removeRows(result.deletionVector(), True, True)
        actions += [pair._1(), pair._2()]
    return actions


def _number_files(session: SparkSession, names: list[str]) -> tuple[str, dict[int, str]]:
    """Return the salt that gives each name a distinct number, and the names by number, as in placed frames.

    The salt depends on the names only, so a frame and its later commit agree.
    """
    jvm = jvm_of(session)
    to_utf8 = jvm.org.apache.spark.unsafe.types.UTF8String.fromString
    hash_text = jvm.org.apache.spark.sql.catalyst.expressions.XXH64.hashUTF8String
    texts = {name: to_utf8(name) for name in names}
    for salt in map(str, range(_SALTS)):
        seed = hash_text(to_utf8(salt), _SPARK_SEED)
        numbers = {_low_half(hash_text(text, seed)): name for name, text in texts.items()}
        if len(numbers) == len(texts):
            return salt, numbers
    raise RuntimeError("no salt gives every file of the table a distinct number")


def _low_half(number: int) -> int:
    """Return the lower half of a number as a signed number, as after a left and a right shift."""
    return ((number & _ROW_BITS) ^ (1 << (_HALF - 1))) - (1 << (_HALF - 1))


def _lookup(pairs: dict[Any, str]) -> Column:
    return F.create_map(*(F.lit(part) for pair in pairs.items() for part in pair))


def _file_id(file: Any) -> str:
    vector = file.deletionVector()
    return f"{file.path()} {vector.uniqueId()}" if vector else file.path()


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _operation(session: SparkSession, *, overwrites: bool) -> Any:
    """Return the operation that the log names; the load run is in the commit's ``userMetadata``."""
    mode = jvm_of(session).org.apache.spark.sql.SaveMode
    write = getattr(jvm_of(session), "org.apache.spark.sql.delta.DeltaOperations$Write")
    none = _option(session)
    return write(mode.Overwrite if overwrites else mode.Append, *([none] * 8))


def _seq(session: SparkSession, items: list[Any]) -> Any:
    """Return an immutable Scala sequence."""
    java_list = jvm_of(session).java.util.ArrayList()
    for item in items:
        java_list.add(item)
    return getattr(jvm_of(session), "scala.jdk.javaapi.CollectionConverters").asScala(java_list).toSeq()


def _option(session: SparkSession, value: int | None = None) -> Any:
    if value is None:
        return getattr(jvm_of(session), "scala.Option").empty()
    return _some(session, jvm_of(session).java.lang.Long.valueOf(value))


def _some(session: SparkSession, value: Any) -> Any:
    return getattr(jvm_of(session), "scala.Option").apply(value)


def _module(session: SparkSession, name: str) -> Any:
    return getattr(getattr(jvm_of(session), name), "MODULE$")
