"""Tests of the SQL of a model for Spark: relations, helpers and placeholders are replaced, nothing else."""

import pytest

from metadata.domain.models import ModelProblem, bind_select, relations_of

VALUES = {"load_timestamp": "TIMESTAMP 'now'", "load_run_id": "'run'"}


def bound(text: str) -> str:
    return bind_select(text, {key: f"<{key}>" for key in relations_of(text)}, VALUES)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("SELECT id FROM rawcore.o", "SELECT id FROM <rawcore.o> AS `o`"),
        ("SELECT x.id FROM RawCore.O AS x", "SELECT x.id FROM <rawcore.o> AS x"),
        ("SELECT rawcore.o.id FROM rawcore.o", "SELECT `o`.id FROM <rawcore.o> AS `o`"),
        ("WITH o AS (SELECT 1 AS a) SELECT a FROM o", "WITH o AS (SELECT 1 AS a) SELECT a FROM o"),
        ("SELECT 'rawcore.o' AS x /* rawcore.o */ ;", "SELECT 'rawcore.o' AS x"),
        ("SELECT {{load_run_id}} AS r", "SELECT 'run' AS r"),
        (
            "SELECT surrogate_key(a, upper(b)) AS k FROM s.t",
            "SELECT coalesce(sha2(to_json(struct(a AS v1, upper(b) AS v2)), 256), '') AS k FROM <s.t> AS `t`",
        ),
        ("SELECT id FROM versions(s.h)", "SELECT id FROM <versions(s.h)> AS `h`"),
        ("SELECT id FROM current(s.h) c", "SELECT id FROM (SELECT * FROM <versions(s.h)> WHERE __valid_to IS NULL) c"),
        (
            "SELECT id FROM as_of(s.h, {{ load_timestamp }}) AS h",
            "SELECT id FROM (SELECT * FROM <versions(s.h)> WHERE __valid_from <= (TIMESTAMP 'now') AND "
            "(__valid_to IS NULL OR __valid_to > (TIMESTAMP 'now'))) AS h",
        ),
        (
            "SELECT o.id FROM s.o LEFT JOIN as_of(s.h, o.at) h ON h.id = o.id OR left(h.a, 1) = 'x' WHERE o.id > 1",
            "SELECT o.id FROM <s.o> AS `o` LEFT JOIN <versions(s.h)> h ON (h.id = o.id OR left(h.a, 1) = 'x') AND "
            "(`h`.__valid_from <= (o.at) AND (`h`.__valid_to IS NULL OR `h`.__valid_to > (o.at))) WHERE o.id > 1",
        ),
        (
            "SELECT o.id FROM s.o JOIN as_of(s.h, o.at) h ON h.id = o.id\nGROUP  BY o.id",
            "SELECT o.id FROM <s.o> AS `o` JOIN <versions(s.h)> h ON (h.id = o.id) AND "
            "(`h`.__valid_from <= (o.at) AND (`h`.__valid_to IS NULL OR `h`.__valid_to > (o.at))) GROUP  BY o.id",
        ),
        (
            "SELECT o.id FROM s.o JOIN as_of(s.h, o.at) h ON h.id IN (SELECT a FROM current(s.g) g JOIN s.p USING (a))",
            "SELECT o.id FROM <s.o> AS `o` JOIN <versions(s.h)> h ON (h.id IN (SELECT a FROM "
            "(SELECT * FROM <versions(s.g)> WHERE __valid_to IS NULL) g JOIN <s.p> AS `p` USING (a))) AND "
            "(`h`.__valid_from <= (o.at) AND (`h`.__valid_to IS NULL OR `h`.__valid_to > (o.at)))",
        ),
        (
            "SELECT h.id FROM s.o JOIN as_of(s.h, (SELECT max(at) FROM s.p)) h ON h.id = o.id",
            "SELECT h.id FROM <s.o> AS `o` JOIN <versions(s.h)> h ON (h.id = o.id) AND "
            "(`h`.__valid_from <= ((SELECT max(at) FROM <s.p> AS `p`)) AND "
            "(`h`.__valid_to IS NULL OR `h`.__valid_to > ((SELECT max(at) FROM <s.p> AS `p`))))",
        ),
    ],
)
def test_bind_select_replaces_names_helpers_and_placeholders(text: str, sql: str) -> None:
    assert bound(text) == sql


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT id FROM as_of(s.h)", "as_of takes a history: as_of(schema.history, moment)"),
        ("SELECT as_of(s.h, 1) AS x", "as_of stands in FROM or JOIN"),
        ("SELECT o.id FROM s.o, as_of(s.h, o.at) h", "as_of a column needs a join with ON"),
        ("SELECT o.id FROM s.o, as_of(s.h, o.at)", "as_of a column needs a join with ON"),
        ("SELECT o.id FROM s.o JOIN s.p JOIN as_of(s.h, o.at) h ON true ON true", "column 36: a join has its"),
    ],
)
def test_helper_in_an_invalid_form_or_position_is_refused(text: str, message: str) -> None:
    with pytest.raises(ModelProblem) as refused:
        bound(text)
    assert message in refused.value.message


def test_a_missing_value_or_relation_is_named_with_its_place() -> None:
    with pytest.raises(ModelProblem, match="line 1, column 8: {{ load_run_id }} has no value here"):
        bind_select("SELECT {{ load_run_id }} AS r", {}, {})
    with pytest.raises(ModelProblem, match=r"line 1, column 16: s\.t is no described dataset"):
        bind_select("SELECT id FROM s.t", {}, {})
