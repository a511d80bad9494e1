"""Acceptance of a restored or recreated table: a commit after which loads continue."""

from dataclasses import replace

from loader.contract.manifest.maintenance import AcceptManifest
from loader.contract.refusals import Refusal
from loader.contract.run_states import ACCEPT
from loader.engine.historization import rawcore
from loader.engine.historization.events.log_guards import forget_unfinished, refuse_changed
from loader.engine.historization.targets import Target
from loader.engine.maintenance.context import MaintenanceContext
from loader.engine.tables.commits import commit, open_files
from loader.engine.tables.run_commits import run_metadata

# Results for the accepted table: the sequence of the newest run in it (-1 for none), and that of this run.
HELD, SEQUENCE = "held", "sequence"


def accept(context: MaintenanceContext, manifest: AcceptManifest) -> dict[str, int]:
    """Commit this run to the leading table and update the other tables; return the counts.

    Events of missing runs are removed from the event log, so that they can be loaded again. The sequence of this run
    is greater than every sequence in the table, even if the control database is older than the table. Raise Refusal
    NO_TABLE, or EVENT_LOG_CHANGED if the event log lacks events of runs that the table has.
    """
    load = manifest.load
    target = Target.of(context.session, context.warehouse, load)
    table, last_run = target.leading, target.last_run
    if not table.exists():
        raise Refusal(
            "NO_TABLE",
            f"{load.name}: there is no table to accept",
            hint="Make a report of the dataset, execute it, and accept the new table.",
        )
    done = last_run is not None and (last_run.run_id, last_run.what) == (context.run_id, ACCEPT)
    newest_sequence = int(last_run.notes[HELD]) if last_run and done else last_run.sequence if last_run else -1
    committed = table.committed_sequence(load.leading.key)
    sequence = last_run.sequence if last_run and done else max(load.sequence, committed + 1)
    context.before(load.leading.qualified_name, table, **{HELD: newest_sequence, SEQUENCE: sequence})
    counts = target.version_counts() if target.history else {"rows": target.rawcore_rows()}
    notes = (last_run.notes if last_run else {}) | {HELD: str(newest_sequence)}
    metadata = run_metadata(
        run_id=context.run_id,
        at=last_run.at if last_run else "",
        sequence=sequence,
        counts=counts,
        notes=notes,
        what=ACCEPT,
    )
    context.set_metadata(metadata)
    if not done:
        if target.event_log is not None and load.event_log is not None:
            context.phase("removing events of missing runs")
            changed = refuse_changed(target.event_log, load.name, newest_run=newest_sequence)
            forget_unfinished(context.session, target.event_log, load.event_log, newest_sequence, last_run)
            if changed:
                commit(open_files(context.session, target.event_log), load.event_log.key, sequence)
        context.phase("accepting the table")
        commit(open_files(context.session, table), load.leading.key, sequence)
    if target.history:
        context.phase("writing rawcore")
        rawcore.rebuild(Target.of(context.session, context.warehouse, replace(load, sequence=sequence)))
    context.after(load.leading.qualified_name, table)
    return counts
