"""Comparisons of a dataset's data: dates, versions and environments."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from architecture.models import Environment
from architecture.services.environments import current_environment
from architecture.services.states import write_applied
from elevata.accounts.services.users import ensure_user, grant_role
from elevata.core.errors import MetadataError
from loader.domain.queries.masking import masked_names
from loader.models import ReadRequest
from loader.services.reads.manifests import read_manifest
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors.dataset_states import dataset_states
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, words
from tests.loader.factories import DatasetRunFactory, LoadRunFactory
from tests.loader.views.datasets.dataset_data import answered_read, ask, data, part

pytestmark = pytest.mark.django_db


def compare(dataset: TargetDataset, query: str = "") -> str:
    return f"/datasets/{dataset.key}/compare/{query}"


@pytest.fixture
def prod(airport: TargetDataset) -> Environment:
    return Environment.objects.create(name="prod", warehouse="/srv/prod/warehouse")


def test_two_dates_of_a_history_are_compared(reader: Client, airport: TargetDataset):
    assert 'name="by" value="dates"' in read(reader, compare(airport))
    text = read(reader, compare(airport, "?by=dates&base=2026-11-21T00:00:00&other=2026-11-22T00:00:00"))
    assert 'name="base" value="2026-11-21T00:00:00+00:00"' in text
    ask(reader, airport, kind="compare", by="dates", base="2026-11-21", other="2026-11-22")
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert (manifest.table.kind, manifest.arguments["other"]) == ("history", "2026-11-22T00:00:00+00:00")


def test_two_versions_of_a_table_are_offered_by_their_runs(reader: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    assert "no earlier state yet" in read(reader, compare(raw))
    for version in (3, 4):
        run = LoadRunFactory(run_id=f"r{version}", environment=current_environment())
        DatasetRunFactory(run=run, dataset=raw, table_version_after=version)
    text = words(read(reader, compare(raw)))
    assert "UTC · r3" in text
    ask(reader, raw, kind="compare", by="versions", base="3", other="4")
    assert read_manifest(read=ReadRequest.objects.get()).table.kind == "raw"


def test_comparison_with_another_environment_requires_the_permission_in_both(
    client: Client, reader: Client, airport: TargetDataset, prod: Environment, settings
):
    assert '<option value="prod"' in read(reader, compare(airport, "?by=environments"))
    ask(reader, airport, kind="compare", by="environments", base="prod")
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert manifest.arguments["warehouse"] == prod.warehouse
    assert [source.table.key for source in manifest.sources] == [manifest.table.key]
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", environment=settings.ENVIRONMENT)
    client.force_login(vera)
    assert 'value="prod"' not in read(client, compare(airport, "?by=environments"))
    fields = {"kind": "compare", "by": "environments", "base": "prod"}
    assert "no other environment" in words(html_of(ask(client, airport, **fields)))
    assert ReadRequest.objects.count() == 1


@pytest.fixture
def two_views(view: TargetDataset, prod: Environment) -> TargetDataset:
    """Return the stage view, which both environments have."""
    for state in dataset_states():
        write_applied(environment=prod, state=state, versions={}, execution=None, through=0)
    return view


def test_view_is_compared_with_another_environment_by_its_base_tables(
    reader: Client, two_views: TargetDataset, prod: Environment
):
    assert f'href="{compare(two_views)}"' in read(reader, data(two_views))
    assert '<option value="prod"' in read(reader, compare(two_views))
    ask(reader, two_views, kind="compare", by="environments", base="prod")
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert manifest.arguments["warehouse"] == prod.warehouse
    for sources in (manifest.sources, manifest.other_sources):
        assert [source.table.name for source in sources] == ["raw_air_airport", "stg_air_airport"]


def test_comparison_of_earlier_versions_of_a_view_is_refused(reader: Client, view: TargetDataset):
    assert "there is no other whose data you may read" in words(read(reader, compare(view)))
    fields = {"kind": "compare", "by": "versions", "base": "1", "other": "2"}
    assert "which has no earlier states" in words(html_of(ask(reader, view, **fields)))


def test_comparison_of_a_view_requires_permission_for_its_tables_in_both_environments(
    client: Client, two_views: TargetDataset, settings
):
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", environment=settings.ENVIRONMENT)
    grant_role(user=vera, role="viewer", schema=two_views.schema.name)
    client.force_login(vera)
    ask(client, two_views, kind="compare", by="environments", base="prod")
    with pytest.raises(MetadataError, match="raw_air_airport"):
        read_manifest(read=ReadRequest.objects.get())


def test_sensitive_values_are_compared_with_the_permission_in_both_environments(
    client: Client, airport: TargetDataset, prod: Environment, settings
):
    TargetColumn.objects.filter(dataset=airport, name="name").update(pii=True)
    vera = ensure_user(name="vera", roles=["viewer"])
    grant_role(user=vera, role="steward", environment=settings.ENVIRONMENT)
    client.force_login(vera)
    ask(client, airport, kind="compare", by="environments", base="prod")
    manifest = read_manifest(read=ReadRequest.objects.get())
    for masking in (manifest.masking, manifest.sources[0].masking):
        assert "name" in masked_names(manifest.table.columns, masking)


def test_a_difference_shows_changed_values_before_and_after(reader: Client, airport: TargetDataset, person: User):
    samples = {"columns": ["icao", "name"], "added": [["EDDF", "New"]], "gone": [], "changed": []}
    samples["changed"] = [{"before": ["EDDB", "Old"], "after": ["EDDB", "Berlin"]}]
    difference = {
        "table": str(airport),
        "table_version": 7,
        "key": ["icao"],
        "rows": {"added": 1, "changed": 1, "gone": 0, "same": 5},
        "columns": {"added": [], "gone": [], "retyped": [], "left_out": ["elevation"]},
        "changed": {"name": 1},
        "repeated_keys": 0,
        "samples": samples,
    }
    made = answered_read(airport, person, "compare", difference=difference)
    ReadRequest.objects.filter(pk=made.pk).update(arguments={"by": "versions", "base": "6", "other": "7"})
    text = part(reader, made)
    assert "version 6 to version 7" in words(text)
    assert "1 added, 1 changed, 0 gone, 5 the same" in words(text)
    assert "elevation is masked for you and not compared" in words(text)
    assert "<del>Old</del> → <ins>Berlin</ins>" in text
    assert html_of(reader.get(f"/reads/{made.pk}/rows.csv")).splitlines() == [
        '"row","before.icao","before.name","after.icao","after.name"',
        '"added",,,"EDDF","New"',
        '"changed","EDDB","Old","EDDB","Berlin"',
    ]


def test_a_comparison_with_more_rows_than_it_shows_has_all_of_them_as_csv(
    reader: Client, airport: TargetDataset, person: User, settings, tmp_path: Path
):
    settings.EXPORT_FOLDER = str(tmp_path)
    samples = {"columns": ["icao"], "added": [["EDDF"]], "gone": [], "changed": []}
    difference = {
        "table": str(airport),
        "table_version": 7,
        "key": ["icao"],
        "rows": {"added": 2, "changed": 0, "gone": 0, "same": 5},
        "columns": {"added": [], "gone": [], "retyped": [], "left_out": []},
        "changed": {},
        "repeated_keys": 0,
        "samples": samples,
        "exported": 2,
    }
    made = answered_read(airport, person, "compare", difference=difference)
    ReadRequest.objects.filter(pk=made.pk).update(arguments={"by": "versions", "base": "6", "other": "7"})
    assert "Shown are 1 of 2 rows that differ, the first of each kind. The CSV file has all of them." in words(
        part(reader, made)
    )
    (tmp_path / f"{made.pk}.csv").write_text('"row","before.icao","after.icao"\n"added",,"EDDF"\n"added",,"EDDG"\n')
    answer = reader.get(f"/reads/{made.pk}/rows.csv")
    assert b"".join(answer.streaming_content).decode().count("\n") == 3
    rows = reader.get(f"/api/v1/reads/{made.pk}/rows/")
    assert (rows["Content-Type"], rows["X-Truncated"]) == ("text/csv; charset=utf-8", "false")
