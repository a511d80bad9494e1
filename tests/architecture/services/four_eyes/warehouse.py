"""A warehouse in memory, and the runner that changes it: it speaks the runner's protocol in this process."""

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
    """A step that changed a table."""

    step: Step
    before: TableShape | None
    after: TableShape | None


class Exchange:
    """The answer to one request, its last event says that it is finished."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = deque(events)

    def next(self, timeout: float) -> Event | None:
        return self._events.popleft()

    def cancel(self) -> None:
        self._events.clear()


@dataclass
class Runner:
    """Does what it is asked at once. ``meanwhile`` is called once, when a request of that kind comes in.

    ``fails_at`` is the step that fails; with ``maintenance_fails``, runs of maintenance fail at their end. ``loads``,
    ``steps`` and the number ``maintained`` are what reached the warehouse.
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

    def _observe(self, asked: ObserveManifest) -> Iterator[Event]:
        tables = {key: asdict(self.warehouse.table(key)) for key in asked.tables if key in self.warehouse.shapes}
        yield {"event": "finished", "status": "succeeded", "answer": tables}

    def _execute(self, asked: ExecuteManifest) -> Iterator[Event]:
        for ordinal, step in enumerate(asked.steps):
            if ordinal in asked.done:
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

    def _publish(self, asked: Any) -> Iterator[Event]:
        yield {"event": "finished", "status": "succeeded", "answer": {"names": 0, "findings": []}}

    def _maintain(self, asked: Any) -> Iterator[Event]:
        self.maintained += 1
        if self.maintenance_fails:
            yield {"event": "finished", "status": "failed", "error": {"code": "NOT_ARCHIVED", "message": "no room"}}
            return
        yield {"event": "finished", "status": "succeeded", "answer": {}}

    def _load(self, asked: LoadManifest) -> Iterator[Event]:
        self.loads.append(asked)
        for item in (*asked.raw, *asked.rawcore, *asked.models):
            yield {"event": "dataset_started", "dataset": item.dataset}
            yield {"event": "dataset_finished", "dataset": item.dataset, "status": "succeeded", "counts": {"rows": 3}}
        yield {"event": "finished", "status": "succeeded"}
