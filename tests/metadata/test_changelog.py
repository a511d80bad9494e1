"""Every write to metadata leaves an entry, in its transaction, that says what happened to the database."""

import ast
import inspect
import json
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

import metadata.services
from metadata.domain.errors import MetadataError
from metadata.models import ChainPending, ChangeLogEntry, Reference, SourceDataset, TargetColumn, TargetDataset
from metadata.models.base import Versioned
from metadata.services import (
    column_batches,
    exchange,
    generation,
    lifecycle,
    people,
    proposals,
    references,
    sources,
    subjects,
    targets,
)
from metadata.services.actor import acting_as
from metadata.services.changelog import record_change
from metadata.services.common import remove, store, writing
from tests.factories import (
    DatasetInputFactory,
    SourceColumnFactory,
    SourceDatasetFactory,
    SystemFactory,
    TargetDatasetFactory,
    TargetSchemaFactory,
    airport_source,
)

pytestmark = pytest.mark.django_db

AIRPORTS = Path(__file__).resolve().parents[2] / "examples" / "airports"
MODELS = [model for model in apps.get_app_config("metadata").get_models() if issubclass(model, Versioned)]
LINKS = {"DatasetInput": ("dataset_id", "inputs"), "ColumnInput": ("column_id", "inputs")}
LINKS["ReferencePair"] = ("reference_id", "pairs")
OWNERS = {"DatasetInput": "TargetDataset", "ColumnInput": "TargetColumn", "ReferencePair": "Reference"}
KINDS = {
    "System": "system",
    "SourceDataset": "source_dataset",
    "SourceColumn": "source_column",
    "TargetSchema": "schema",
    "TargetDataset": "dataset",
    "TargetColumn": "column",
    "Reference": "reference",
}
WHOLES = {"SourceColumn": "SourceDataset", "TargetColumn": "TargetDataset"}


# --- what a test needs to see --------------------------------------------------------------------


def entries() -> list[ChangeLogEntry]:
    return list(ChangeLogEntry.objects.order_by("id"))


def told() -> list[tuple[str, str, str]]:
    return [(entry.action, entry.subject_kind, entry.subject_name) for entry in entries()]


def changes(entry: ChangeLogEntry) -> dict[str, dict[str, Any]]:
    return json.loads(entry.changes)


def snapshot() -> dict[tuple[str, int], dict[str, Any]]:
    """Everything that stands in the tables of metadata."""
    return {(model.__name__, row["id"]): row for model in MODELS for row in model.objects.values()}


def expected(before: dict, after: dict) -> dict[tuple[str, str], set[str]]:
    """Worked out from the tables alone: which things changed, and in which of their own fields."""
    found: dict[tuple[str, int], set[str]] = {}
    for known in {*before, *after}:
        was, now = before.get(known, {}), after.get(known, {})
        if was == now:
            continue
        model, pk = known
        if model in LINKS:
            owned_by, field = LINKS[model]
            owner = (OWNERS[model], (now or was)[owned_by])
            found.setdefault(owner, set()).add(field)
        else:
            differing = {name for name in {*was, *now} if was.get(name) != now.get(name)}
            found.setdefault(known, set()).update(differing - subjects.UNTOLD)
    result = {}
    for (model, pk), fields in found.items():
        row = after.get((model, pk)) or before[model, pk]
        whole = (WHOLES.get(model), row.get("dataset_id"))
        if model in WHOLES and whole in after and whole not in before:
            result.setdefault((KINDS[whole[0]], str(after[whole]["key"])), set()).add("columns")
        elif fields:
            result.setdefault(
                (KINDS[model], subjects.stable_key(apps.get_model("metadata", model), row)), set()
            ).update(_as_told(fields, row))
    return {
        known: {name for name in fields if _is_told(name, known, before, after)} for known, fields in result.items()
    }


def _as_told(fields: set[str], row: dict) -> set[str]:
    parts = {"data_type", "length", "precision", "scale"} if "data_type" in row else set()
    return {"type" if name in parts else name.removesuffix("_id") for name in fields}


