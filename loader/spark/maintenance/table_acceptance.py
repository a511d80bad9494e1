"""Acceptance of a restored or recreated table: a commit from which further loads continue."""

from dataclasses import replace

from loader.domain.runs.maintenance import ACCEPT
from loader.domain.runs.manifest import AcceptManifest
from loader.domain.runs.refusals import Refusal
from loader.spark.historization import rawcore
from loader.spark.historization.event_log import forget_unfinished
from loader.spark.historization.target import Target
from loader.spark.maintenance.run_context import House
from loader.spark.tables.commits import TableFiles, commit
from loader.spark.tables.tables import run_signature

# Said of the accepted table: the number of the newest run that it holds (-1 for none), and this run's number.
HELD, SEQUENCE = "held", "sequence"


def accept(house: House, manifest: AcceptManifest) -> dict[str, int]:
    """Commit this run to the leading table and update the other tables; return the counts.

    The event log loses the events of missing runs, so that they can be loaded again. The run's number is
    greater than every number the table has seen, even if the control database is older than the table. Raise
    Refusal NO_TABLE.
    """
    load = manifest.load
    target = Target.of(house.session, house.warehouse, load)
    table, signed = target.leading, target.signed
    if not table.exists():
        raise Refusal(
            "NO_TABLE",
            f"{load.name}: there is no table to accept",
            hint="Make a report of the dataset, execute it, and accept the new table.",
        )
    done = signed is not None and (signed.run_id, signed.what) == (house.run_id, ACCEPT)
    held = int(signed.notes[HELD]) if signed and done else signed.sequence if signed else -1
    seen = table.committed_sequence(load.leading.key)
    sequence = signed.sequence if signed and done else max(load.sequence, seen + 1)
    house.before(load.leading.qualified_name, table, **{HELD: held, SEQUENCE: sequence})
    counts = target.segments() if target.history else {"rows": target.rawcore_rows()}
    notes = (signed.notes if signed else {}) | {HELD: str(held)}
    signature = run_signature(
        run_id=house.run_id,
        at=signed.at if signed else "",
        sequence=sequence,
        counts=counts,
        notes=notes,
        what=ACCEPT,
    )
    house.sign(signature)
    if not done:
        if target.memory is not None and load.memory is not None:
            house.phase("removing events of missing runs")
            forget_unfinished(house.session, target.memory, load.memory, held, signed)
        house.phase("accepting the table")
        commit(TableFiles(house.session, table), load.leading.key, sequence)
    if target.history:
        house.phase("writing rawcore")
        rawcore.rebuild(Target.of(house.session, house.warehouse, replace(load, sequence=sequence)))
    house.after(load.leading.qualified_name, table)
    return counts
