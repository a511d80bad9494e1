"""Rules of metadata health over dataset states."""

from dataclasses import replace

import pytest

from architecture.domain.health import CODES, FIXES, Finding, Source, Surroundings, findings_of, owner_above
from metadata.domain.state import ColumnState, DatasetState

KEY = ColumnState("id", "customer_id", "integer", role="business_key", inputs=("stage_id",))
NAME = ColumnState("name", "title", "string(50)", inputs=("stage_name",))
STAGE = DatasetState(
    "stage",
    "stage",
    "stage",
    "stg_customer",
    (ColumnState("stage_id", "customer_id", "integer"), ColumnState("stage_name", "title", "string(50)")),
    inputs=("raw",),
    materialization="view",
)
CUSTOMER = DatasetState("core", "rawcore", "rawcore", "rc_customer", (KEY, NAME), inputs=("stage",))
AROUND = Surroundings(
    datasets={"stage": STAGE, "core": CUSTOMER}, reads={"core": ("stage",)}, read=frozenset({"stage"})
)


def findings(dataset: DatasetState, **around: object) -> list[Finding]:
    return findings_of(dataset, replace(AROUND, **around))


def codes(dataset: DatasetState, **around: object) -> list[str]:
    return [finding.code for finding in findings(dataset, **around)]


def test_generated_metadata_has_no_findings():
    assert codes(CUSTOMER) == []


def test_a_retired_dataset_has_no_findings():
    assert codes(replace(CUSTOMER, active=False, inputs=())) == []


@pytest.mark.parametrize(
    "policy",
    [{"input": "effective", "time": "valid_from"}, {"input": "effective"}, {"time": "valid_from", "profile": "scd2"}],
)
def test_rows_with_own_times_without_their_column_are_an_error(policy):
    (finding,) = findings(replace(CUSTOMER, historize=True, history_policy=policy))
    assert (finding.code, finding.severity) == ("scd2-effective-column-required", "error")
    assert finding.field == "history_policy.time"


def test_history_policy_with_another_missing_column_is_an_error():
    (finding,) = findings(replace(CUSTOMER, historize=True, history_policy={"track": ["gone"]}))
    assert (finding.code, finding.severity, finding.field) == ("policy", "error", "history_policy.track")


def test_history_without_a_business_key_is_an_error_and_a_table_without_one_a_warning():
    keyless = replace(CUSTOMER, columns=(NAME,))
    assert [(finding.code, finding.severity) for finding in findings(keyless)] == [("no_key", "warning")]
    assert [(finding.code, finding.severity) for finding in findings(replace(keyless, historize=True))] == [
        ("no_key", "error")
    ]


def test_personal_data_needs_an_owner():
    assert codes(CUSTOMER, personal=frozenset({"name"})) == ["no_owner"]
    assert codes(CUSTOMER, personal=frozenset({"name"}), owners={"core": "mia"}) == []


def test_missing_owner_can_be_taken_from_the_inputs():
    (finding,) = findings(CUSTOMER, personal=frozenset({"name"}), owners={"stage": "mia"})
    assert finding.fix == "take_owner"
    assert owner_above(CUSTOMER, replace(AROUND, owners={"stage": "mia"})) == "mia"


def test_a_dataset_needs_inputs_unless_it_is_a_model():
    empty = replace(CUSTOMER, inputs=())
    assert codes(empty) == ["no_input"]
    assert codes(replace(empty, select="SELECT 1 AS customer_id")) == []


def test_a_retired_input_is_named():
    (finding,) = findings(CUSTOMER, datasets={"stage": replace(STAGE, active=False)})
    assert (finding.code, finding.text) == ("retired_input", "The input stage.stg_customer is retired.")


def test_a_layer_in_between_may_not_be_skipped():
    raw = replace(STAGE, layer="raw", schema="raw", name="raw_customer")
    assert codes(CUSTOMER, datasets={"stage": raw}) == ["layer_skipped"]
    assert codes(
        replace(CUSTOMER, inputs=("file",)),
        sources={"file": Source("crm.customer", types={"stage_id": "integer", "stage_name": "string(50)"})},
    ) == ["layer_skipped"]


def test_a_lower_layer_does_not_read_a_higher_one():
    assert codes(CUSTOMER, datasets={"stage": replace(STAGE, layer="bizcore")}) == ["layer_backwards"]


def test_names_that_engines_quote_or_truncate_are_findings():
    columns = (KEY, replace(NAME, name="order"), replace(NAME, name="net amount"), replace(NAME, name="x" * 64))
    assert codes(replace(CUSTOMER, columns=columns)) == ["quoted_name", "quoted_name", "long_name"]


def test_a_column_narrower_than_its_input_loses_data():
    columns = (KEY, replace(NAME, type="string(20)"))
    (finding,) = findings(replace(CUSTOMER, columns=columns))
    assert (finding.code, finding.column, finding.field) == ("type_loses_data", "name", "data_type")
    assert codes(replace(CUSTOMER, columns=(KEY, replace(NAME, type="string(20)", expression="left(title, 20)")))) == []


def test_text_read_as_a_number_has_no_finding():
    assert codes(replace(CUSTOMER, columns=(KEY, replace(NAME, type="integer")))) == []


def test_a_column_needs_an_input_or_an_expression():
    columns = (KEY, replace(NAME, inputs=()))
    (finding,) = findings(replace(CUSTOMER, columns=columns))
    assert (finding.code, finding.severity, finding.column) == ("column_without_input", "warning", "name")
    assert codes(replace(CUSTOMER, columns=(KEY, replace(NAME, inputs=("gone",))))) == ["column_without_input"]


def test_a_required_column_without_input_is_an_error():
    columns = (KEY, replace(NAME, inputs=(), nullable=False))
    assert [finding.severity for finding in findings(replace(CUSTOMER, columns=columns))] == ["error"]


def test_stage_without_readers_can_be_retired():
    (finding,) = findings(replace(STAGE, inputs=("raw",), columns=()), read=frozenset())
    assert (finding.code, finding.fix) == ("orphan", "retire")


def test_dataset_that_reads_itself_through_others_is_a_cycle():
    assert codes(CUSTOMER, reads={"core": ("stage",), "stage": ("core",)}) == ["cycle"]


def test_every_finding_code_and_fix_has_a_text():
    assert all(CODES.values())
    assert all(FIXES.values())