def _is_told(name: str, known: tuple[str, str], before: dict, after: dict) -> bool:
    """A field that is empty on both sides (a new row's description) is left out."""
    if name in ("type", "inputs", "pairs", "columns"):
        return True
    model = {kind: model for model, kind in KINDS.items()}[known[0]]
    for state in (before, after):
        for (its, _), row in state.items():
            if its == model and subjects.stable_key(apps.get_model("metadata", model), row) == known[1]:
                value = row.get(name, row.get(f"{name}_id"))
                if value not in (None, "", [], {}):
                    return True
    return False


def logged() -> dict[tuple[str, str], set[str]]:
    return {(entry.subject_kind, entry.subject_key): set(changes(entry)) for entry in entries()}


# --- every service, driven once ------------------------------------------------------------------


def generated() -> TargetDataset:
    generation.generate_targets(source_dataset=airport_source())
    return TargetDataset.objects.get(name="rc_air_airport")


def referring() -> Reference:
    parent = generated()
    child = SourceDatasetFactory(system__short_name="net", name="route")
    SourceColumnFactory(dataset=child, name="route_no", key_ordinal=1)
    SourceColumnFactory(dataset=child, name="origin")
    generation.generate_targets(source_dataset=child)
    routes = TargetDataset.objects.get(name="rc_net_route")
    pair = (routes.columns.get(name="origin"), parent.columns.get(name="icao"))
    return references.create_reference(child=routes, parent=parent, role_name="origin", pairs=[pair])


def column(dataset: TargetDataset, name: str) -> TargetColumn:
    return dataset.columns.get(name=name)


def retired_dataset() -> TargetDataset:
    dataset = generated()
    return lifecycle.retire_dataset(dataset=dataset, expected_version=dataset.version)


def retired_column() -> TargetColumn:
    return lifecycle.retire_column(column=column(generated(), "name"), expected_version=1)


def current(row: Any) -> dict[str, Any]:
    return {"expected_version": type(row).objects.get(pk=row.pk).version}


def _retire_reference() -> Callable:
    row = referring()
    return lambda: references.retire_reference(reference=row, **current(row))


def _unretire_reference() -> Callable:
    row = references.retire_reference(reference=referring(), expected_version=1)
    return lambda: references.unretire_reference(reference=row, **current(row))


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
    wanted = [column(TargetDataset.objects.get(name="stg_air_airport"), "icao")]
    return lambda: targets.update_target_column(column=row, inputs=wanted, **current(row))


def _create_with_columns() -> Callable:
    upstream, schema = generated(), TargetSchemaFactory(name="bizcore", layer="bizcore")
    return lambda: targets.create_target_dataset(schema=schema, name="places", inputs=[upstream], take_columns=True)


def _order_target_columns() -> Callable:
    row = generated()
    seen = list(row.columns.order_by("ordinal"))
    return lambda: targets.order_target_columns(dataset=row, order=seen[::-1], seen=seen)


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


def _set_column_inputs() -> Callable:
    row = column(generated(), "name")
    stage = TargetDataset.objects.get(name="stg_air_airport")
    wanted = [column(stage, "icao"), column(stage, "name")]
    return lambda: targets.set_column_inputs(column=row, inputs=wanted, **current(row))


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
    gone = source.columns.get(name="name")
    sources.update_source_column(source_column=gone, active=False, **current(gone))
    return lambda: generation.generate_targets(source_dataset=source)


def _take_columns() -> Callable:
    generated()
    source = SourceDataset.objects.get()
    return lambda: proposals.take_columns(source_dataset=source, proposals=[{"name": "lid", "type": "string"}])


def _import_metadata() -> Callable:
    return lambda: exchange.import_metadata(AIRPORTS)


SCENARIOS: dict[str, Callable[[], Callable]] = {
    name.removeprefix("_"): made
    for name, made in list(globals().items())
    if name.startswith("_") and inspect.isfunction(made) and inspect.signature(made).return_annotation is Callable
}


