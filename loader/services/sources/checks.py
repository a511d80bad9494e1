"""Checks of a source: its schema as it is now, read without a load, against its contract."""

from dataclasses import dataclass
from typing import Any

from elevata.core.errors import ProductError
from loader.contract.refusals import Refusal
from loader.domain.queries.masking import without_examples
from loader.domain.sources.sampling import SampledColumn, misfits
from loader.domain.sources.schema_changes import ContractColumn, ObservedColumn, is_retyped, names_all_columns
from loader.models import SourceProposal
from loader.services.sources.observations import observe_schema
from loader.services.sources.proposals import contract_of, open_changes
from loader.sources.results import Sample
from loader.sources.systems import sample
from metadata.domain.sources import formats
from metadata.domain.sources.value_formats import ValueFormats
from metadata.models import SourceDataset
from metadata.permissions import must_be_changeable


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
