"""A model is compared on the real engine before it is saved: from the command line to the answer."""

import json
from pathlib import Path

import pytest

from tests.loader.processes import CommandServer, make_folder

pytestmark = pytest.mark.spark

METADATA = {
    "shop.yaml": """
format: metadata/v1
system:
  short_name: shop
  name: Shop
  location: '{{ data_dir }}/landing'
  datasets:
    - name: item
      location: item.csv
      columns:
        - {name: id, type: integer, business_key: 1}
        - {name: price, type: integer}
""",
    "model.yaml": """
format: metadata/v1
schemas:
  - {name: mart, layer: serving}
dataset:
  schema: mart
  name: prices
  select: SELECT id, price FROM rawcore.rc_shop_item
  columns:
    - {name: id, business_key: 1}
    - {name: price}
""",
}
GENERATE = """
from metadata.models import SourceDataset
from metadata.services.datasets.generation import generate_targets
for source in SourceDataset.objects.all():
    generate_targets(source_dataset=source)
"""


@pytest.fixture
def commands(tmp_path: Path):
    folder = tmp_path / "data"
    make_folder(folder)
    (folder / "landing").mkdir()
    (folder / "landing" / "item.csv").write_text("id,price\n1,100\n2,7\n3,12\n")
    for name, text in METADATA.items():
        (folder / name).write_text(text)
    server = CommandServer(folder)
    yield server
    server.stop()


# By day, the parts have tests: tests/loader/engine/queries/test_trials.py, tests/loader/services/reads.
@pytest.mark.nightly
def test_a_changed_select_is_compared_with_the_models_table(commands: CommandServer, tmp_path: Path):
    def run(*arguments: str) -> str:
        done = commands.run(*arguments, seconds=240)
        assert done.returncode == 0, done.stderr
        return done.stdout

    folder = tmp_path / "data"
    run("import_metadata", str(folder / "shop.yaml"))
    run("shell", "--command", GENERATE)
    run("import_metadata", str(folder / "model.yaml"))
    run("load", "--local")
    (tmp_path / "new.sql").write_text(
        "SELECT id, CASE WHEN id = 2 THEN 8 ELSE price END AS price, 'EUR' AS currency "
        "FROM rawcore.rc_shop_item WHERE id < 3"
    )

    same = json.loads(run("diff_model", "mart.prices", "--local", "--json"))
    answer = json.loads(run("diff_model", "mart.prices", "--select", str(tmp_path / "new.sql"), "--local", "--json"))

    assert same["rows"] == {"added": 0, "changed": 0, "gone": 0, "same": 3}
    assert answer["rows"] == {"added": 0, "changed": 1, "gone": 1, "same": 1}
    assert answer["columns"]["added"] == [{"name": "currency", "type": "string"}]
    assert answer["samples"]["changed"] == [{"before": [2, 7], "after": [2, 8]}]
