"""Tables of the loader: load runs, their datasets, schedules, reads, saved queries."""

from loader.models.jobs import DatasetRun, LoadRun, MaintenanceRecord, ReadRequest, RunEvent, SavedQuery, Schedule

__all__ = ["DatasetRun", "MaintenanceRecord", "LoadRun", "ReadRequest", "RunEvent", "SavedQuery", "Schedule"]
