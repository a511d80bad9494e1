"""Places of workflow actions, for roles that are granted for an environment, a layer or a schema."""

from collections.abc import Callable
from dataclasses import replace

from django.conf import settings

from architecture.domain.operations import operation_of
from architecture.models import ChangeReport, Environment, Execution
from metadata.domain.roles import Place
from metadata.models import SourceDataset, System, TargetDataset, TargetSchema
from metadata.row_places import place_of


def here() -> Place:
    """The environment of this installation: loads, looks and schedules belong to it."""
    return Place(environment=settings.ENVIRONMENT)


def place_of_data(row: TargetDataset | SourceDataset | System) -> Place:
    """Return where data is read: the environment of this installation, and the schema of a target dataset."""
    return replace(place_of(row), environment=settings.ENVIRONMENT)


def place_of_environment(environment: Environment) -> Place:
    return Place(environment=environment.name)


def place_of_report(report: ChangeReport) -> Callable[[], Place]:
    """A report's environment, and the schemas that it changes something in; found out when it is asked for."""

    def found() -> Place:
        names = {operation_of(row).dataset.rpartition(".")[0] for row in report.document["rows"]}
        layers = dict(TargetSchema.objects.filter(name__in=names).values_list("name", "layer"))
        # A schema that nothing describes any more is in no layer: only a grant by its name covers it.
        schemas = frozenset((name, layers.get(name, "")) for name in names)
        return Place(environment=report.environment.name, schemas=schemas)

    return found


def place_of_execution(execution: Execution) -> Callable[[], Place]:
    """That of its report; its environment if a load run brought it along."""
    if execution.report is not None:
        return place_of_report(execution.report)
    return lambda: place_of_environment(execution.environment)
