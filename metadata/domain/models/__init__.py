"""Models: datasets that are defined by one SELECT over other datasets."""

from metadata.domain.models.binding import bind_select, reads_of, relations_of, versions_of
from metadata.domain.models.description import DescribedModel, ModelColumn, ReadColumn, describe_select
from metadata.domain.models.meaning import check_meaning
from metadata.domain.models.renames import rename_dataset_in_select, rename_in_select, renamed_column
from metadata.domain.models.statement import ModelProblem

__all__ = [
    "DescribedModel",
    "ModelColumn",
    "ModelProblem",
    "ReadColumn",
    "describe_select",
    "bind_select",
    "check_meaning",
    "reads_of",
    "relations_of",
    "rename_dataset_in_select",
    "rename_in_select",
    "renamed_column",
    "versions_of",
]
