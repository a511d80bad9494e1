"""Memory of a runner over many loads."""

import resource
from pathlib import Path

import pytest

from tests.fixtures.spark import held_in_memory
from tests.loader.harness import Dataset

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.takes(seconds=600)]

LOADS, WARM = 200, 60
MOST_BYTES = 48 << 20


def java_bytes(spark) -> int:
    """Return the bytes of live objects in the JVM."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    for _ in range(3):
        spark._jvm.java.lang.System.gc()
    return runtime.totalMemory() - runtime.freeMemory()


def python_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_memory_does_not_grow_over_two_hundred_loads(spark, tmp_path):
    item = Dataset(spark, tmp_path, columns={"id": "integer", "v": "string"}, policy={})
    before = (0, 0)
    for number in range(LOADS):
        rows = [{"id": key, "v": f"{key}-{number if key % 3 == number % 3 else 0}"} for key in range(50)]
        at = f"2024-{number // 28 + 1:02d}-{number % 28 + 1:02d}T00:00:00Z"
        status, _ = item.load(rows, at=at, small_rows=0 if number % 2 else 50_000)
        assert status == "succeeded"
        if number == WARM:
            before = java_bytes(spark), python_bytes()
    after = java_bytes(spark), python_bytes()
    assert [late - early for early, late in zip(before, after, strict=True) if late - early > MOST_BYTES] == []
    assert held_in_memory(spark) == []
