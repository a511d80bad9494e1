"""Guards of a history's event log against foreign changes and interrupted runs.

Events of a load that died before its history commit have a run sequence above the history's. If a revert died before
it removed the events, the commit metadata of the history name the sequence of the reverted run (``void``).
"""

from pyspark.sql import SparkSession

from architecture.domain.tables import TableSpec
from loader.contract.refusals import Refusal
from loader.contract.run_states import COMPACT, PRUNE
from loader.engine.tables.run_commits import RunCommit
from loader.engine.tables.table_files import TableFiles
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier

EVENT_LOG_CHANGED, EVENT_LOG_MISSING = "EVENT_LOG_CHANGED", "EVENT_LOG_MISSING"
VOID = "void"


def refuse_changed(event_log: DeltaTable, name: str, *, newest_run: int | None = None) -> bool:
    """Raise Refusal EVENT_LOG_CHANGED if another writer changed or restored the event log since its newest run.

    The history's versions are computed from these events; from other events, a load could open a key twice. With
    ``newest_run``, the newest run sequence in the history, changes are permitted unless they removed events of runs
    in the history. Return True if there are foreign changes.
    """
    foreign = event_log.foreign_changes()
    if not foreign or (newest_run is not None and not _lost_events(event_log, newest_run)):
        return bool(foreign)
    changes = ", ".join(change.described for change in foreign)
    raise Refusal(
        EVENT_LOG_CHANGED,
        f"{name}: another writer changed the event log of the history: {changes}",
        hint=f"Bring it back (RESTORE TABLE {event_log.sql_name} TO VERSION AS OF {foreign[-1].version - 1}), then run "
        "again. If it is right together with the history, accept the table (manage.py accept_table).",
    )


def refuse_missing(event_log: TableFiles, name: str, *, versions: int = 0, rows: int = 0) -> None:
    """Raise Refusal EVENT_LOG_MISSING if the event log is empty, lost or new, but the leading table is not.

    ``versions`` are those of a history, ``rows`` those of rawcore without one.
    """
    if event_log.all or not (versions or rows):
        return
    leading = f"the history has {versions} versions" if versions else f"the table has {rows} rows"
    raise Refusal(
        EVENT_LOG_MISSING,
        f"{name}: {leading}, and its event log is empty",
        hint=f"Bring the event log back from a backup ({event_log.table.location}), then run again. If it is gone for "
        "good, give the data a dataset of its own and load its deliveries again.",
        count=versions or rows,
    )


def _lost_events(event_log: DeltaTable, newest_run: int) -> bool:
    """Return True if a RESTORE removed events of runs up to sequence ``newest_run``."""
    newest = event_log.newest_run_commit()
    current = newest.version if newest else -1
    runs = (run_commit for run_commit in event_log.run_commits() if run_commit.what not in (PRUNE, COMPACT))
    return any(run.version > current and run.sequence <= newest_run for run in runs)


def forget_unfinished(
    session: SparkSession, event_log: DeltaTable, spec: TableSpec, committed: int, last_run: RunCommit | None
) -> None:
    """Remove the events of a load or revert that died between its commits.

    ``committed`` is the newest run sequence in the history, ``last_run`` the newest history commit of a run.
    """
    newest = event_log.newest_run_commit()
    if newest is None:
        return
    sequence = quote_identifier(spec.column("sequence").name)
    conditions = [f"{sequence} > {int(committed)}"] if newest.sequence > committed else []
    if last_run is not None and VOID in last_run.notes and newest.run_id != last_run.run_id:
        conditions.append(f"{sequence} = {int(last_run.notes[VOID])}")
    if conditions:
        session.sql(f"DELETE FROM {event_log.sql_name} WHERE {' OR '.join(conditions)}")


def forget_run(session: SparkSession, event_log: DeltaTable, spec: TableSpec, sequence: int) -> None:
    """Remove the events of one run."""
    column = quote_identifier(spec.column("sequence").name)
    session.sql(f"DELETE FROM {event_log.sql_name} WHERE {column} = {int(sequence)}")
