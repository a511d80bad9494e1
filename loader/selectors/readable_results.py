"""Results of quality checks for one reader: without numbers that reveal values which the reader may not read."""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Lower

from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.core.errors import ProductError
from loader.contract.check_outcomes import OF_VALUES, without_number
from loader.contract.manifest.checks import CheckSpec
from loader.domain.quality.sensitive_results import is_sensitive
from loader.models import CheckResult
from loader.services.reads.read_permissions import SensitiveNames, hidden_names, may_read_sensitive
from metadata.domain.quality.check_kinds import CONDITION, QUERY
from metadata.models import QualityCheck, TargetDataset
from metadata.permissions import here
from metadata.selectors.classification import classifications, has_classified_columns
from metadata.selectors.dataset_states import dataset_states


def readable_results(results: Iterable[CheckResult], user: Any) -> list[CheckResult]:
    """Return results without numbers and examples that reveal values which the user may not read; None may read none.

    The datasets whose values a number revealed when it was stored count, and those of the present check and the present
    classification: the check may have been changed, and a column classified, since then. A condition, total or age of
    a check that does not exist any more may have revealed sensitive values of its dataset, and a SELECT any. For
    datasets that are unknown, a user must be permitted to read the sensitive values of the whole environment.
    """
    rows = list(results)
    known = {row.key: row for row in QualityCheck.objects.filter(key__among={row.check_key for row in rows})}
    restricted = [row for row in rows if row.tells or _may_reveal_values(row, known.get(row.check_key))]
    revealed = _RevealedDatasets(restricted, known)
    readable: dict[int, bool] = {}
    for row in restricted:
        datasets = revealed.datasets_of(row)
        for dataset in datasets or ():
            if dataset.pk not in readable:
                readable[dataset.pk] = may_read_sensitive(user, dataset)
        may_see = revealed.may_read_all(user) if datasets is None else all(readable[item.pk] for item in datasets)
        if not may_see:
            for name, value in without_number(row).items():
                setattr(row, name, value)
    return rows


def _may_reveal_values(row: CheckResult, check: QualityCheck | None) -> bool:
    """Return False if the numbers of a check reveal no values, whatever is classified.

    A check that is gone was deleted, or is that of a reference, which has no condition (``parent_checks``).
    """
    if check is None:
        return row.kind in (QUERY, CONDITION, *OF_VALUES)
    if check.kind in (QUERY, *OF_VALUES):
        return True
    try:
        return bool(check.rule.chosen_by)
    except ProductError:
        return True


class _RevealedDatasets:
    """Datasets whose sensitive values are revealed by results."""

    def __init__(self, results: Collection[CheckResult], checks: Mapping[UUID, QualityCheck]) -> None:
        self._results, self._checks = results, checks
        self._may_read_all: bool | None = None
        self._named = {key: _datasets_named(checks[key]) for row in results if (key := row.check_key) in checks}

    def datasets_of(self, row: CheckResult) -> list[TargetDataset] | None:
        """Return the datasets whose sensitive values a result reveals; None if they are unknown."""
        stored = [dataset for key in row.tells if (dataset := self._by_key.get(key)) is not None]
        if len(stored) < len(row.tells):
            return None
        if not (self._has_classified_columns and _may_reveal_values(row, self._checks.get(row.check_key))):
            return stored
        check, own = self._checks.get(row.check_key), self._by_pk.get(row.dataset_id)
        named = self._named.get(row.check_key)
        known = {name: self._by_name.get(name) for name in named or ()}
        others = {name: dataset for name, dataset in known.items() if dataset is not None}
        if own is None or len(others) < len(known):
            return None
        if check is None:
            return None if row.kind == QUERY else [*stored, own] if self._sensitive(own) else stored
        if named is None:
            return None
        by_table = {name: tuple(self._hidden(other, row.kind)) for name, other in others.items()}
        spec = CheckSpec(
            str(check.key),
            check.name,
            row.kind,
            row.severity,
            check.arguments,
            other_sensitive=tuple({name for names in by_table.values() for name in names}),
            sensitive_by_table=tuple(by_table.items()),
        )
        if not is_sensitive(spec, self._sensitive(own)):
            return stored
        return [*stored, *(dataset for dataset in (own, *others.values()) if self._sensitive(dataset))]

    def may_read_all(self, user: Any) -> bool:
        """Return True if a user may read the sensitive values of every dataset, by a role for the environment."""
        if self._may_read_all is None:
            self._may_read_all = may(user, Permission.READ_SENSITIVE, on=here)
        return self._may_read_all

    @cached_property
    def _has_classified_columns(self) -> bool:
        return has_classified_columns()

    def _sensitive(self, dataset: TargetDataset) -> frozenset[str]:
        return self._classified[dataset.pk].sensitive_names

    def _hidden(self, dataset: TargetDataset, kind: str) -> frozenset[str]:
        """Return names of a dataset's sensitive columns, for a SELECT with the columns that hash them."""
        names = self._sensitive(dataset)
        return self._hidden_by_key[str(dataset.key)] if kind == QUERY and names else names

    @cached_property
    def _rows(self) -> list[TargetDataset]:
        names = {name for named in self._named.values() for name in named or ()}
        keys = {key for row in self._results for key in row.tells}
        schemas, own = ({name.split(".")[place] for name in names} for place in (0, 1))
        rows = TargetDataset.objects.annotate(lower_schema=Lower("schema__name"), lower_name=Lower("name"))
        wanted = Q(lower_schema__in=schemas, lower_name__in=own) | Q(key__in=keys)
        wanted |= Q(pk__in={row.dataset_id for row in self._results if row.dataset_id})
        return list(rows.filter(wanted).select_related("schema", "history_of__schema"))

    @cached_property
    def _by_name(self) -> dict[str, TargetDataset]:
        return {str(row).lower(): row.history_of or row for row in self._rows}

    @cached_property
    def _by_key(self) -> dict[str, TargetDataset]:
        return {str(row.key): row.history_of or row for row in self._rows}

    @cached_property
    def _by_pk(self) -> dict[int | None, TargetDataset]:
        return {row.pk: row.history_of or row for row in self._rows}

    @cached_property
    def _classified(self) -> dict[int, Any]:
        return classifications({dataset.pk for dataset in self._by_pk.values()})

    @cached_property
    def _hidden_by_key(self) -> dict[str, frozenset[str]]:
        sensitive = {pk: classification for pk, classification in self._classified.items() if classification.sensitive}
        keys = {str(dataset.key): dataset.pk for dataset in self._by_pk.values()}
        states = dataset_states(TargetDataset.objects.filter(pk__in=sensitive))
        return {
            state.key: hidden_names(state, SensitiveNames(classification.sensitive, classification.sensitive_names))
            for state in states
            for classification in (sensitive[keys[state.key]],)
        }


def _datasets_named(check: QualityCheck) -> frozenset[str] | None:
    """Return the names in lower case of the other datasets that a check reads; None for one that is invalid."""
    try:
        return check.rule.tables
    except ProductError:
        return None
