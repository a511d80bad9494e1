"""Tests of the intake of a source dataset: its fields, and the columns and history policies that it requires."""

from pathlib import Path
from typing import Any

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sources.intake import Intake, possible_detections, proposed_watermarks
from metadata.domain.types import DataType, parse

PAGE = Path(__file__).resolve().parents[4] / "docs" / "use" / "sources.md"
COLUMNS = {
    name: parse(type_)
    for name, type_ in {
        "id": "bigint",
        "at": "timestamp",
        "day": "date",
        "price": "decimal(9,2)",
        "v": "string",
    }.items()
}


def test_sources_page_has_a_row_for_every_field():
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in Intake.__dataclass_fields__ if f"\n| `{name}` |" not in page] == []


@pytest.mark.parametrize(
    ("given", "normal_form"),
    [
        ({}, {}),
        ({"watermark": ["at"]}, {"watermark": ["at"]}),
        ({"watermark": ["at", "day"], "look_back": " 2  Days "}, {"watermark": ["at", "day"], "look_back": "2 days"}),
        ({"watermark": ["id"], "look_back": "1000"}, {"watermark": ["id"], "look_back": 1000}),
        ({"key_list": " keys.csv "}, {"key_list": "keys.csv"}),
        ({"watermark": ["at"], "tolerance": "3 Hours"}, {"watermark": ["at"], "tolerance": "3 hours"}),
    ],
)
def test_an_intake_is_kept_in_its_normal_form(given: dict[str, Any], normal_form: dict[str, Any]):
    assert Intake.from_dict(given).to_dict() == normal_form
    assert Intake.from_dict(normal_form).to_dict() == normal_form


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ([], "intake"),
        ({"watermarks": ["at"]}, "intake.watermarks"),
        ({"watermark": "at"}, "intake.watermark"),
        ({"watermark": []}, "intake.watermark"),
        ({"watermark": ["at", "at"]}, "intake.watermark"),
        ({"look_back": 5}, "intake.look_back"),
        ({"tolerance": 5}, "intake.tolerance"),
        ({"watermark": ["at"], "tolerance": "soon"}, "intake.tolerance"),
        ({"key_list": " "}, "intake.key_list"),
        ({"key_list": ["a"]}, "intake.key_list"),
        *(
            ({"watermark": ["at"], "look_back": value}, "intake.look_back")
            for value in (0, -1, True, 1.5, None, "2 weeks", "P2D", "0 days", "days")
        ),
    ],
)
def test_an_invalid_intake_is_refused_with_its_field(given: Any, field: str):
    with pytest.raises(MetadataError) as refused:
        Intake.from_dict(given)
    assert (refused.value.code, refused.value.field) == ("bad_intake", field)


@pytest.mark.parametrize(
    ("given", "format_name", "field"),
    [
        ({"watermark": ["at"]}, "csv", "intake.watermark"),
        ({"watermark": ["at"]}, "kafka", "intake.watermark"),
        ({"watermark": ["gone"]}, "table", "intake.watermark"),
        ({"watermark": ["v"]}, "table", "intake.watermark"),
        ({"watermark": ["at"], "look_back": 3}, "table", "intake.look_back"),
        ({"watermark": ["price"], "look_back": "2 days"}, "table", "intake.look_back"),
        ({"watermark": ["at", "id"], "look_back": "2 days"}, "table", "intake.look_back"),
        ({"watermark": ["day"], "look_back": "36 hours"}, "table", "intake.look_back"),
        ({"watermark": ["at"]}, "rest", "intake.watermark"),
    ],
)
def test_an_intake_that_does_not_fit_the_columns_is_refused(given: dict, format_name: str, field: str):
    with pytest.raises(MetadataError) as refused:
        Intake.from_dict(given).check_against(format_name, COLUMNS)
    assert refused.value.field == field


def test_refusal_of_a_watermark_lists_the_types_that_grow_with_changes():
    with pytest.raises(MetadataError) as refused:
        Intake.from_dict({"watermark": ["v"]}).check_against("table", COLUMNS)
    message = "column 'v' is string; integer, bigint, decimal, date, timestamp have marks"
    assert refused.value.message == message


def test_source_read_by_delta_changes_refuses_a_watermark():
    intake = Intake.from_dict({"watermark": ["id"]})
    intake.check_against("delta", COLUMNS)
    with pytest.raises(MetadataError, match="whose mark is the table's version"):
        intake.check_against("delta", COLUMNS, {"changes": True})


