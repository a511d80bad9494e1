"""Tests that every service that writes metadata adds entries that match the changes of the tables."""

import ast
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import metadata.services
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError
from metadata.domain.types import DataType
from metadata.models import SourceDataset, TargetDataset
from metadata.services import deletion, lifecycle, references, source_contracts, sources
from metadata.services.datasets import column_batches, generation, targets
from metadata.services.exchange import metadata_files
from metadata.services.rows import subjects
from tests.factories import (
    DatasetInputFactory,
    SystemFactory,
    TargetDatasetFactory,
    TargetSchemaFactory,
    airport_source,
)
from tests.metadata.change_log import (
    MODELS,
    changes,
    column,
    current,
    entries,
    expected,
    generated,
    referring,
    retired_column,
    retired_dataset,
    snapshot,
    taken_back,
)

pytestmark = pytest.mark.django_db

AIRPORTS = Path(__file__).resolve().parents[4] / "examples" / "airports"


def _retire_reference() -> Callable:
    row = referring()
    return lambda: references.retire_reference(reference=row, **current(row))


def _unretire_reference() -> Callable:
    row = references.retire_reference(reference=referring(), expected_version=1)
    return lambda: references.unretire_reference(reference=row, **current(row))


def _update_reference() -> Callable:
    row = referring()
    return lambda: references.update_reference(reference=row, unknown_parent="refuse", **current(row))


def _create_reference() -> Callable:
    row = referring()
    pairs = [(pair.child_column, pair.parent_column) for pair in row.pairs.all()]
    return lambda: references.create_reference(child=row.child, parent=row.parent, role_name="again", pairs=pairs)


def _create_system() -> Callable:
    return lambda: sources.create_system(name="Air", short_name="air", tags=["a"])


def _update_system() -> Callable:
    row = SystemFactory()
    return lambda: sources.update_system(system=row, owner="Kim", active=False, **current(row))


def _create_source_dataset() -> Callable:
    row = SystemFactory()
    return lambda: sources.create_source_dataset(system=row, name="d", location="d.csv", options={"delimiter": ";"})


def _update_source_dataset() -> Callable:
    row = airport_source()
    return lambda: sources.update_source_dataset(source_dataset=row, location="x.csv", **current(row))


def _create_source_column() -> Callable:
    row = airport_source()
    return lambda: sources.create_source_column(source_dataset=row, name="lid", type="string(3)")


def _update_source_column() -> Callable:
    row = airport_source().columns.get(name="elevation")
    return lambda: sources.update_source_column(source_column=row, type="decimal(8,2)", name="height", **current(row))


def _create_schema() -> Callable:
    return lambda: targets.create_schema(name="mart", layer="bizcore")


def _update_schema() -> Callable:
    row = TargetSchemaFactory()
    return lambda: targets.update_schema(schema=row, name="core", **current(row))


def _create_target_dataset() -> Callable:
    upstream, schema = generated(), TargetSchemaFactory(name="bizcore", layer="bizcore")
    return lambda: targets.create_target_dataset(schema=schema, name="places", inputs=[upstream])


def _update_target_dataset() -> Callable:
    row = generated()
    return lambda: targets.update_target_dataset(dataset=row, historize=False, description="x", **current(row))


def reading() -> TargetDataset:
    upstream = generated()
    row = TargetDatasetFactory(schema=TargetSchemaFactory(name="bizcore", layer="bizcore"), name="places")
    DatasetInputFactory(dataset=row, upstream=upstream)
    return row


def _create_target_column() -> Callable:
    row = reading()
    return lambda: targets.create_target_column(dataset=row, name="n", type="string", expression="upper(name)")


def _update_target_column() -> Callable:
    row = targets.create_target_column(dataset=reading(), name="n", type="string", expression="upper(name)")
    return lambda: targets.update_target_column(column=row, expression="upper(icao)", type="string(9)", **current(row))


def _update_with_inputs() -> Callable:
    row = column(generated(), "name")
    inputs = [column(TargetDataset.objects.get(name="stg_air_airport"), "icao")]
    return lambda: targets.update_target_column(column=row, inputs=inputs, **current(row))


def _create_with_columns() -> Callable:
    upstream, schema = generated(), TargetSchemaFactory(name="bizcore", layer="bizcore")
    return lambda: targets.create_target_dataset(schema=schema, name="places", inputs=[upstream], take_columns=True)


def _order_target_columns() -> Callable:
    row = generated()
    previous = list(row.columns.order_by("ordinal"))
    return lambda: targets.order_target_columns(dataset=row, order=previous[::-1], seen=previous)


def _edit_target_columns() -> Callable:
    row = generated()
    swapped = {"icao": ("attribute", None), "name": ("business_key", 1)}
    edits = [
        column_batches.ColumnEdit(name, {"role": role, "key_ordinal": place}, column(row, name), 1)
        for name, (role, place) in swapped.items()
    ]
    edits.append(column_batches.ColumnEdit("note", {"type": "string"}))
    return lambda: column_batches.edit_target_columns(dataset=row, edits=edits)


def _set_dataset_inputs() -> Callable:
    row = reading()
    stage = TargetDataset.objects.get(name="stg_air_airport")
    return lambda: targets.set_dataset_inputs(dataset=row, inputs=[stage], **current(row))


def _rename_dataset() -> Callable:
    row = generated()
    return lambda: lifecycle.rename_dataset(dataset=row, name="rc_airfield", **current(row))


def _rename_column() -> Callable:
    generated()
    stage = TargetDataset.objects.get(name="stg_air_airport")
    read_by = column(TargetDataset.objects.get(name="rc_air_airport"), "name")
    targets.update_target_column(column=read_by, expression="upper(name)", **current(read_by))
    row = column(stage, "name")
    return lambda: lifecycle.rename_column(column=row, name="title", **current(row))


