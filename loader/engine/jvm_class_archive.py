"""Archive of Spark's loaded classes for faster JVM starts (``python -m loader.engine.jvm_class_archive FOLDER``).

Reading and verifying some twenty thousand classes takes a third of a runner's start and first load. With the archive
(class data sharing), a JVM maps the classes into memory. A JVM that it does not fit ignores it and reads the jars.
"""

import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext

from loader.domain.reference.cases import parse_cases
from loader.engine.replay import replay
from loader.engine.session import CLASS_ARCHIVE, RunnerConfig, start_session

# A snapshot that opens, changes and closes versions, and a feed with a late row: the usual paths of loads.
_CASES = """[
  {"id": "snapshot", "keys": ["id"], "columns": {"id": "integer", "v": "string"},
   "policy": {"input": "snapshot", "time": "load", "deletes": "close"},
   "batches": [
     {"at": "2024-01-01T00:00:00Z", "run_id": "a", "rows": [{"id": 1, "v": "x"}, {"id": 2, "v": "x"}]},
     {"at": "2024-01-02T00:00:00Z", "run_id": "b", "rows": [{"id": 1, "v": "y"}]}],
   "expected": [
     {"id": 1, "v": "x", "valid_from": "2024-01-01T00:00:00Z", "valid_to": "2024-01-02T00:00:00Z"},
     {"id": 2, "v": "x", "valid_from": "2024-01-01T00:00:00Z", "valid_to": "2024-01-02T00:00:00Z"},
     {"id": 1, "v": "y", "valid_from": "2024-01-02T00:00:00Z", "valid_to": null}]},
  {"id": "feed", "keys": ["id"], "columns": {"id": "integer", "v": "string", "t": "integer"},
   "policy": {"input": "effective", "time": "t"},
   "batches": [
     {"at": "2024-01-01T00:00:00Z", "run_id": "a", "rows": [{"id": 1, "v": "x", "t": 1}, {"id": 1, "v": "y", "t": 9}]},
     {"at": "2024-01-02T00:00:00Z", "run_id": "b", "rows": [{"id": 1, "v": "z", "t": 5}]}],
   "expected": [
     {"id": 1, "v": "x", "valid_from": 1, "valid_to": 5},
     {"id": 1, "v": "z", "valid_from": 5, "valid_to": 9},
     {"id": 1, "v": "y", "valid_from": 9, "valid_to": null}]}
]"""


def keep_classes(jars: Path) -> None:
    """Write the archive beside Delta's jars in one move. Raise SystemExit with the reason if that fails."""
    archive = jars / CLASS_ARCHIVE
    pending = archive.with_name(f"{archive.name}.new")
    archive.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="elevata-classes-") as folder:
        options = f"-XX:ArchiveClassesAtExit={pending} -Xlog:cds=off -Xlog:cds+dynamic=off"
        spark = start_session(RunnerConfig(warehouse=folder, jars=str(jars), java_options=options))
        outcomes = replay(spark, folder, parse_cases(_CASES))
        failed = [outcome.message for outcome in outcomes if not outcome.passed]
        gateway = SparkContext._gateway
        assert gateway is not None
        spark.stop()
        gateway.shutdown()
        # The archive is written when the JVM ends, after its last connection is closed.
        gateway.proc.stdin.close()
        gateway.proc.wait()
    if failed or not pending.exists():
        pending.unlink(missing_ok=True)
        raise SystemExit(f"no archive was written: {'; '.join(failed) or 'this JVM makes none'}")
    pending.replace(archive)


if __name__ == "__main__":
    keep_classes(Path(sys.argv[1]))