def test_endpoint_takes_one_watermark_for_its_incremental_parameter():
    options = {"incremental_parameter": "since"}
    Intake.from_dict({"watermark": ["at"]}).check_against("rest", COLUMNS, options)
    with pytest.raises(MetadataError, match="one column for an endpoint"):
        Intake.from_dict({"watermark": ["at", "id"]}).check_against("rest", COLUMNS, options)


@pytest.mark.parametrize(
    "given",
    [{}, {"watermark": ["at", "id"]}, {"watermark": ["id", "price"], "look_back": 9}, {"watermark": ["day"]}],
)
def test_numbers_dates_and_timestamps_are_watermarks(given: dict):
    Intake.from_dict(given).check_against("table", COLUMNS)


@pytest.mark.parametrize(
    ("policy", "fits"),
    [
        ({}, False),
        ({"input": "delta"}, True),
        ({"input": "cdc", "time": "at", "op": "v"}, True),
        ({"input": "effective", "time": "at"}, True),
        ({"input": "effective", "time": "at", "absent_keys": "deleted"}, False),
        ({"input": "batch_files", "time": "at"}, False),
    ],
)
def test_watermark_requires_a_policy_that_ignores_absent_keys(policy: dict, fits: bool):
    intake, made = Intake.from_dict({"watermark": ["at"]}), HistoryPolicy.from_dict(policy)
    Intake().check_reader(made)
    if fits:
        intake.check_reader(made)
    else:
        with pytest.raises(MetadataError):
            intake.check_reader(made)


@pytest.mark.parametrize(
    ("detects", "intake", "format_name", "field"),
    [
        ("window", {"watermark": ["at"]}, "table", None),
        ("window", {}, "table", "intake.watermark"),
        ("window", {"watermark": ["at", "day"]}, "table", "intake.watermark"),
        ("key_list", {}, "table", None),
        ("key_list", {"watermark": ["at"]}, "delta", None),
        ("key_list", {"key_list": "keys.csv"}, "csv", None),
        ("key_list", {"key_list": "orders/keys"}, "rest", None),
        ("key_list", {}, "csv", "intake.key_list"),
        ("key_list", {}, "rest", "intake.key_list"),
        ("key_list", {}, "kafka", "intake.key_list"),
        ("none", {}, "kafka", None),
    ],
)
def test_delete_detection_requires_its_source_settings(detects: str, intake: dict, format_name: str, field: str | None):
    policy = HistoryPolicy.from_dict({"input": "delta", "delete_detection": detects})
    if field is None:
        Intake.from_dict(intake).check_detection(policy, format_name)
        return
    with pytest.raises(MetadataError) as refused:
        Intake.from_dict(intake).check_detection(policy, format_name)
    assert refused.value.field == field


@pytest.mark.parametrize("format_name", ["table", "delta", "kafka"])
def test_key_list_is_refused_for_a_source_that_provides_its_keys(format_name: str):
    with pytest.raises(MetadataError) as refused:
        Intake.from_dict({"key_list": "keys"}).check_detection(HistoryPolicy(), format_name)
    assert refused.value.field == "intake.key_list"


def test_an_intake_follows_the_rename_of_a_column():
    assert Intake(("at", "id")).renamed({"at": "changed_at"}) == Intake(("changed_at", "id"))


@pytest.mark.parametrize(
    ("format_name", "options", "names"),
    [
        ("table", {}, ["updated_at", "booked_on", "amount", "id"]),
        ("delta", {}, ["updated_at", "booked_on", "amount", "id"]),
        ("delta", {"changes": True}, []),
        ("rest", {}, []),
        ("rest", {"incremental_parameter": "since"}, ["updated_at", "booked_on", "amount", "id"]),
        ("csv", {}, []),
    ],
)
def test_columns_that_grow_with_changes_are_proposed_as_watermarks(format_name: str, options: dict, names: list[str]):
    types = {"id": "bigint", "amount": "integer", "name": "string", "booked_on": "date", "updated_at": "timestamp"}
    columns = {name: DataType(type_) for name, type_ in types.items()}
    assert proposed_watermarks(format_name, columns, ["id"], options) == names


def test_deletes_are_found_by_keys_where_the_source_has_them():
    assert possible_detections("table") == ("key_list", "window")
    assert possible_detections("rest") == ("window",)
