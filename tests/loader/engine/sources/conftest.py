"""Files of deliveries."""

import pytest


@pytest.fixture
def put(tmp_path):
    """Return a function that writes a file below the test's folder and returns its path."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write
