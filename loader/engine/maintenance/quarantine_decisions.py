"""Decisions of users about quarantined rows, as maintenance runs."""

from pyspark.sql import DataFrame

from loader.contract.manifest.maintenance import QuarantineManifest
from loader.contract.refusals import Refusal
from loader.contract.run_states import DROP, QUARANTINE_DECISION, RELEASE
from loader.engine.maintenance.context import MaintenanceContext, carried
from loader.engine.quality.quarantine import REFUSED, RELEASED, WAITING, entry_token, quarantine_table
from metadata.domain.sql import quote_text


def decide(context: MaintenanceContext, manifest: QuarantineManifest) -> dict[str, int]:
    """Release or drop waiting rows of a dataset's quarantine; return their number.

    A run that is repeated after its commit decides nothing again. Raise Refusal NOTHING_QUARANTINED.
    """
    table = quarantine_table(context.session, context.warehouse, manifest.dataset)
    if not table.exists():
        raise _nothing(manifest)
    name = f"{manifest.name} quarantine"
    context.before(name, table)
    done = next((commit.counts for commit in table.run_commits() if commit.run_id == context.run_id), None)
    if done is not None:
        context.after(name, table)
        return done
    chosen = f"state = '{WAITING}'" if manifest.decision == RELEASE else f"state IN ('{WAITING}', '{REFUSED}')"
    if manifest.of_run:
        chosen += f" AND run_id = {quote_text(manifest.of_run)}"
    if manifest.entries:
        ids = _entries_of(table.frame().where(chosen), manifest)
        chosen += f" AND entry_id IN ({', '.join(map(quote_text, ids)) or 'NULL'})"
    count = table.frame().where(chosen).count()
    if not count:
        raise _nothing(manifest)
    context.phase("deciding")
    counts = {"released" if manifest.decision == RELEASE else "dropped": count}
    context.set_metadata(carried(None, run_id=context.run_id, what=QUARANTINE_DECISION, counts=counts))
    if manifest.decision == DROP:
        context.session.sql(f"DELETE FROM {table.sql_name} WHERE {chosen}")
    else:
        values = f"state = '{RELEASED}', decided_by = {quote_text(context.run_id)}"
        context.session.sql(f"UPDATE {table.sql_name} SET {values} WHERE {chosen}")
    context.after(name, table)
    return counts


def _entries_of(rows: DataFrame, manifest: QuarantineManifest) -> list[str]:
    """Return the entries of rows that have the chosen tokens.

    The table's statements name the entries, so that the secret is not in the log of the table.
    """
    chosen = rows.where(entry_token(manifest.secret).isin(*manifest.entries)).select("entry_id").distinct()
    return sorted(row.entry_id for row in chosen.collect())


def _nothing(manifest: QuarantineManifest) -> Refusal:
    return Refusal(
        "NOTHING_QUARANTINED",
        f"{manifest.name} has no such rows in quarantine",
        hint="They were released or dropped before, or no load quarantined them.",
    )
