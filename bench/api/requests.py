"""Requests of API clients: mostly reads, and one in ten a write with the version it read."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from metadata.models import TargetColumn, TargetDataset

WRITES = 0.1
# What programs do between writes, and how often of a hundred readings.
_READINGS = (
    ("list of datasets", 20),
    ("list of columns", 10),
    ("one dataset", 30),
    ("one column", 15),
    ("text search", 10),
    ("list of load runs", 10),
    ("list of reports", 5),
)


@dataclass(frozen=True)
class Asked:
    """One request. ``of`` is the column that a write reads and then changes."""

    name: str
    path: str
    of: str = ""
    body: dict[str, Any] = field(default_factory=dict)


def requests(count: int, seed: int, client: int, clients: int) -> Iterator[Asked]:
    """Yield ``count`` requests of one client; no two clients write the same column."""
    draw = random.Random(f"{seed}/{client}")
    datasets = [str(key) for key in TargetDataset.objects.order_by("pk").values_list("key", flat=True)]
    columns = [str(key) for key in TargetColumn.objects.order_by("pk").values_list("key", flat=True)[:20_000]]
    own = columns[client::clients]
    names, weights = zip(*_READINGS, strict=True)
    for number in range(count):
        if draw.random() < WRITES:
            key = draw.choice(own)
            text = f"Written by client {client}, request {number}."
            yield Asked("change of a column", f"/api/v1/columns/{key}/", key, {"description": text})
            continue
        name = draw.choices(names, weights)[0]
        yield Asked(name, _path(name, draw, datasets, columns))


def _path(name: str, draw: random.Random, datasets: list[str], columns: list[str]) -> str:
    match name:
        case "list of datasets":
            return f"/api/v1/datasets/?page={draw.randint(1, len(datasets) // 50)}"
        case "list of columns":
            return "/api/v1/columns/?cursor="
        case "one dataset":
            return f"/api/v1/datasets/{draw.choice(datasets)}/"
        case "one column":
            return f"/api/v1/columns/{draw.choice(columns)}/"
        case "text search":
            return f"/api/v1/datasets/?q={draw.choice(('customer', 'invoice', 'price', 'order'))}"
        case "list of load runs":
            return "/api/v1/load-runs/"
        case _:
            return "/api/v1/reports/"
