"""Checks of a source: its schema as it is now, read without a load, against its contract."""

import logging
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from architecture.services.states import current_environment
from elevata.core.database import retried
from elevata.core.errors import ProductError
from elevata.jobs import states
from elevata.jobs.services import Attempt, Fenced, claim
from loader.domain.dependencies import Scope
from loader.domain.queries.masking import without_examples
from loader.domain.refusals import Refusal, worker_accident
from loader.domain.sources.sampling import SampledColumn, misfits
from loader.domain.sources.schema_changes import ContractColumn, ObservedColumn, is_retyped, names_all_columns
from loader.models import ReadRequest, SourceProposal
from loader.services.loads.plans import plan_load
from loader.services.reads.read_requests import SOURCE_CHECK, RequestedRead
from loader.services.sources.observations import observe_schema
from loader.services.sources.proposals import contract_of, open_changes
from loader.services.sources.specs import source_datasets
from loader.sources.files import Sample
from loader.sources.systems import sample
from metadata.domain.sources import formats
from metadata.domain.sources.value_formats import ValueFormats
from metadata.models import SourceDataset
from metadata.permissions import must_be_changeable

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceCheck:
    """Result of a check: the open proposal, if the source differs from its contract, or the refusal of the source."""

    source: SourceDataset
    proposal: SourceProposal | None = None
    error: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        changes = open_changes(self.proposal) if self.proposal is not None else ()
        return {
            "source": str(self.source),
            "key": str(self.source.key),
            "status": "refused" if self.error else "differs" if self.proposal is not None else "same",
            "proposal": str(self.proposal.key) if self.proposal is not None else None,
            "changes": [change.as_json() for change in changes],
            "error": self.error,
        }


def check_source(*, source: SourceDataset, renew: bool = False) -> SourceCheck:
    """Read a source's schema now and compare it with its contract; a difference becomes the source's open proposal.

    With ``renew`` a user asks, so that changes are proposed although they were dismissed before. A source that cannot
    be read is a result, too; its error has no values. Raise MetadataError ``not_permitted`` for such a user without the
    permission to change the source.
    """
    if renew:
        must_be_changeable([source])
    try:
        columns, complete = observed_schema(source)
    except Refusal as refusal:
        return SourceCheck(source, error=without_examples(refusal.as_json(), str(source)))
    except ProductError as problem:
        return SourceCheck(source, error=problem.as_json())
    return SourceCheck(source, observe_schema(source=source, columns=columns, complete=complete, renew=renew))


def observed_schema(source: SourceDataset) -> tuple[list[ObservedColumn], bool]:
    """Return the columns that a source has now, and if these are all. Raise Refusal if it cannot be read from here."""
    if source.format == formats.TABLE and source.options.get("query"):
        raise Refusal(
            "NOT_FROM_HERE",
            f"{source} is a query, whose columns only a load reads",
            hint="Loads compare them with the contract.",
        )
    result = sample(source.system, source.location, source.format, dict(source.options))
    known = {column.name: column for column in contract_of(source)}
    columns = [_observed(result, place, known.get(column.name)) for place, column in enumerate(result.columns)]
    return columns, names_all_columns(source.format) or result.whole


def _observed(result: Sample, place: int, known: ContractColumn | None) -> ObservedColumn:
    column: SampledColumn = result.columns[place]
    if result.typed:
        observed = ObservedColumn(column.name, column.type, declared=True)
        return observed.beside(known.type) if known is not None else observed
    if known is None:
        return ObservedColumn(column.name, column.type)
    values = result.values[place] if place < len(result.values) else ()
    count, _ = misfits(known.type, values, ValueFormats.of(result.options))
    if is_retyped(count, sum(value is not None for value in values)):
        return ObservedColumn(column.name, column.type)
    return ObservedColumn(column.name, None if count else known.type)


# --- by schedules ------------------------------------------------------------------------------


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
