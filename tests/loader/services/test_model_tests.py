"""Files with unit tests of models: parsed tests, and refusals with file, line and field."""

from pathlib import Path

import pytest

from elevata.core.errors import MetadataError
from loader.domain.model_tests import ModelTest
from loader.services.model_tests import read_tests
from metadata.models import TargetDataset
from metadata.services.datasets import targets
from metadata.services.exchange.metadata_files import import_metadata
from tests.factories import TargetColumnFactory, TargetDatasetFactory, TargetSchemaFactory

pytestmark = pytest.mark.django_db

FILE = """\
format: model-tests/v1
tests:
  - name: amounts are summed
    model: bizcore.sales
    given:
      rawcore.orders:
        - {customer: ann, amount: 1.50}
        - {customer: ann}
    expect:
      - {customer: ann, total: 1.50}
"""


@pytest.fixture
def sales() -> TargetDataset:
    """Return a model over orders."""
    orders = TargetDatasetFactory(name="orders")
    TargetColumnFactory(dataset=orders, name="id", data_type="bigint", nullable=False, key_ordinal=1)
    TargetColumnFactory(dataset=orders, name="customer")
    TargetColumnFactory(dataset=orders, name="amount", data_type="decimal", precision=10, scale=2)
    select = "SELECT customer, sum(amount) AS total, count(*) AS orders FROM rawcore.orders GROUP BY customer"
    schema = TargetSchemaFactory(name="bizcore")
    return targets.create_target_dataset(schema=schema, name="sales", select=select, business_key=["customer"])


@pytest.fixture
def write(tmp_path: Path):
    def written(text: str) -> Path:
        path = tmp_path / "tests.yaml"
        path.write_text(text)
        return path

    return written


def test_given_rows_of_a_model_test_become_queries(sales, write):
    (test,) = read_tests(write(FILE)).tests
    assert isinstance(test, ModelTest)
    ((view, given),) = test.given
    assert view in test.query
    assert "'1.50'" in given
    assert (test.columns, test.key, test.ordered) == (("customer", "total"), ("customer",), False)


def test_columns_without_given_values_are_null(sales, write):
    (test,) = read_tests(write(FILE)).tests
    assert "NULL" in test.given[0][1]
    assert "`id`" in test.given[0][1]


def test_given_rows_can_replace_a_view(sales, write):
    targets.create_target_dataset(
        schema=sales.schema, name="recent", select="SELECT * FROM rawcore.orders", materialization="view"
    )
    select = "SELECT count(*) AS n FROM bizcore.recent"
    targets.create_target_dataset(schema=sales.schema, name="counts", select=select)
    text = FILE.replace("bizcore.sales", "bizcore.counts").replace("rawcore.orders", "bizcore.recent")
    (test,) = read_tests(write(text.replace("{customer: ann, total: 1.50}", "{n: 2}"))).tests
    assert len(test.given) == 1


def test_only_named_tests_are_read(sales, write):
    second = FILE.partition("tests:\n")[2].replace("amounts are summed", "another")
    assert [test.name for test in read_tests(write(FILE + second), ["another"]).tests] == ["another"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("model-tests/v1", "model-tests/v2", "tests.yaml:1:9"),
        ("    expect:", "    expects:", "tests.yaml:9:5: expects: is not known here"),
        ("bizcore.sales", "bizcore.sale", "tests.yaml:4:12: model: there is no model bizcore.sale"),
        ("rawcore.orders:", "rawcore.order:", "tests.yaml:6:7: given: bizcore.sales does not read rawcore.order"),
        ("customer: ann, amount", "client: ann, amount", "tests.yaml:7:12: client: is no column of rawcore.orders"),
        ("amount: 1.50", "amount: much", "tests.yaml:7:35: amount: 'much' is no decimal(10,2)"),
        ("total: 1.50", "sum: 1.50", "tests.yaml:10:25: sum: is no column of bizcore.sales"),
        ("      rawcore.orders:\n        - {customer: ann, amount: 1.50}\n        - {customer: ann}\n", "      {}\n",
         "reads rawcore.orders, which has no given rows"),
    ],
)  # fmt: skip
def test_invalid_test_file_is_refused_with_line_and_field(sales, write, old, new, message):
    with pytest.raises(MetadataError) as refused:
        read_tests(write(FILE.replace(old, new, 1)))
    assert message in refused.value.one_line()


def test_duplicate_and_unknown_test_names_are_refused(sales, write):
    twice = FILE + FILE.partition("tests:\n")[2]
    with pytest.raises(MetadataError, match="two tests are named"):
        read_tests(write(twice))
    with pytest.raises(MetadataError, match="has no test 'other'"):
        read_tests(write(FILE), ["other"])


def test_metadata_import_accepts_a_folder_with_model_tests(sales, tmp_path, write):
    write(FILE)
    (tmp_path / "schemas.yaml").write_text("format: metadata/v1\nschemas: [{name: mart, layer: serving}]\n")
    import_metadata(tmp_path)
