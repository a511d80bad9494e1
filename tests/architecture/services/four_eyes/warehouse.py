"""In-memory warehouse with a runner that speaks the protocol of runners in this process."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from architecture.domain.steps.step import Step, TableShape
from loader.contract.manifest.executions import ExecuteManifest, ObserveManifest
from loader.contract.manifest.loads import LoadManifest
from tests.architecture.world import Warehouse

Event = dict[str, Any]


@dataclass(frozen=True)
class Stepped:
    """Executed step, with its table before and after."""

    step: Step
    before: TableShape | None
    after: TableShape | None


class Exchange:
    """Exchange of one request, which ends with the event ``finished``."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = deque(events)

    def next(self, timeout: float) -> Event | None:
        return self._events.popleft()

    def cancel(self) -> None:
        self._events.clear()


@dataclass
class Runner:
    """Runner that executes requests at once. ``meanwhile`` has a function for a kind of request, called once.

    ``fails_at`` is the step that fails; with ``maintenance_fails``, maintenance runs fail at their end. ``loads``,
    ``steps`` and the number ``maintained`` are the effects on the warehouse.
    """

    warehouse: Warehouse
    meanwhile: dict[str, Callable[[], None]] = field(default_factory=dict)
    fails_at: int | None = None
    loads: list[LoadManifest] = field(default_factory=list)
    steps: list[Stepped] = field(default_factory=list)
    maintained: int = 0
    maintenance_fails: bool = False

    def request(self, kind: str, manifest: Any) -> Exchange:
        answers = {
            "observe": self._observe,
            "execute": self._execute,
            "load": self._load,
            "publish": self._publish,
            **dict.fromkeys(("prune", "revert", "quarantine_decision"), self._maintain),
        }
        exchange = Exchange(answers[kind](manifest))
        self.meanwhile.pop(kind, lambda: None)()
        return exchange

    def kill(self, why: Exception) -> None:
        raise AssertionError(f"nothing hangs here: {why}")

    def _observe(self, manifest: ObserveManifest) -> Iterator[Event]:
        tables = {key: asdict(self.warehouse.table(key)) for key in manifest.tables if key in self.warehouse.shapes}
        yield {"event": "finished", "status": "succeeded", "answer": tables}

    def _execute(self, manifest: ExecuteManifest) -> Iterator[Event]:
        for ordinal, step in enumerate(manifest.steps):
            if ordinal in manifest.done:
                continue
            key = step.table.key
            yield {"event": "step_started", "ordinal": ordinal, "version_before": self.warehouse.versions.get(key)}
            if ordinal == self.fails_at:
                error = {"code": "STEP_FAILED", "message": "the disk is full"}
                yield {"event": "step_finished", "ordinal": ordinal, "status": "failed", "error": error}
                yield {"event": "finished", "status": "failed"}
                return
            self._do(step)
            table = self.warehouse.table(key)
            yield {
                "event": "step_finished",
                "ordinal": ordinal,
                "status": "succeeded",
                "observed": asdict(table) if table is not None and not table.dropped else None,
                "version_after": self.warehouse.versions.get(key),
            }
        yield {"event": "finished", "status": "succeeded"}

    def _do(self, step: Step) -> None:
        key = step.table.key
        before = self.warehouse.shapes.get(key)
        self.warehouse.do(step)
        self.steps.append(Stepped(step, before, self.warehouse.shapes.get(key)))

    def _publish(self, manifest: Any) -> Iterator[Event]:
        yield {"event": "finished", "status": "succeeded", "answer": {"names": 0, "findings": []}}

    def _maintain(self, manifest: Any) -> Iterator[Event]:
        self.maintained += 1
        if self.maintenance_fails:
            yield {"event": "finished", "status": "failed", "error": {"code": "NOT_ARCHIVED", "message": "no room"}}
            return
        yield {"event": "finished", "status": "succeeded", "answer": {}}

    def _load(self, manifest: LoadManifest) -> Iterator[Event]:
        self.loads.append(manifest)
        for item in (*manifest.raw, *manifest.rawcore, *manifest.models):
            yield {"event": "dataset_started", "dataset": item.dataset}
            yield {"event": "dataset_finished", "dataset": item.dataset, "status": "succeeded", "counts": {"rows": 3}}
        yield {"event": "finished", "status": "succeeded"}
