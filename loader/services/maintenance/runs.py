"""Work of reverts, prunes, compactions, acceptances, vacuums, decisions and copies: one request to the runner each."""

from elevata.core.database import retried
from elevata.jobs import states
from loader.contract.manifest.copies import CopyManifest
from loader.contract.manifest.maintenance import AcceptManifest
from loader.contract.run_states import ACCEPT, COMPACT, COPY, PRUNE, QUARANTINE_DECISION, REVERT, VACUUM
from loader.models import LoadRun
from loader.services.copies.runs import copy_manifest, store_copies
from loader.services.maintenance.acceptances import HELD, SEQUENCE, accept_manifest, take_over
from loader.services.maintenance.approvals import refuse_unapproved
from loader.services.maintenance.compactions import compact_manifest
from loader.services.maintenance.prunes import prune_manifest
from loader.services.maintenance.quarantine import quarantine_manifest
from loader.services.maintenance.reverts import mark_reverted, revert_manifest
from loader.services.maintenance.vacuums import vacuum_manifest
from loader.services.maintenance.work import RunWork


def perform_run(work: RunWork) -> str:
    """Perform a maintenance run; return the runner's result: succeeded or failed."""
    retried(lambda: refuse_unapproved(work.run))
    manifest = _MANIFESTS[work.run.kind](work)
    work.attempt.enter(_PHASES[work.run.kind])
    finished = work.talk.ask(work.run.kind, manifest, work.store)
    work.keep_commits(finished)
    answer = finished.get("answer") or {}
    if isinstance(manifest, CopyManifest):
        store_copies(work.run, manifest, answer)
    elif "tables" in answer:
        details = {**work.run.details, "tables": answer["tables"]}
        retried(lambda: LoadRun.objects.filter(pk=work.run.pk).update(details=details))
    status = work.must_answer(finished)
    if status == states.SUCCEEDED and work.run.kind == REVERT:
        retried(lambda: mark_reverted(work.run))
    if status == states.SUCCEEDED and isinstance(manifest, AcceptManifest):
        (table,) = (table for table in answer["tables"].values() if HELD in table)
        retried(lambda: take_over(work.run, table[HELD], table[SEQUENCE]))
    return status


_MANIFESTS = {
    REVERT: revert_manifest,
    PRUNE: prune_manifest,
    COMPACT: compact_manifest,
    ACCEPT: accept_manifest,
    VACUUM: vacuum_manifest,
    QUARANTINE_DECISION: quarantine_manifest,
    COPY: copy_manifest,
}
_PHASES = {
    REVERT: "reverting",
    PRUNE: "pruning",
    COMPACT: "compacting",
    ACCEPT: "accepting the table",
    VACUUM: "removing former files and outdated deliveries",
    QUARANTINE_DECISION: "deciding on quarantined rows",
    COPY: "copying",
}
