from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from django.apps import AppConfig

if TYPE_CHECKING:
    from architecture.domain.steps.step import Step
    from elevata.notifications.models import Event


class LoaderConfig(AppConfig):
    name = "loader"

    def ready(self) -> None:
        from architecture.domain.dialect_statements import RENDERER
        from architecture.selectors.health import CHECKS
        from architecture.services.refreshes import LOCAL_WORKER
        from architecture.services.undo_options import WRITING_RUNS
        from elevata.audit.services.row_seals import SEALED_MODELS
        from elevata.jobs.registry import HANDLERS
        from elevata.notifications.deliveries import OPENLINEAGE_EVENTS
        from elevata.web.search import KINDS
        from elevata.web.subjects import FINDERS, Finder
        from loader import jobs, search
        from loader.schedules.overlaps import overlapping_schedules
        from loader.schedules.selectors import schedule_subject
        from loader.selectors.copies import failed_copies, lines_of
        from loader.selectors.reads import saved_query_subject
        from loader.selectors.source_state import held_marks
        from loader.services.loads.applied_runs import runs_that_wrote
        from loader.services.sealed_rows import SEALED
        from metadata.selectors.copies import COPY_RESULTS

        CHECKS.add(overlapping_schedules, held_marks, failed_copies)
        COPY_RESULTS.provide(lines_of)
        FINDERS.add(Finder("schedule", schedule_subject), Finder("saved_query", saved_query_subject))
        HANDLERS.add(*jobs.HANDLERS)
        KINDS.add(*search.KINDS)
        LOCAL_WORKER.provide(_perform_here)
        OPENLINEAGE_EVENTS.provide(_openlineage_events)
        RENDERER.provide(_ReportStatements())
        SEALED_MODELS.add(*SEALED.items())
        WRITING_RUNS.provide(runs_that_wrote)


# Modules that few processes need are imported when they are called.


class _ReportStatements:
    """Renderer of reports' steps in the dialects, which are imported when they are needed."""

    titles: ClassVar[Mapping[str, str]] = {
        "bigquery": "BigQuery",
        "databricks": "Databricks",
        "duckdb": "DuckDB",
        "fabric": "Fabric Warehouse",
        "mssql": "SQL Server",
        "postgres": "PostgreSQL",
        "snowflake": "Snowflake",
    }

    def type_of(self, text: str, dialect: str) -> str:
        from loader.dialects.catalog import DIALECTS

        return str(DIALECTS[dialect].canonical_type(text))

    def statements(self, steps: Iterable["Step"], dialect: str, refused: Mapping[int, str]) -> Mapping[int, list[str]]:
        from loader.dialects.report_statements import statements_by_operation

        return statements_by_operation(steps, dialect, refused)


def _perform_here(job_pk: int) -> str:
    from loader.management.waiting import perform_here

    return perform_here(job_pk)


def _openlineage_events(event: "Event") -> Iterable[bytes]:
    from loader.openlineage import events_of

    return events_of(event)
