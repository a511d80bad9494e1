"""Contract of tests: ``mart.sales`` with a key, a check and a dashboard."""

from metadata.models import QualityCheck, TargetDataset
from metadata.services.datasets.targets import create_schema, create_target_column, create_target_dataset
from metadata.services.exposures import create_exposure
from metadata.services.quality import create_check

BOARD = {"name": "Board", "kind": "dashboard", "owner": "Finance", "link": "https://bi.example.org/board"}


def sales_mart() -> TargetDataset:
    """Create the contract as the current actor."""
    schema = create_schema(name="mart", layer="serving")
    dataset = create_target_dataset(schema=schema, name="sales", owner="Sales", contract=True)
    create_target_column(dataset=dataset, name="day", type="date", role="business_key", key_ordinal=1, inputs=[])
    create_target_column(dataset=dataset, name="amount", type="decimal(10,2)", inputs=[])
    create_check(dataset=dataset, name="amounts", kind="not_null", arguments={"columns": ["day"]}, severity="stop")
    create_exposure(dataset=dataset, **BOARD)
    return dataset


def the_mart() -> TargetDataset:
    return TargetDataset.objects.select_related("schema").get(name="sales")


def the_check() -> QualityCheck:
    return QualityCheck.objects.get(name="amounts")