def writing_services() -> set[str]:
    """Every public service of metadata's own rows, found by what it does: it opens a unit of work."""
    found = set()
    for module in (sources, targets, column_batches, lifecycle, references, generation, proposals, exchange):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                source = inspect.getsource(function)
                if "with writing(" in source or "_set_active(" in source:
                    found.add(name)
    return found


def test_every_service_that_writes_is_driven_here() -> None:
    assert writing_services() - set(SCENARIOS) == set()


@pytest.mark.parametrize("name", SCENARIOS)
def test_entries_say_what_happened_to_the_tables(name: str) -> None:
    service = SCENARIOS[name]()
    seen = ChangeLogEntry.objects.count()
    before = snapshot()
    service()
    after = snapshot()
    fresh = entries()[seen:]
    assert {(entry.subject_kind, entry.subject_key): set(changes(entry)) for entry in fresh} == expected(before, after)


def taken_back(work: Callable[[], Any]) -> None:
    with writing():
        work()
        raise MetadataError("no", "not after all")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_service_that_fails_at_its_end_leaves_no_entry(name: str) -> None:
    service = SCENARIOS[name]()
    seen = ChangeLogEntry.objects.count()
    with pytest.raises(MetadataError, match="not after all"):
        taken_back(service)
    assert ChangeLogEntry.objects.count() == seen


def test_every_stored_field_of_metadata_is_told() -> None:
    generated()
    for model in subjects.KINDS:
        fields = {field.attname for field in model._meta.concrete_fields} - subjects.UNTOLD
        row = {field.attname: None for field in model._meta.concrete_fields} | {"data_type": "string"}
        names = subjects.Names(None)
        told_fields = set(names.told(model, {name: row[name] for name in row if name in fields | subjects.UNTOLD}))
        parts = {"data_type", "length", "precision", "scale"} & fields
        assert told_fields == {name.removesuffix("_id") for name in fields - parts} | ({"type"} if parts else set())


def test_every_model_of_metadata_is_a_subject_or_a_link() -> None:
    assert {*subjects.KINDS, *subjects.LINKS} == set(MODELS)


WRITES = {"save", "delete", "update", "create", "bulk_create", "bulk_update", "get_or_create", "update_or_create"}
# These write what is no metadata (people, the log, the chain), or are the way in.
OWN_WRITERS = {"common.py", "changelog.py", "chain.py", "people.py"}


def test_services_write_in_no_other_way() -> None:
    """A new service that calls the ORM itself would leave no entry."""
    found = []
    for path in sorted(Path(metadata.services.__file__).parent.glob("*.py")):
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
                    found.append(f"{path.name}:{node.lineno} {ast.unparse(node.func)}")
    assert found == []


# --- what an entry says --------------------------------------------------------------------------


def test_a_rename_is_told_with_both_names_and_its_reason() -> None:
    dataset = generated()
    lifecycle.rename_dataset(dataset=dataset, name="rc_field", expected_version=dataset.version, reason="clearer")
    base, history = entries()[-2:]
    assert (base.action, base.subject_name, base.reason) == ("renamed", "rawcore.rc_field", "clearer")
    assert changes(base) == {
        "name": {"before": "rc_air_airport", "after": "rc_field"},
        "former_names": {"after": ["rc_air_airport"]},
    }
    assert (history.action, history.subject_name) == ("renamed", "rawcore.rc_field_hist")


def test_a_history_belongs_to_its_base() -> None:
    dataset = generated()
    lifecycle.rename_dataset(dataset=dataset, name="rc_field", expected_version=dataset.version)
    assert {entry.dataset_key for entry in entries()[-2:]} == {dataset.key}


def test_a_column_belongs_to_its_dataset() -> None:
    row = column(generated(), "name")
    lifecycle.rename_column(column=row, name="title", expected_version=1)
    assert entries()[-1].dataset_key == row.dataset.key


def test_retiring_and_bringing_back_are_told_as_such() -> None:
    row = retired_column()
    lifecycle.unretire_column(column=row, expected_version=row.version)
    assert [entry.action for entry in entries()[-2:]] == ["retired", "restored"]


