"""Optional dependencies: the refusal without their packages, and a product that starts without them."""

import io
import subprocess
import sys

import pytest

from elevata.bootstrap.places import ROOT
from loader.contract.refusals import Refusal
from loader.domain.extras import EXTRAS, packages_of
from loader.readers.records.readers import READERS
from metadata.domain.sources.formats import XLSX
from metadata.domain.sources.reading_options import ReadingOptions

# Refuses the import of every package of an extra.
BLOCK = f"""
import sys
BLOCKED = {[package for each in EXTRAS.values() for package in each.imports]!r}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""


@pytest.mark.parametrize("name", sorted(EXTRAS))
def test_missing_package_of_an_extra_is_refused_with_the_command(name):
    package = EXTRAS[name].imports[0]
    with pytest.raises(Refusal) as refused, packages_of(name):
        raise ModuleNotFoundError(f"No module named '{package}.part'", name=f"{package}.part")
    assert refused.value.code == "PACKAGE_MISSING"
    assert package in refused.value.message
    assert f"pip install 'elevata[{name}]'" in refused.value.hint


def test_other_missing_module_is_no_refusal():
    with pytest.raises(ModuleNotFoundError), packages_of("kafka"):
        raise ModuleNotFoundError("No module named 'loader.readers.kafka.other'", name="loader.readers.kafka.other")


def test_workbook_is_refused_without_its_package(monkeypatch):
    monkeypatch.delitem(sys.modules, "loader.readers.records.workbooks", raising=False)
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(Refusal) as refused:
        next(READERS[XLSX](io.BytesIO(b""), "prices.xlsx", ReadingOptions.of(XLSX, {}), ()))
    assert refused.value.code == "PACKAGE_MISSING"


@pytest.mark.parametrize("imports", ["django.setup(); import elevata.urls", "import loader.engine.runner"])
def test_product_starts_without_the_packages_of_extras(imports, tmp_path):
    code = f"{BLOCK}\nimport django\n{imports}"
    environment = {"DJANGO_SETTINGS_MODULE": "elevata.settings", "ELEVATA_DATA_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
