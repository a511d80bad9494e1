"""Tables of metadata: sources, target datasets, lineage, references, quality checks, exposures and copies."""

from metadata.models.base import Described, Retirable
from metadata.models.copies import DatasetCopy
from metadata.models.exposures import Exposure
from metadata.models.lineage import ColumnInput, DatasetInput, Reference, ReferencePair
from metadata.models.quality import QualityCheck
from metadata.models.source import SourceColumn, SourceDataset, System
from metadata.models.target import TargetColumn, TargetDataset, TargetSchema

__all__ = [
    "ColumnInput",
    "DatasetCopy",
    "DatasetInput",
    "Described",
    "Exposure",
    "QualityCheck",
    "Reference",
    "ReferencePair",
    "Retirable",
    "SourceColumn",
    "SourceDataset",
    "System",
    "TargetColumn",
    "TargetDataset",
    "TargetSchema",
]
