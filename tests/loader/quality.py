"""Loads with quality checks for tests of the engine."""

from dataclasses import replace

from loader.contract.manifest.checks import CheckSpec
from loader.contract.manifest.loads import LoadManifest
from tests.loader.harness import Dataset, finished

DAY = [f"2024-01-{n:02d}T00:00:00Z" for n in range(1, 29)]
COLUMNS = {"id": "integer", "name": "string", "price": "decimal(10,2)", "at": "timestamp"}
_OWN = ("other", "past", "query", "views", "own_view")


def check(kind: str, severity: str = "warn", name: str = "", **arguments) -> CheckSpec:
    """Return a check whose key is its name."""
    own = {field: arguments.pop(field) for field in _OWN if field in arguments}
    return CheckSpec(name or kind, name or kind, kind, severity, arguments, **own)


def row(id: int, name: str | None = "a", price: str | None = "1.00", at: str = "2024-01-01T00:00:00Z") -> dict:
    return {"id": id, "name": name, "price": price, "at": at}


def checked_manifest(item: Dataset, rows: list[dict], *checks: CheckSpec, at: str = DAY[0], **changes) -> LoadManifest:
    item.prepare()
    item.sequence += 1
    manifest = item.manifest(item.deliver(rows), at=at, run_id=f"run-{item.sequence}")
    return replace(manifest, rawcore=(replace(manifest.rawcore[0], quality=checks, **changes),))


def load(item: Dataset, rows: list[dict], *checks: CheckSpec, at: str = DAY[0], **changes) -> tuple[dict, dict]:
    """Load the rows with checks; return the finishing event and the results by name."""
    _, events = item.attempt(checked_manifest(item, rows, *checks, at=at, **changes))
    reported = [event["results"] for event in events if event["event"] == "dataset_checked"]
    results = {result["name"]: result for result in (reported[-1] if reported else ())}
    return finished(events, item.state.key), results
