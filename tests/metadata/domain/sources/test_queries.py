"""Tests of the SQL of a source: one SELECT or one condition, checked when it is saved and before a load."""

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.sources.queries import check_queries, checked_condition, checked_select


def test_options_are_read_in_the_dialect_of_their_database():
    check_queries("mariadb://reader@db/erp", {"query": "SELECT `id` FROM `orders`"})
    with pytest.raises(MetadataError) as refused:
        check_queries("postgresql://reader@db/erp", {"filter": "`id` > 0"})
    assert (refused.value.code, refused.value.field) == ("sql_invalid", "options.filter")


def test_comments_of_a_query_are_replaced_by_blanks():
    assert checked_select("SELECT 1 -- one\n + 2 /* ) */ AS x ;", "postgresql") == "SELECT 1       \n + 2         AS x"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "DELETE FROM t RETURNING id",
            "SELECT 1; SELECT 2",
            "SELECT 1 INTO x",
            "SELECT 1 FROM t FOR UPDATE",
            "SET x = 1",
        ),
        *("WITH d AS (DELETE FROM t RETURNING id) SELECT * FROM d", "COPY t TO '/x'", "CALL p()", "BEGIN"),
        *("", "SELECT frm 1 1", "SELECT 'open", "SELECT (1"),
    ],
)
def test_anything_but_one_select_is_refused(text):
    with pytest.raises(MetadataError) as refused:
        checked_select(text, "postgresql")
    assert refused.value.code in ("sql_refused", "sql_invalid")


@pytest.mark.parametrize(
    "text",
    [
        *("a > 1) OR (1 = 1", "a > 1; DROP TABLE t", "a = 1) UNION SELECT 2 FROM (t", "SELECT 1", "a > 1 ORDER BY a"),
        *("", "a > 1 --\n) OR (true", "exists (DELETE FROM t)"),
    ],
)
def test_anything_but_one_condition_is_refused(text):
    with pytest.raises(MetadataError) as refused:
        checked_condition(text, "postgresql")
    assert refused.value.code in ("sql_refused", "sql_invalid")


def test_valid_conditions_are_accepted_unchanged():
    for text in ("a > 1 AND b = ')'", "a IN (SELECT b FROM c) OR x IS NULL", "(a > 1) AND (b < 2)"):
        assert checked_condition(text, "postgresql") == text
