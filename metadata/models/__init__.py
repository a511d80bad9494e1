"""Tables of what should exist: sources, target datasets and how they hang together; and who changed it."""

from metadata.models.audit import AppendOnly, ChainHead, ChainLink, ChainPending, ChangeLogEntry
from metadata.models.base import Described, Retirable, Versioned
from metadata.models.lineage import ColumnInput, DatasetInput, Reference, ReferencePair
from metadata.models.people import PersonalToken, Right
from metadata.models.requests import KeptAnswer
from metadata.models.source import SourceColumn, SourceDataset, System
from metadata.models.target import TargetColumn, TargetDataset, TargetSchema

__all__ = [
    "AppendOnly",
    "ChainHead",
    "ChainLink",
    "ChainPending",
    "ChangeLogEntry",
    "ColumnInput",
    "DatasetInput",
    "Described",
    "KeptAnswer",
    "PersonalToken",
    "Reference",
    "ReferencePair",
    "Retirable",
    "Right",
    "SourceColumn",
    "SourceDataset",
    "System",
    "TargetColumn",
    "TargetDataset",
    "TargetSchema",
    "Versioned",
]
