"""Display of rows for which a batch is refused: their number, and samples."""

import pytest

from loader.contract.refusals import Refusal
from loader.domain.reference import Header
from loader.engine.replay import SparkEngine

pytestmark = pytest.mark.spark

AT = "2024-01-01T00:00:00Z"
FILES = {"input": "batch_files", "time": "_fivetran_start", "unmodified_string": "<same>"}


@pytest.fixture
def refused(spark, tmp_path):
    def apply(policy: dict, **rows: list[dict]) -> tuple[str, int | None, tuple[str, ...]]:
        columns = {"country": "string", "number": "integer", "name": "string"}
        header = Header.from_dict({"keys": ["country", "number"], "columns": columns, "policy": policy})
        with pytest.raises(Refusal) as caught:
            SparkEngine(spark, str(tmp_path), header).apply({"at": AT, "run_id": "r", **rows})
        return caught.value.code, caught.value.count, caught.value.samples

    return apply


def test_refusal_of_null_keys_shows_the_other_values_of_the_rows(refused):
    rows = [
        {"country": "DE", "number": 1, "name": "a"},
        {"country": "DE", "number": None, "name": "b"},
        {"country": "FR", "number": None, "name": None},
    ]
    code, count, samples = refused({}, rows=rows)
    assert (code, count) == ("NULL_KEY", 2)
    assert sorted(samples) == [
        "country=DE, number=NULL, name=b",
        "country=FR, number=NULL, name=NULL",
    ]


def test_sample_of_a_refused_row_is_cut_to_200_characters(refused):
    _, _, (sample,) = refused({}, rows=[{"country": None, "number": 1, "name": "x" * 1000}])
    assert len(sample) == 200
    assert sample.startswith("country=NULL, number=1, name=xxx")


def test_refusal_of_a_batch_file_row_shows_its_values(refused):
    row = {"country": "DE", "number": 1, "name": "a", "_fivetran_start": AT}
    assert refused(FILES, upsert=[row, row | {"number": None}]) == (
        "NULL_KEY",
        1,
        (f"country=DE, number=NULL, _fivetran_start={AT}, name=a",),
    )
    assert refused(FILES, upsert=[row | {"_fivetran_start": None}]) == (
        "NULL_TIME",
        1,
        ("country=DE, number=1, _fivetran_start=NULL, name=a",),
    )
    assert refused(FILES, upsert=[row | {"name": "<same>"}]) == (
        "UNMODIFIED_IN_UPSERT",
        1,
        (f"country=DE, number=1, _fivetran_start={AT}, name=<same>",),
    )
