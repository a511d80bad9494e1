"""Command that deletes retired metadata."""

from argparse import ArgumentParser
from typing import Any

from elevata.accounts.cli import INVALID, ProductCommand
from elevata.core.errors import MetadataError
from metadata.models import TargetColumn, TargetDataset
from metadata.services.deletion import delete_column, delete_dataset


class Command(ProductCommand):
    help = (
        "Delete a retired target dataset (schema.dataset) or column (schema.dataset.column) from the metadata. "
        "Tables stay as they are: the next change report shows the drop, and the policy decides on it."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="schema.dataset, or schema.dataset.column")
        parser.add_argument("--reason", default="", metavar="TEXT", help="reason, recorded in the change log")

    def run(self, *, name: str, reason: str, **options: Any) -> None:
        schema, _, rest = name.partition(".")
        dataset, _, column = rest.partition(".")
        row: TargetColumn | TargetDataset | None
        if column:
            row = TargetColumn.objects.filter(dataset__schema__name=schema, dataset__name=dataset, name=column).first()
        else:
            row = TargetDataset.objects.filter(schema__name=schema, name=dataset).first()
        if row is None:
            raise MetadataError("unknown_name", f"there is no target dataset or column {name!r}", "name")
        if isinstance(row, TargetColumn):
            delete_column(column=row, expected_version=row.version, reason=reason)
        else:
            delete_dataset(dataset=row, expected_version=row.version, reason=reason)
        self.say(f"{name} deleted; its table is as it was")
        self.print_json({"deleted": name})
