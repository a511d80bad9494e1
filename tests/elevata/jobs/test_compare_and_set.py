"""Updates of jobs, which are a compare-and-set only through ``Job`` itself."""

import ast
from collections.abc import Iterator

from elevata.bootstrap.places import ROOT
from elevata.core.installation import PACKAGES
from elevata.jobs.models import Job

FIELDS = {field.name for field in Job._meta.get_fields()} | {"requested_by_id"}
EXTENDING = {model.__name__ for model in Job.__subclasses__()}


def updates(source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line and fields of every update of Job's fields through a model that extends Job."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
            names = {inner.id for inner in ast.walk(node.func) if isinstance(inner, ast.Name)}
            fields = sorted(FIELDS & {keyword.arg for keyword in node.keywords})
            if names & EXTENDING and fields:
                yield node.lineno, fields


def test_no_service_updates_a_job_through_a_model_that_extends_it():
    files = [path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")]
    report = {str(path.relative_to(ROOT)): list(updates(path.read_text())) for path in files}
    assert {path: lines for path, lines in report.items() if lines} == {}


def test_search_finds_an_update_of_job_fields_through_load_run():
    assert {"Delivery", "Execution", "LoadRun", "ReadRequest", "Refresh", "DryRun"} == EXTENDING
    source = "LoadRun.objects.filter(pk=1).update(status='lost', execution=None)"
    assert list(updates(source)) == [(1, ["status"])]
