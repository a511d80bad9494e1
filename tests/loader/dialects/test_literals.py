"""Texts and names with quotes, backslashes, dollar signs and percent signs in statements of every dialect."""

import pytest
import sqlglot
from sqlglot import exp

from loader.dialects.catalog import DIALECTS
from loader.dialects.refusals import NotRendered
from tests.loader.dialects.engines import ENGINES, connection_to

ODD = 'it\'s \\ "100 %" $$ $block1$ `x` ]; -- /* */ ä'


@pytest.mark.parametrize("engine", ENGINES)
def test_error_of_a_check_has_the_whole_message(engine):
    connection, dialect = connection_to(engine), DIALECTS[engine]
    with pytest.raises(Exception, match="NULL_KEY") as raised:
        connection.run(dialect.refuse_if("NULL_KEY", ODD, f"SELECT {dialect.text(ODD)} AS x"))
    assert f"NULL_KEY: {ODD}" in str(raised.value)
    connection.run("ROLLBACK" if engine == "postgres" else "SELECT 1")
    connection.run(dialect.refuse_if("NULL_KEY", ODD, f"SELECT 1 WHERE {dialect.text(ODD)} = 'other'"))


@pytest.mark.parametrize("name", DIALECTS)
def test_text_is_one_literal(name):
    dialect = DIALECTS[name]
    (literal,) = sqlglot.parse_one(f"SELECT {dialect.text(ODD)}", read=dialect.parser).find_all(
        exp.Literal, exp.National
    )
    assert literal.name == ODD


@pytest.mark.parametrize("name", DIALECTS)
def test_statement_has_a_semicolon_at_the_end_of_its_last_line_only(name):
    dialect = DIALECTS[name]
    statements = [
        dialect.refuse_if("NULL_KEY", "message;", "SELECT 1\nFROM t"),
        *dialect.create_view("s.v", "SELECT 1\nFROM t"),
        dialect.create_schema("s"),
        *dialect.rename_table("a.x", "b.y"),
        *dialect.replace_table("s.t", [("a", "string(5)")], "SELECT 1\nFROM t", "s.new"),
    ]
    assert not [line for statement in statements for line in statement.splitlines() if line.endswith(";")]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("text", ["a\nb", "a\x00b", "{{ load_run_id }}", "x {{ load_timestamp }}"])
def test_text_that_would_change_the_file_is_refused(name, text):
    for write in (DIALECTS[name].text, DIALECTS[name].identifier):
        with pytest.raises(NotRendered):
            write(text)
