"""Tables of the loader: load runs, their datasets, schedules, reads, saved queries, proposals, results of checks."""

from loader.models.jobs import DatasetRun, LoadRun, RunEvent
from loader.models.maintenance_records import MaintenanceRecord
from loader.models.quality import CheckResult, TableProfile
from loader.models.reads import ReadRequest, SavedQuery
from loader.models.schedules import Schedule
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
