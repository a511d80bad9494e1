"""Tables of the loader: load runs, their datasets, reads, workers."""

from loader.models.read import ReadRequest
from loader.models.run import DatasetRun, LoadRun, RunEvent
from loader.models.worker import Worker

__all__ = ["DatasetRun", "LoadRun", "ReadRequest", "RunEvent", "Worker"]