def test_a_new_dataset_is_one_entry_with_its_columns_and_what_they_read() -> None:
    generated()
    (entry,) = [one for one in entries() if one.subject_name == "rawcore.rc_air_airport"]
    columns = changes(entry)["columns"]["after"]
    assert [(one["name"], one["type"], one["inputs"]) for one in columns] == [
        ("icao", "string", ["stage.stg_air_airport.icao"]),
        ("name", "string", ["stage.stg_air_airport.name"]),
        ("elevation", "float", ["stage.stg_air_airport.elevation"]),
    ]


def test_a_column_that_came_later_has_an_entry_of_its_own() -> None:
    generated()
    _take_columns_of("lid")
    assert ("created", "column", "rawcore.rc_air_airport.lid") in told()


def _take_columns_of(name: str) -> None:
    source = SourceDataset.objects.get()
    proposals.take_columns(source_dataset=source, proposals=[{"name": name, "type": "string"}])


def test_links_are_told_by_name_before_and_after() -> None:
    _set_dataset_inputs()()
    assert changes(entries()[-1]) == {
        "inputs": {"before": ["rawcore.rc_air_airport"], "after": ["stage.stg_air_airport"]}
    }


def test_two_columns_that_swap_names_are_two_renames(tmp_path: Path) -> None:
    exchange.import_metadata(AIRPORTS)
    exchange.export_metadata(tmp_path)
    seen = ChangeLogEntry.objects.count()
    file = tmp_path / "systems" / "net.yaml"
    text = file.read_text()
    names = ("name: airline", "name: aircraft") if "name: aircraft" in text else _two_names(text)
    file.write_text(text.replace(names[0], "\0").replace(names[1], names[0]).replace("\0", names[1]))
    exchange.import_metadata(tmp_path)
    renamed = [entry for entry in entries()[seen:] if entry.action == "renamed"]
    assert sorted(changes(entry)["name"]["after"] for entry in renamed) == sorted(
        changes(entry)["name"]["before"] for entry in renamed
    )
    assert len(renamed) == 2


def _two_names(text: str) -> tuple[str, str]:
    """Two columns of the file that are in no business key."""
    lines = [line.strip().removeprefix("- ") for line in text.splitlines()]
    names = [line for line in lines if line.startswith("name: ")]
    return names[-1], names[-2]


def test_what_belongs_to_a_removed_row_is_told_too() -> None:
    row = column(generated(), "name")
    with writing():
        remove([row])
    entry = entries()[-1]
    assert (entry.action, entry.subject_kind, entry.subject_name) == (
        "deleted",
        "column",
        "rawcore.rc_air_airport.name",
    )
    assert changes(entry)["inputs"] == {"before": ["stage.stg_air_airport.name"]}


def test_a_moment_is_told_to_the_microsecond() -> None:
    row = retired_column()
    said = changes(entries()[-1])["retired_at"]["after"]
    assert datetime.fromisoformat(said) == row.retired_at


# --- when there is an entry ----------------------------------------------------------------------


def test_nothing_changed_leaves_no_entry() -> None:
    system = SystemFactory(owner="Kim")
    sources.update_system(system=system, expected_version=1, owner="Kim")
    assert entries() == []


def test_a_second_generation_leaves_no_entry() -> None:
    generated()
    seen = ChangeLogEntry.objects.count()
    generation.generate_targets(source_dataset=SourceDataset.objects.get())
    assert ChangeLogEntry.objects.count() == seen


def test_a_check_of_files_leaves_no_entry() -> None:
    exchange.import_metadata(AIRPORTS, check=True)
    assert entries() == []


def test_a_refusal_leaves_no_entry() -> None:
    with pytest.raises(MetadataError):
        sources.create_system(name="x", short_name="not a name")
    assert entries() == []


def test_what_a_savepoint_took_back_is_not_told() -> None:
    with writing():
        kept = sources.create_system(name="Kept", short_name="kept")

        def gone() -> None:
            sources.create_system(name="Gone", short_name="gone")
            sources.update_system(system=kept, expected_version=1, owner="Kim")

        with pytest.raises(MetadataError, match="not after all"):
            taken_back(gone)
    assert told() == [("created", "system", "kept")]
    assert "owner" not in changes(entries()[0])


