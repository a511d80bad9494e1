"""SQL is parsed as it was checked: Spark substitutes no variables, in any session or setting."""

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from loader.engine.session import USER_METADATA, commit_metadata, dataset_session
from metadata.domain.sql import put_columns, quote_identifier, quote_text
from tests.loader.harness import Dataset

pytestmark = pytest.mark.spark

VARIABLES = ["${env:HOME}", "${system:user.name}", "${spark.app.id}", "${spark.sql.ansi.enabled}", "${hiveconf:x}"]
# Literals, and the values that Spark parses.
LITERALS = [
    ("''''", "'"),
    ("'a''b'", "a'b"),
    ("'a' 'b'", "ab"),
    ('"a"', "a"),
    (r"'a\'b'", "a'b"),
    (r"'a\nb'", "a\nb"),
    (r"'\u0041'", "A"),
    (r"'\u0024{env:HOME}'", "${env:HOME}"),
    (r"'\d'", "d"),
    (r"'\%'", r"\%"),
    ("'$' '{env:HOME}'", "${env:HOME}"),
    ("'{{ x'", "{{ x"),
]


@pytest.mark.parametrize("text", VARIABLES)
def test_variable_in_a_literal_is_not_substituted(spark, text):
    assert spark.conf.get("spark.sql.variable.substitute") == "false"
    for session in (spark, spark.newSession(), dataset_session(spark, user_metadata="{}")):
        assert session.sql(f"SELECT {quote_text(text)}").first()[0] == text
        assert session.range(1).select(F.expr(quote_text(text))).first()[0] == text
        assert session.range(1).selectExpr(f"{quote_text(text)} AS {quote_identifier(text)}").columns == [text]
        assert session.range(1).where(f"{quote_text(text)} = concat('$', {quote_text(text[1:])})").count() == 1


@pytest.mark.core(each=True)
@pytest.mark.parametrize(("text", "value"), LITERALS)
def test_put_columns_keeps_the_value_of_literals(spark, text, value):
    inlined = put_columns(f"concat(upper(Name), {text})", {"name": "`other`"})
    assert inlined == f"concat(upper((`other`)), {text})"
    frame = spark.sql("SELECT 'x' AS other, 'x' AS name").select(
        F.expr(inlined), F.expr(f"concat(upper(name), {text})")
    )
    assert tuple(frame.first()) == (f"X{value}", f"X{value}")


@pytest.mark.parametrize("text", VARIABLES)
def test_commit_metadata_is_stored_as_it_was_given(spark, tmp_path, text):
    """Check commit metadata with ``${}``, since Spark substitutes variables in the values of settings, too."""
    session = dataset_session(spark, user_metadata=commit_metadata({"notes": {"label": text}}))
    session.range(1).write.format("delta").save(str(tmp_path / "table"))
    metadata = session.sql(f"DESCRIBE HISTORY delta.`{tmp_path / 'table'}`").first().userMetadata
    assert metadata == session.conf.get(USER_METADATA)
    assert session.range(1).select(F.get_json_object(F.lit(metadata), "$.notes.label")).first()[0] == text


def test_warehouse_files_are_accessible_to_their_owner_only(spark, tmp_path):
    Dataset(spark, tmp_path).load([{"id": 1, "v": "a"}], at="2024-01-01T00:00:00+00:00")
    warehouse = tmp_path / "warehouse"
    files = [path for path in warehouse.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".parquet", ".json", ".crc"}
    loose = [str(path) for path in Path(warehouse).rglob("*") if path.stat().st_mode & 0o077]
    assert loose == []
