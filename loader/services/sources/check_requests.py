"""Requested checks of sources, and their performance by a worker."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from architecture.services.environments import current_environment
from elevata.core.database import retried
from loader.contract.refusals import Refusal
from loader.models import ReadRequest
from loader.runner.work import Work, perform_job
from loader.services.loads.plans import plan_load
from loader.services.reads.read_requests import SOURCE_CHECK, RequestedRead
from loader.services.sources.checks import check_source
from loader.services.sources.specs import source_datasets
from metadata.domain.scope import Scope
from metadata.models import SourceDataset


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


@dataclass
class CheckWork(Work[ReadRequest]):
    """Work of one attempt at a requested check. The runner is not needed."""

    phase = "reading the source"

    @classmethod
    def jobs(cls) -> QuerySet[ReadRequest]:
        return ReadRequest.objects.select_related("requested_by")

    def perform(self) -> dict[str, Any] | None:
        """Check the source of a request and store the result; return the error, if the source cannot be read."""
        with self.attempt.beating():
            sources = SourceDataset.objects.select_related("system")
            source = retried(sources.filter(key=self.job.arguments["source_dataset"]).first)
            if source is None:
                raise Refusal("UNKNOWN_SOURCE", "the source was deleted")
            result = check_source(source=source)
        retried(lambda: ReadRequest.objects.filter(pk=self.job.pk).update(answer=result.as_json()))
        return result.error


perform_check = partial(perform_job, CheckWork)