def _retire_dataset() -> Callable:
    row = generated()
    return lambda: lifecycle.retire_dataset(dataset=row, **current(row))


def _unretire_dataset() -> Callable:
    row = retired_dataset()
    return lambda: lifecycle.unretire_dataset(dataset=row, **current(row))


def _retire_column() -> Callable:
    row = column(generated(), "name")
    return lambda: lifecycle.retire_column(column=row, **current(row))


def _unretire_column() -> Callable:
    row = retired_column()
    return lambda: lifecycle.unretire_column(column=row, **current(row))


def _generate_targets() -> Callable:
    row = airport_source()
    return lambda: generation.generate_targets(source_dataset=row)


def _generate_again() -> Callable:
    generated()
    source = SourceDataset.objects.get()
    sources.create_source_column(source_dataset=source, name="lid", type="string")
    retired = source.columns.get(name="name")
    sources.update_source_column(source_column=retired, active=False, **current(retired))
    return lambda: generation.generate_targets(source_dataset=source)


def _take_columns() -> Callable:
    generated()
    source = SourceDataset.objects.get()
    return lambda: source_contracts.take_columns(source_dataset=source, proposals=[{"name": "lid", "type": "string"}])


def _import_source_dataset() -> Callable:
    system = SystemFactory()
    columns = [
        source_contracts.ImportedColumn("code", DataType("string")),
        source_contracts.ImportedColumn("size", DataType("integer")),
    ]
    return lambda: source_contracts.import_source_dataset(
        system=system, name="parts", location="parts.csv", columns=columns
    )


def _change_contract() -> Callable:
    source = airport_source()
    added = source_contracts.ImportedColumn("lid", DataType("string"))
    versions = {row.name: row.version for row in source.columns.all()}
    changes = source_contracts.ContractChanges(retire=("name",), add=(added,), seen=versions)
    return lambda: source_contracts.change_contract(source_dataset=source, changes=changes)


def _delete_column() -> Callable:
    row = retired_column()
    return lambda: deletion.delete_column(column=row, **current(row))


def _delete_dataset() -> Callable:
    row = retired_dataset()
    return lambda: deletion.delete_dataset(dataset=row, **current(row))


def _delete_system() -> Callable:
    row = SystemFactory()
    return lambda: deletion.delete_system(system=row, **current(row))


def _delete_schema() -> Callable:
    row = TargetSchemaFactory()
    return lambda: deletion.delete_schema(schema=row, **current(row))


def _import_metadata() -> Callable:
    return lambda: metadata_files.import_metadata(AIRPORTS)


SCENARIOS: dict[str, Callable[[], Callable]] = {
    name.removeprefix("_"): made
    for name, made in list(globals().items())
    if name.startswith("_") and inspect.isfunction(made) and inspect.signature(made).return_annotation is Callable
}


def writing_services() -> set[str]:
    """Return all public services that write metadata rows, recognised by the unit of work that they open."""
    names = set()
    for module in (sources, targets, column_batches, lifecycle, references, generation, metadata_files):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                source = inspect.getsource(function)
                if "with writing(" in source or "_set_active(" in source:
                    names.add(name)
    return names


def test_change_log_scenarios_cover_every_writing_service() -> None:
    assert writing_services() - set(SCENARIOS) == set()


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_change_log_entries_match_the_changed_tables(name: str) -> None:
    service = SCENARIOS[name]()
    count = ChangeLogEntry.objects.count()
    before = snapshot()
    service()
    after = snapshot()
    fresh = entries()[count:]
    assert {(entry.subject_kind, entry.subject_key): set(changes(entry)) for entry in fresh} == expected(before, after)


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_service_that_fails_at_its_end_leaves_no_entry(name: str) -> None:
    service = SCENARIOS[name]()
    count = ChangeLogEntry.objects.count()
    with pytest.raises(MetadataError, match="not after all"):
        taken_back(service)
    assert ChangeLogEntry.objects.count() == count


def test_change_log_contains_every_stored_field_of_metadata() -> None:
    generated()
    for model in subjects.KINDS:
        fields = {field.attname for field in model._meta.concrete_fields} - subjects.UNLOGGED
        row = {field.attname: None for field in model._meta.concrete_fields} | {"data_type": "string"}
        names = subjects.Names(None)
        logged = set(names.named_values(model, {name: row[name] for name in row if name in fields | subjects.UNLOGGED}))
        parts = {"data_type", "length", "precision", "scale"} & fields
        assert logged == {name.removesuffix("_id") for name in fields - parts} | ({"type"} if parts else set())


def test_change_log_covers_every_metadata_model() -> None:
    assert {*subjects.KINDS, *subjects.LINKS} == set(MODELS)


WRITES = {"save", "delete", "update", "create", "bulk_create", "bulk_update", "get_or_create", "update_or_create"}
# The module that all others use to write.
OWN_WRITERS = {
    "row_changes.py",
}


def test_services_call_no_orm_write_outside_row_changes() -> None:
    """Check that services do not call the ORM directly, because such a write would have no entry."""
    calls = []
    for path in sorted(Path(metadata.services.__file__).parent.rglob("*.py")):
        if path.name in OWN_WRITERS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES:
                target = ast.unparse(node.func.value)
                if (
                    "objects" in target
                    or ".filter(" in target
                    or ".all()" in target
                    or node.func.attr in ("save", "delete")
                ):
                    calls.append(f"{path.name}:{node.lineno} {ast.unparse(node.func)}")
    assert calls == []
