"""Deliveries whose reading takes all memory, beside the load of another dataset, on the real engine.

DuckDB reads the tables afterwards; the expected rows are computed from the deliveries alone.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loader.readers.records.memory import MOST_MEMORY
from tests.loader.installation import ITEM, SHOP, Installation, make_installation, working
from tests.loader.processes import below

# Embedded stores, even if the session uses servers: each test has a data folder of its own.
pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.takes(seconds=180)]

DOCUMENT = "rawcore.rc_shop_document"
DESCRIBED = f"""{SHOP}
    - name: document
      location: document.json
      format: json
      columns:
        - {{name: id, type: integer, business_key: 1}}
        - {{name: v, type: json}}
"""
ITEMS, LISTS = 20_000, 60_000_000
OTHERS = 1 << 30  # bytes of a task without the data that it reads
RUNNER = "from elevata.jobs.models import Worker; print(Worker.objects.get().runner_pid)"


class Peak:
    """Largest resident memory of a Python process below a worker, in bytes."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._pid, self._over = pid, threading.Event()
        self._thread = threading.Thread(target=self._measure)

    @contextmanager
    def measured(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    def _measure(self) -> None:
        while not self._over.wait(0.5):
            for pid in below(self._pid):
                self.bytes = max(self.bytes, self._peak_of(pid))

    @staticmethod
    def _peak_of(pid: int) -> int:
        try:
            state = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        fields = dict(line.split(":", 1) for line in state.split("\n") if ":" in line)
        return int(fields.get("VmHWM", "0").split()[0]) << 10 if "java" not in fields["Name"] else 0


def check(shop: Installation, *, price: int, documents: list[list]) -> None:
    """Check the rows of both datasets in DuckDB."""
    queries = (f"SELECT count(*), sum(price) FROM {ITEM}", f"SELECT id, v FROM {DOCUMENT} ORDER BY id")
    assert shop.read_in_duckdb(*queries) == [[[ITEMS, sum(range(ITEMS)) + ITEMS * price]], documents]


def deliver(shop: Installation, *, price: int, lists: int) -> None:
    shop.deliver(item=("id,name,price,colour", *(f"{key},n{key},{key + price},red" for key in range(ITEMS))))
    with (shop.folder / "landing" / "document.json").open("w") as file:
        file.write('[{"id": 1, "v": [1]},\n{"id": 2, "v": [' + "[]," * lists + "[]]}]\n")


def test_delivery_that_takes_too_much_memory_is_refused_while_another_dataset_is_loaded(tmp_path: Path):
    shop = make_installation(tmp_path / "data", DESCRIBED)
    with working(shop) as worker:
        deliver(shop, price=1, lists=1)
        shop.load("one")
        documents = [[1, "[1]"], [2, "[[],[]]"]]
        check(shop, price=1, documents=documents)
        runner, peak = shop.shell(RUNNER), Peak(worker.pid)
        deliver(shop, price=2, lists=LISTS)
        with peak.measured():
            run = shop.load("two", status="failed")
        errors = {part["error"]["code"]: part["error"] for part in run["datasets"] if part.get("error")}
        assert set(errors) <= {"TOO_LARGE", "INPUT_FAILED"}, errors
        error = errors["TOO_LARGE"]
        assert (error["row"], "document.json: record 2 takes more than" in error["message"]) == (2, True)
        assert MOST_MEMORY / 2 < peak.bytes < MOST_MEMORY + OTHERS
        assert shop.shell(RUNNER) == runner
        check(shop, price=2, documents=documents)
        deliver(shop, price=3, lists=2)
        shop.load("three")
        check(shop, price=3, documents=[documents[0], [2, "[[],[],[]]"]])
