"""Metadata imports and uploads whose process is killed: stored and audited completely, or not at all."""

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.loader.installation import SHOP, Installation, make_installation
from tests.loader.processes import make_folder

# Embedded stores, even if the session uses servers: each test has a data folder of its own.
pytestmark = pytest.mark.nightly

COMMAND = Path(__file__).with_name("dying_command.py")
UPSERT = "metadata.services.exchange.import_rows:upsert"
EXISTS = "__import__('metadata.models').models.{model}.objects.exists()"
UPLOAD = """
from loader.services.sources.uploads import store_delivery, store_upload
from metadata.models import SourceDataset, System
content = open({path!r}, "rb").read()
chunks = (content[start : start + 100] for start in range(0, len(content), 100))
if {new}:
    store_upload(system=System.objects.get(), name="new.csv", chunks=chunks)
else:
    store_delivery(source=SourceDataset.objects.get(), name="item.csv", chunks=chunks)
"""
ENTRIES = """
import json
from elevata.audit.models import ChangeLogEntry
entries = ChangeLogEntry.objects.filter(action="uploaded").order_by("pk")
print(json.dumps([json.loads(entry.changes) for entry in entries]))
"""
DELIVERED = ("id,name,price,colour", *(f"{key},n{key},{key},red" for key in range(50)))


def run_killed_command(folder: Path, *arguments: str, **death: Any) -> None:
    """Run a command that kills itself at this call."""
    made = Installation(folder)
    done = subprocess.run(
        [sys.executable, str(COMMAND), *arguments],
        cwd=settings.BASE_DIR,
        env=made.environment | {"ELEVATA_TEST_DEATH": json.dumps(death)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, (done.returncode, done.stdout, done.stderr)


def exported_metadata(folder: Path) -> dict[str, str]:
    """Return the exported metadata by file name, which names no installation."""
    target = folder / "exported"
    done = Installation(folder).run("export_metadata", str(target))
    assert done.returncode == 0, done.stderr
    return {str(path.relative_to(target)): path.read_text() for path in sorted(target.rglob("*.yaml"))}


@pytest.mark.takes(seconds=60)
@pytest.mark.parametrize(
    ("death", "is_there"),
    [
        pytest.param({"call": UPSERT, "due": "calls == 4"}, False, id="between-rows"),
        pytest.param(
            {
                "call": "django.db.backends.base.base:BaseDatabaseWrapper.commit",
                "due": EXISTS.format(model="SourceColumn"),
            },
            False,
            id="before-the-commit",
        ),
        pytest.param(
            {
                "call": "elevata.audit.services.chain:seal",
                "due": EXISTS.format(model="SourceColumn"),
            },
            True,
            id="before-the-seal",
        ),
    ],
)
def test_killed_import_is_stored_whole_or_not_at_all(tmp_path: Path, death: dict, is_there: bool):
    disturbed, calm = tmp_path / "disturbed", tmp_path / "calm"
    for folder in (disturbed, calm):
        make_folder(folder)
        (folder / "shop.yaml").write_text(SHOP)
        (folder / "landing").mkdir()
    imported = Installation(calm).json("import_metadata", str(calm / "shop.yaml"))
    run_killed_command(disturbed, "import_metadata", str(disturbed / "shop.yaml"), **death)
    shop = Installation(disturbed)
    again = shop.json("import_metadata", str(disturbed / "shop.yaml"))
    assert again["created"] == (0 if is_there else imported["created"])
    assert again["updated"] == 0
    assert bool(again["unchanged"]) is is_there
    assert exported_metadata(disturbed) == exported_metadata(calm)
    assert shop.run("verify_audit").returncode == 0


@pytest.mark.takes(seconds=60)
@pytest.mark.parametrize("is_new", [True, False], ids=["new-file", "next-delivery"])
@pytest.mark.parametrize(
    ("is_put", "after", "is_stored"),
    [
        pytest.param(False, True, False, id="before-the-entry"),
        pytest.param(True, False, False, id="before-the-file"),
        pytest.param(True, True, True, id="after-the-file"),
    ],
)
def test_killed_upload_stores_no_partial_file_and_no_file_without_an_entry(
    tmp_path: Path, is_new: bool, is_put: bool, after: bool, is_stored: bool
):
    shop = make_installation(tmp_path / "data")
    sent, landing = tmp_path / "sent.csv", shop.folder / "landing"
    sent.write_text("\n".join(DELIVERED) + "\n")
    target = landing / ("new.csv" if is_new else "item.csv")
    expected = {path.name: path.read_bytes() for path in landing.iterdir()}
    expected |= {target.name: sent.read_bytes()} if is_stored else {}
    death = {"call": "loader.services.sources.uploads:_write", "after": True}
    if is_put:
        place = f"str(arguments[1]) == {str(target)!r}"
        death = {"call": "os:link" if is_new else "pathlib:Path.replace", "due": place, "after": after}
    code = UPLOAD.format(path=str(sent), new=is_new)
    run_killed_command(shop.folder, "shell", "--verbosity", "0", "--command", code, **death)
    assert {path.name: path.read_bytes() for path in landing.iterdir() if path.is_file()} == expected
    entries = json.loads(shop.shell(ENTRIES))
    assert len(entries) == is_put
    if is_put and not is_new:
        assert entries[0]["sha256"]["after"] == hashlib.sha256(sent.read_bytes()).hexdigest()
    assert shop.run("verify_audit").returncode == 0
    if not (is_new and is_stored):
        shop.shell(code)
    assert target.read_bytes() == sent.read_bytes()
