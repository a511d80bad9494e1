"""Contracts of datasets: what is in force in an environment, and what the metadata promises."""

from collections.abc import Iterable
from dataclasses import dataclass

from architecture.domain.data_contracts import (
    BREAKS_CONTRACT,
    contract_operation,
    desired_contract,
    with_contract_in_force,
)
from architecture.domain.operations import Operation
from architecture.models import Environment
from architecture.selectors.dataset_states import applied_by_pk, applied_datasets
from metadata.domain.quality.check_kinds import SEVERITIES, QualityRule, summary
from metadata.domain.state import ContractState
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_states


@dataclass(frozen=True)
class Contract:
    """Contract of a dataset: the one ``in_force``, and the one ``described``; None without any.

    ``change`` is the operation that the next report would have.
    """

    in_force: ContractState | None = None
    described: ContractState | None = None
    change: Operation | None = None

    @property
    def promise(self) -> ContractState | None:
        """Return the contract in force, before the first execution the described one."""
        return self.in_force or self.described

    @property
    def breaks(self) -> bool:
        return self.change is not None and self.change.code == BREAKS_CONTRACT

    @property
    def checks(self) -> list[tuple[str, str, str, str]]:
        """Return name, kind, summary and severity of each promised check, in words."""
        checks = self.promise.checks if self.promise else ()
        rules = [(check, QualityRule.from_dict(check.kind, check.arguments)) for check in checks]
        return [(check.name, rule.definition.label, summary(rule), SEVERITIES[check.severity]) for check, rule in rules]


def contracts_of(datasets: Iterable[TargetDataset], *, environment: Environment) -> dict[str, Contract]:
    """Return the contracts of these datasets in an environment, by stable key."""
    desired = dataset_states(TargetDataset.objects.filter(pk__in=[row.pk for row in datasets]))
    rows = applied_datasets(environment=environment).filter(dataset_key__in=[state.key for state in desired])
    applied = {state.key: with_contract_in_force(state) for state, _ in applied_by_pk(rows).values()}
    return {
        state.key: Contract(
            in_force=applied[state.key].contract if state.key in applied else None,
            described=desired_contract(state),
            change=contract_operation(applied.get(state.key), state),
        )
        for state in desired
    }