def test_many_steps_on_one_row_are_one_entry() -> None:
    with writing():
        row = sources.create_system(name="Air", short_name="air")
        row = sources.update_system(system=row, expected_version=1, owner="Kim")
        sources.update_system(system=row, expected_version=2, owner="Alex")
    assert told() == [("created", "system", "air")]
    assert changes(entries()[0])["owner"] == {"after": "Alex"}


def test_there_and_back_again_is_no_change() -> None:
    row = SystemFactory(owner="Kim")
    with writing():
        row = sources.update_system(system=row, expected_version=1, owner="Alex")
        sources.update_system(system=row, expected_version=2, owner="Kim")
    assert entries() == []


def test_a_row_stored_outside_any_unit_is_told_as_well() -> None:
    row = SystemFactory()
    row.owner = "Kim"
    store(row)
    assert told() == [("changed", "system", row.short_name)]


def test_entries_are_written_with_the_rows_or_not_at_all() -> None:
    with transaction.atomic():
        sources.create_system(name="Air", short_name="air")
        assert len(entries()) == 1
        transaction.set_rollback(True)
    assert entries() == []
    assert not ChainPending.objects.exists()


# --- who -----------------------------------------------------------------------------------------


def test_a_person_is_named_and_the_request_with_them() -> None:
    user = User.objects.create_user("ada")
    with acting_as(user, request_id="r-1"):
        sources.create_system(name="Air", short_name="air")
    (entry,) = entries()
    assert (entry.actor, entry.actor_kind, entry.user_id, entry.request_id) == ("ada", "person", user.pk, "r-1")


def test_nobody_is_the_system() -> None:
    sources.create_system(name="Air", short_name="air")
    assert (entries()[0].actor, entries()[0].actor_kind, entries()[0].user_id) == ("system", "system", None)


def test_who_has_left_a_trace_is_not_deleted() -> None:
    user = User.objects.create_user("ada")
    with acting_as(user):
        sources.create_system(name="Air", short_name="air")
    with pytest.raises(Exception, match="protected"):
        user.delete()


def test_other_things_are_told_by_hand() -> None:
    key = uuid.uuid4()
    record_change(
        action="changed",
        subject_kind="policy",
        subject_key="dev",
        subject_name="dev",
        before={"drop_columns": False, "same": 1},
        after={"drop_columns": True, "same": 1},
        dataset_key=key,
        reason="because",
    )
    (entry,) = entries()
    assert changes(entry) == {"drop_columns": {"before": False, "after": True}}
    assert (entry.dataset_key, entry.reason) == (key, "because")


# --- what it costs -------------------------------------------------------------------------------


def _queries(work: Callable[[], Any]) -> int:
    with CaptureQueriesContext(connection) as captured:
        work()
    return len(captured)


def test_a_generation_of_many_columns_takes_as_many_queries_as_of_few() -> None:
    counts = []
    for name, columns in (("warm", 2), ("few", 2), ("many", 40)):
        source = SourceDatasetFactory(system__short_name="air", name=name)
        for n in range(columns):
            SourceColumnFactory(dataset=source, name=f"c{n}", ordinal=n + 1, key_ordinal=1 if n == 0 else None)
        counts.append(_queries(lambda source=source: generation.generate_targets(source_dataset=source)))
    assert counts[1] == counts[2]


def test_people_are_told_when_their_roles_change() -> None:
    people.ensure_person(name="ada", roles=["editor"], password="analytical engine")
    people.ensure_person(name="ada", roles=["editor", "operator"])
    assert [entry.action for entry in entries()] == ["created", "changed"]
    assert changes(entries()[1]) == {"roles": {"before": ["editor"], "after": ["editor", "operator"]}}


def test_an_import_is_one_unit_and_its_entries_carry_one_moment() -> None:
    exchange.import_metadata(AIRPORTS)
    assert len({entry.at for entry in entries()}) == 1
