"""Copies of datasets with their last results."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db.models import QuerySet

from architecture.domain.health import Concern, Severity
from architecture.selectors.health import first_concerns
from architecture.services.environments import current_environment
from elevata.core.errors import as_sentence
from loader.domain.copies import SENSITIVE
from loader.models import CopyState
from metadata.models import DatasetCopy, System, TargetDataset
from metadata.selectors.copies import copies_page


@dataclass(frozen=True)
class CopyLine:
    """A copy, and its last result in this environment; None before the first one."""

    copy: DatasetCopy
    state: CopyState | None

    @property
    def page(self) -> str:
        return copies_page(self.copy)

    @property
    def status(self) -> str:
        """Return the state as pages show it."""
        return self.state.status if self.state is not None else "queued"

    @property
    def label(self) -> str:
        return self.state.get_status_display() if self.state is not None else "Not copied yet"


def copy_lines(dataset: TargetDataset) -> list[CopyLine]:
    """Return the copies of a dataset with their last results."""
    rows = DatasetCopy.objects.filter(dataset=dataset).select_related("dataset__schema", "system")
    return lines_of(rows.order_by("system__short_name", "table", "pk"))


def active_copies() -> QuerySet[DatasetCopy]:
    """Return the copies that runs make: of active datasets, to active systems."""
    rows = DatasetCopy.objects.filter(dataset__active=True, system__active=True)
    return rows.select_related("dataset__schema", "system")


def copies_in(system: System) -> QuerySet[DatasetCopy]:
    """Return the copies of datasets in a system."""
    rows = DatasetCopy.objects.filter(system=system).select_related("dataset__schema", "system")
    return rows.order_by("dataset__schema__name", "dataset__name", "table", "pk")


def lines_of(rows: Iterable[DatasetCopy]) -> list[CopyLine]:
    """Return copies with their last results."""
    copies = list(rows)
    if not copies:
        return []
    known = CopyState.objects.filter(environment=current_environment(), copy_key__among=[row.key for row in copies])
    states = {state.copy_key: state for state in known.select_related("run")}
    return [CopyLine(row, states.get(row.key)) for row in copies]


def failed_copies() -> list[Concern]:
    """Return the copies whose last attempt failed, or that lack columns which the metadata describe."""
    return first_concerns(_failed_copies())


def _failed_copies() -> Iterator[Concern]:
    for line in lines_of(active_copies().order_by("pk")):
        state = line.state
        left_out = [text for text in state.findings if text.startswith(SENSITIVE)] if state is not None else []
        if state is None or not (state.error or left_out):
            continue
        text = as_sentence((state.error or {}).get("message") or left_out[0])
        severity = Severity.ERROR if state.error else Severity.WARNING
        yield Concern("failed_copy", severity, f"Copy of {line.copy}", text, line.page)
