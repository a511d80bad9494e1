"""Rules of the Fivetran destination: types both ways, changes of a contract, times."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loader.contract.refusals import Refusal
from loader.domain.fivetran import (
    REPORTED,
    TYPES,
    Changes,
    Column,
    KnownColumn,
    Table,
    changes_of,
    parsed_time,
    reported_column,
)
from loader.fivetran.protocol import messages
from metadata.domain import types as data_types
from metadata.domain.types import parse

ID, NAME = Column("id", "INT", primary_key=True), Column("name", "STRING")
KNOWN = {"id": KnownColumn(parse("integer"), "INT", is_key=True), "name": KnownColumn(parse("string"), "STRING")}


def sent_table(*columns: Column) -> Table:
    return Table("shop", "item", columns)


def refused(function, *arguments, **options) -> str:
    with pytest.raises(Refusal) as caught:
        function(*arguments, **options)
    return caught.value.code


def test_every_protocol_type_maps_to_a_data_type():
    assert set(TYPES) == set(messages.DataType.keys()) - {"UNSPECIFIED"}
    assert refused(lambda: Column("x", "UNSPECIFIED").data_type) == "TYPE_NOT_SUPPORTED"


def test_every_data_type_maps_to_a_protocol_type():
    assert set(REPORTED) == set(data_types.NAMES)
    assert all(name in TYPES for name in REPORTED.values())


def test_the_documentation_lists_every_type():
    page = (Path(__file__).parents[3] / "docs" / "use" / "fivetran.md").read_text()
    rows = re.findall(r"^\| `([A-Z_]+)` \| `([a-z]+)[^|]*\| `([A-Z_]+)` \|$", page, re.MULTILINE)
    assert rows == [(name, type_, name) for name, type_ in TYPES.items()]


@pytest.mark.parametrize("name", TYPES)
def test_a_column_is_reported_as_it_was_sent(name):
    assert reported_column("x", Column("x", name).data_type, sent_as=name).type == name


def test_column_retyped_later_is_reported_with_its_current_type():
    assert reported_column("x", parse("bigint"), sent_as="SHORT") == Column("x", "LONG")


def test_a_decimal_has_its_precision_and_scale():
    assert str(Column("x", "DECIMAL", precision=12, scale=3).data_type) == "decimal(12,3)"
    assert str(Column("x", "DECIMAL").data_type) == "decimal(38,10)"
    assert reported_column("x", parse("decimal(12,3)")) == Column("x", "DECIMAL", precision=12, scale=3)


def test_the_columns_of_history_mode_are_not_part_of_the_contract():
    times = [Column("_fivetran_start", "UTC_DATETIME", primary_key=True), Column("_fivetran_end", "UTC_DATETIME")]
    table = sent_table(ID, *times, Column("_fivetran_active", "BOOLEAN"), Column("_fivetran_synced", "UTC_DATETIME"))
    assert (table.in_history_mode, list(table.described), table.key) == (True, ["id", "fivetran_synced"], ("id",))
    assert reported_column("fivetran_synced", parse("timestamp")).name == "_fivetran_synced"


def test_a_table_without_key_is_refused():
    assert refused(lambda: sent_table(NAME).key) == "NO_PRIMARY_KEY"


@pytest.mark.parametrize("name", ["", "a b", "../x", "x/y", "x" * 201, "ü"])
def test_a_name_that_cannot_be_a_location_is_refused(name):
    assert refused(Table, "shop", name, ()) == "BAD_NAME"
    assert refused(Table, name, "item", ()) == "BAD_NAME"


def test_an_equal_table_changes_nothing():
    assert changes_of(KNOWN, sent_table(ID, NAME), drops=True) == Changes()


def test_new_columns_are_added_and_known_ones_retyped():
    price, wider = Column("price", "DOUBLE"), Column("id", "LONG", primary_key=True)
    assert changes_of(KNOWN, sent_table(wider, NAME, price), drops=False) == Changes(
        add={"price": price}, retype={"id": wider}
    )


@pytest.mark.parametrize(("drops", "retired"), [(False, ()), (True, ("name",))])
def test_missing_column_is_retired_only_if_columns_are_dropped(drops, retired):
    assert changes_of(KNOWN, sent_table(ID), drops=drops) == Changes(retire=retired)


def test_dropped_column_is_restored_regardless_of_case():
    known = KNOWN | {"name": KnownColumn(parse("string"), "STRING", active=False)}
    assert changes_of(known, sent_table(ID, Column("NAME", "STRING")), drops=False) == Changes(bring_back=("name",))


def test_another_type_of_the_protocol_for_the_same_type_is_a_change():
    naive = KNOWN | {"at": KnownColumn(parse("timestamp"), "NAIVE_DATETIME")}
    at = Column("at", "UTC_DATETIME")
    assert changes_of(naive, sent_table(ID, NAME, at), drops=False) == Changes(retype={"at": at})


def test_a_decimal_without_precision_changes_nothing():
    known = KNOWN | {"price": KnownColumn(parse("decimal(10,2)"), "DECIMAL")}
    assert not changes_of(known, sent_table(ID, NAME, Column("price", "DECIMAL")), drops=False)


def test_another_primary_key_is_refused():
    keyed = Column("name", "STRING", primary_key=True)
    assert refused(changes_of, KNOWN, sent_table(ID, keyed), drops=False) == "PRIMARY_KEY_CHANGED"


def test_times_are_cut_to_microseconds():
    time = datetime(2005, 5, 23, 20, 57, 0, 123456, UTC)
    assert parsed_time("2005-05-23T20:57:00.123456789Z") == time
    assert parsed_time("2005-05-23T22:57:00.123456+02:00") == time
    assert refused(parsed_time, "yesterday") == "BAD_TIME"
