"""Tables of the loader: load runs, their datasets, schedules, reads, saved queries, proposals."""

from loader.models.jobs import DatasetRun, LoadRun, MaintenanceRecord, ReadRequest, RunEvent, SavedQuery, Schedule
from loader.models.source_proposals import SourceProposal

__all__ = [
    "DatasetRun",
    "LoadRun",
    "MaintenanceRecord",
    "ReadRequest",
    "RunEvent",
    "SavedQuery",
    "Schedule",
    "SourceProposal",
]
