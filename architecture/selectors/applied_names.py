"""Names that a dataset or column has in an environment (``IS_NAME_APPLIED``)."""

from django.db.models import Q

from architecture.models import AppliedDataset
from metadata.domain.naming import HISTORY_SUFFIX
from metadata.models import TargetColumn, TargetDataset


def is_name_applied(row: TargetDataset | TargetColumn) -> bool:
    """Return True if an executed state of any environment has the row's current name.

    Stable keys can differ between environments, so datasets are found by key, name and former names, and columns by
    name.
    """
    dataset = row.dataset if isinstance(row, TargetColumn) else row
    if row is dataset:
        name = str(row) if row.history_of_id is None else str(row).removesuffix(HISTORY_SUFFIX)
        return AppliedDataset.objects.filter(qualified_name__iexact=name).exists()
    same = Q(dataset_key=dataset.key)
    for name in (dataset.name, *dataset.former_names):
        same |= Q(qualified_name__iexact=name if "." in name else f"{dataset.schema.name}.{name}")
    states = AppliedDataset.objects.filter(same).values_list("state", flat=True)
    return any(column["name"].lower() == row.name.lower() for state in states for column in state["columns"])
