"""Refreshes performed as by a worker, on the in-memory warehouse."""

from dataclasses import asdict, dataclass
from typing import Any

from architecture.models import Refresh
from loader.services.reads.attempts import perform_refresh
from tests.architecture.world import Warehouse, World


@dataclass
class FinishedExchange:
    """Exchange with a runner that has already finished."""

    finished: dict[str, Any]

    def next(self, timeout: float) -> dict[str, Any]:
        return {"event": "finished", **self.finished}

    def cancel(self) -> None:
        """Do nothing, because the request is finished."""


@dataclass
class Observer:
    """Runner that observes the warehouse, or refuses with an error."""

    warehouse: Warehouse
    error: dict[str, Any] | None = None

    def request(self, kind: str, manifest: Any) -> FinishedExchange:
        if self.error is not None:
            return FinishedExchange({"status": "failed", "error": self.error})
        present = [key for key in manifest.tables if key in self.warehouse.shapes]
        tables = {key: asdict(self.warehouse.table(key)) for key in present}
        sizes = {key: {"rows": 3, "bytes": 1000, "files": 1} for key in present}
        return FinishedExchange({"status": "succeeded", "answer": sizes if kind == "sizes" else tables})


def observed(world: World, pk: int | None = None, error: dict[str, Any] | None = None) -> Refresh:
    """Perform the refresh with this key, or the newest one, and return it."""
    refresh = Refresh.objects.latest("pk") if pk is None else Refresh.objects.get(pk=pk)
    perform_refresh(refresh.pk, worker="test", runner=Observer(world.warehouse, error))
    return Refresh.objects.select_related("report", "preview").get(pk=refresh.pk)
