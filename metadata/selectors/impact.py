"""Impact of a change of a column: what names the column, and everything downstream of it."""

from collections.abc import Iterable, Iterator

from metadata.domain.column_lineage import DOWNSTREAM, TARGET, ColumnLineage
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.impact import CHECK, CONTRACT, DROP, POLICY, RENAME, RETYPE, Reader, Use, impact
from metadata.domain.types import DataType
from metadata.models import DatasetInput, QualityCheck, SourceColumn, TargetColumn, TargetDataset
from metadata.selectors import dependents
from metadata.selectors.column_lineage import column_lineage
from metadata.selectors.model_dependents import Dependent


def impact_of(
    column: TargetColumn,
    change: str,
    name: str = "",
    type: DataType | None = None,
    downstream: "Downstream | None" = None,
) -> list[Dependent]:
    """Return what a drop, rename or retype of a column affects: direct dependents, then what is downstream.

    ``name`` is the new name of a rename, ``type`` the new type of a retype. ``downstream`` is read unless it is given.
    """
    direct = {
        DROP: lambda: dependents.of_column_retirement(column),
        RENAME: lambda: dependents.of_column_rename(column, name),
        RETYPE: lambda: dependents.of_column_retype(column, type),
    }[change]()
    known = {(dependent.dataset.pk, dependent.what) for dependent in direct}
    further = (downstream or Downstream(column)).impact(change)
    return [*direct, *(each for each in further if (each.dataset.pk, each.what) not in known)]


class Downstream:
    """Columns downstream of a column, with the checks, policies and contracts that name them; read once."""

    def __init__(self, column: TargetColumn | SourceColumn) -> None:
        self._lineage = column_lineage(column, DOWNSTREAM)
        self._readers = list(_readers({each.dataset_key for each in self._lineage.row_inputs}))
        keys = {node.dataset_key for node in self._lineage.nodes}
        keys |= {each.dataset_key for each in self._lineage.row_inputs}
        keys |= {each.dataset_key for each in self._readers}
        rows = TargetDataset.objects.filter(key__among=list(keys)).select_related("schema", "history_of__schema")
        self._datasets = {str(row.key): row for row in rows}
        self._uses = list(_uses(self._lineage, self._datasets.values()))

    @property
    def dataset_keys(self) -> frozenset[str]:
        """Return the stable keys of all target datasets that read the column or its rows."""
        return frozenset(self._datasets)

    def impact(self, change: str) -> list[Dependent]:
        """Return the effects of a change on columns, checks, policies, contracts and exposures."""
        models = [key for key, row in self._datasets.items() if row.select]
        return [
            Dependent(each.effect, self._datasets[each.dataset_key], each.what, each.says, each.text)
            for each in impact(change, self._lineage, self._uses, models, self._readers)
            if self._datasets[each.dataset_key].active
        ]


def _readers(models: set[str]) -> Iterator[Reader]:
    """Yield the datasets that read the rows of these models (by stable key), histories included, the nearest first."""
    if not models:
        return
    reads: dict[str, list[str]] = {}
    inputs = DatasetInput.objects.filter(upstream__isnull=False).order_by("pk")
    histories = TargetDataset.objects.filter(history_of__isnull=False).order_by("pk")
    for upstream, reader in (
        *histories.values_list("history_of__key", "key"),
        *inputs.values_list("upstream__key", "dataset__key"),
    ):
        reads.setdefault(str(upstream), []).append(str(reader))
    for model in sorted(models):
        waiting, seen = [model], {model}
        while waiting:
            fresh = [reader for reader in reads.get(waiting.pop(0), ()) if reader not in seen]
            seen.update(fresh)
            waiting += fresh
            yield from (Reader(reader, model) for reader in fresh)


def _uses(lineage: ColumnLineage, datasets: Iterable[TargetDataset]) -> Iterator[Use]:
    """Yield the checks, history policies and contracts that name one of the columns."""
    by_dataset = {row.pk: row for row in datasets}
    checks: dict[int, list[QualityCheck]] = {}
    for check in QualityCheck.objects.filter(dataset__id__among=list(by_dataset), active=True).order_by("pk"):
        checks.setdefault(check.dataset_id, []).append(check)
    keys = {str(row.key): row for row in by_dataset.values()}
    for node in lineage.nodes:
        if node.kind != TARGET:
            continue
        dataset = keys[node.dataset_key]
        for check in checks.get(dataset.pk, ()):
            if check.rule.names_column(node.name):
                yield Use(CHECK, check.name, node.id)
        if HistoryPolicy.from_dict(dataset.history_policy).fields_naming(node.name):
            yield Use(POLICY, "", node.id)
        if dataset.contract:
            yield Use(CONTRACT, "", node.id)
