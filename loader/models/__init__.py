"""Tables of the loader: load runs, their datasets, schedules, reads."""

from loader.models.read import ReadRequest
from loader.models.record import GovernedRunRecord
from loader.models.run import DatasetRun, LoadRun, RunEvent
from loader.models.schedule import Schedule

__all__ = ["DatasetRun", "GovernedRunRecord", "LoadRun", "ReadRequest", "RunEvent", "Schedule"]
