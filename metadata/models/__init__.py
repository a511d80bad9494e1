"""Tables of what should exist: sources, target datasets and how they hang together; and who changed it."""

from metadata.models.audit import AppendOnly, AuditSegment, ChainHead, ChainLink, ChainPending, ChangeLogEntry
from metadata.models.base import Described, Retirable, Versioned
from metadata.models.lineage import ColumnInput, DatasetInput, Reference, ReferencePair
from metadata.models.notices import Delivery, DeliveryAttempt, Event, Notice, NoticeChoice, Webhook
from metadata.models.people import Identity, PersonalToken, Right, RoleGrant, ServiceAccount, TemporaryPassword
from metadata.models.requests import KeptAnswer
from metadata.models.source import SourceColumn, SourceDataset, System
from metadata.models.target import TargetColumn, TargetDataset, TargetSchema

__all__ = [
    "AppendOnly",
    "AuditSegment",
    "ChainHead",
    "ChainLink",
    "ChainPending",
    "ChangeLogEntry",
    "ColumnInput",
    "DatasetInput",
    "Delivery",
    "DeliveryAttempt",
    "Described",
    "Event",
    "Identity",
    "KeptAnswer",
    "Notice",
    "NoticeChoice",
    "PersonalToken",
    "Reference",
    "ReferencePair",
    "Retirable",
    "Right",
    "RoleGrant",
    "ServiceAccount",
    "SourceColumn",
    "SourceDataset",
    "System",
    "TargetColumn",
    "TargetDataset",
    "TargetSchema",
    "TemporaryPassword",
    "Versioned",
    "Webhook",
]
