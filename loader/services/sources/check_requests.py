"""Requested checks of sources, and their performance by a worker."""

import logging
from typing import Any

from django.db import transaction

from architecture.services.environments import current_environment
from elevata.core.database import retried
from elevata.jobs import states
from elevata.jobs.services import Attempt, Fenced, claim
from loader.contract.refusals import Refusal
from loader.domain.dependencies import Scope
from loader.domain.spark_failures import worker_accident
from loader.models import ReadRequest
from loader.services.loads.plans import plan_load
from loader.services.reads.read_requests import SOURCE_CHECK, RequestedRead
from loader.services.sources.checks import check_source
from loader.services.sources.specs import source_datasets
from metadata.models import SourceDataset

log = logging.getLogger(__name__)


@transaction.atomic
def request_checks(*, scope: Scope, requester: str) -> list[ReadRequest]:
    """Request a check of every source in a scope of loads. Raise Refusal for a scope that has become empty."""
    states_in_scope = [step.dataset for step in plan_load(scope).steps]
    requests = []
    for key in sorted(source_datasets(states_in_scope)):
        requested = RequestedRead(
            ReadRequest.objects.create(
                environment=current_environment(),
                kind=SOURCE_CHECK,
                arguments={"source_dataset": key},
                requester=requester[:150],
            )
        )
        requested.wake_after_commit()
        requests.append(requested.read)
    return requests


def perform_check(*, read_pk: int, worker: str, **context: Any) -> ReadRequest | None:
    """Perform one requested check; return None if it could not be claimed. The runner is not needed."""
    claimed = retried(lambda: claim(job_pk=read_pk, worker=worker, phase="reading the source"))
    if claimed is None:
        return None
    attempt = Attempt(claimed.job_pk, claimed.number)
    read = retried(lambda: ReadRequest.objects.get(pk=read_pk))
    try:
        with attempt.beating():
            error = _perform(read)
        retried(lambda: _end(attempt, error))
    except Fenced:
        log.warning("check %s was withdrawn or given up", read_pk)
    return retried(ReadRequest.objects.filter(pk=read_pk).first)


@transaction.atomic
def _end(attempt: Attempt, error: dict[str, Any] | None) -> None:
    attempt.end(wanted=states.FAILED if error else states.SUCCEEDED, error=error)


def _perform(read: ReadRequest) -> dict[str, Any] | None:
    """Check the source of a request and store the result; return the error, if the source cannot be read."""
    sources = SourceDataset.objects.select_related("system")
    source = retried(sources.filter(key=read.arguments["source_dataset"]).first)
    if source is None:
        return Refusal("UNKNOWN_SOURCE", "the source was deleted").as_json()
    try:
        result = check_source(source=source)
    except Exception as failure:  # the job must end
        log.exception("the check of %s failed", source)
        return worker_accident(failure).as_json()
    retried(lambda: ReadRequest.objects.filter(pk=read.pk).update(answer=result.as_json()))
    return result.error
