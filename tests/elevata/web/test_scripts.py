"""Tests that scripts are modules without globals, and that collected modules import collected modules."""

import re
from pathlib import Path

import pytest
from django.core.files.storage import FileSystemStorage

from elevata.web.storage import ModuleStaticFilesStorage

SCRIPTS = Path(__file__).resolve().parents[3] / "static"
IMPORT = re.compile(r'(?m)^(?:import|export)[^;]*?"(\.[^"]+)";')


@pytest.fixture
def collected(tmp_path: Path, settings) -> Path:
    """Return the folder of collected scripts, those of the SQL editor included."""
    storage = ModuleStaticFilesStorage(location=tmp_path, base_url="/static/")
    source = FileSystemStorage(location=SCRIPTS)
    paths = {}
    for file in sorted(path for folder in ("js", "vendor/codemirror") for path in (SCRIPTS / folder).rglob("*.js")):
        name = str(file.relative_to(SCRIPTS))
        paths[name] = (source, name)
        with source.open(name) as content:
            storage.save(name, content)
    settings.DEBUG = False
    faults = [name for name, _, done in storage.post_process(paths) if isinstance(done, Exception)]
    assert faults == []
    return tmp_path


def test_collected_modules_import_collected_modules(collected: Path):
    hashed = re.compile(r"\.[0-9a-f]{12}\.js$")
    files = [path for path in collected.rglob("*.js") if hashed.search(path.name)]
    imports = [(path, name) for path in files for name in IMPORT.findall(path.read_text())]
    assert len(imports) > 20
    assert [f"{path.name}: {name}" for path, name in imports if not hashed.search(name)] == []
    assert [f"{path.name}: {name}" for path, name in imports if not (path.parent / name).is_file()] == []


def test_scripts_write_no_globals():
    texts = {path.name: path.read_text() for path in (SCRIPTS / "js").rglob("*.js")}
    assert [name for name, text in texts.items() if re.search(r"\bwindow\.\w+ = ", text)] == []
