"""Tables of the loader: load runs, datasets, copies, schedules, reads, saved queries, proposals, results of checks."""

from loader.models.copies import CopyState
from loader.models.jobs import DatasetRun, LoadRun, RunEvent
from loader.models.maintenance_records import MaintenanceRecord
from loader.models.quality import CheckResult, TableProfile
from loader.models.reads import ReadRequest, SavedQuery
from loader.models.schedules import Schedule
from loader.models.source_proposals import SourceProposal

__all__ = [
    "CheckResult",
    "CopyState",
    "DatasetRun",
    "LoadRun",
    "MaintenanceRecord",
    "ReadRequest",
    "RunEvent",
    "SavedQuery",
    "Schedule",
    "SourceProposal",
    "TableProfile",
]
