"""Removal of events that an interrupted load or revert left in a history's event log.

* Events of a load that died before its history commit: their run number is newer than the history's.
* Events of a reverted run: the revert's history commit names the run's number (``void``), and the
  revert died before it removed them.
"""

from pyspark.sql import SparkSession

from architecture.domain.states.tables import TableSpec
from loader.spark.tables.tables import DeltaTable, RunCommit
from metadata.domain.sql import quote_identifier

VOID = "void"


def forget_unfinished(
    session: SparkSession, memory: DeltaTable, spec: TableSpec, committed: int, signed: RunCommit | None
) -> None:
    """Remove the events of a load or revert that died between its commits.

    ``committed`` is the history's newest run number, ``signed`` the newest history commit of a run.
    """
    newest = memory.newest_run_commit()
    if newest is None:
        return
    sequence = quote_identifier(spec.column("sequence").name)
    conditions = [f"{sequence} > {int(committed)}"] if newest.sequence > committed else []
    if signed is not None and VOID in signed.notes and newest.run_id != signed.run_id:
        conditions.append(f"{sequence} = {int(signed.notes[VOID])}")
    if conditions:
        session.sql(f"DELETE FROM {memory.sql_name} WHERE {' OR '.join(conditions)}")


def forget_run(session: SparkSession, memory: DeltaTable, spec: TableSpec, sequence: int) -> None:
    """Remove the events of one run."""
    column = quote_identifier(spec.column("sequence").name)
    session.sql(f"DELETE FROM {memory.sql_name} WHERE {column} = {int(sequence)}")
