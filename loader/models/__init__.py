"""Tables of the loader: load runs, their datasets, schedules, reads, saved queries, proposals, results of checks."""

from loader.models.jobs import DatasetRun, LoadRun, MaintenanceRecord, ReadRequest, RunEvent, SavedQuery, Schedule
from loader.models.quality import CheckResult, TableProfile
from loader.models.source_proposals import SourceProposal

__all__ = [
    "CheckResult",
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
