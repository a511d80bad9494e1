"""Batch files: decryption, decompression, permitted places, memory."""

import os
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from loader.contract.refusals import Refusal
from loader.fivetran.files import Budget, PackedFile
from tests.loader.fivetran.sender import encrypted

KEY, OTHER_KEY = b"k" * 32, b"x" * 32
# Random text is longer than one chunk even when packed.
CONTENT = b"id,name\n" + b"".join(b"%d,%s\n" % (n, os.urandom(16).hex().encode()) for n in range(60_000))
PACKED = pa.compress(CONTENT, codec="zstd", asbytes=True)


@pytest.fixture(autouse=True)
def permitted(settings, tmp_path: Path) -> Path:
    settings.SOURCE_ROOTS = [str(tmp_path / "in")]
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def store(folder: Path, content: bytes, name: str = "a.csv") -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def refused(file: PackedFile) -> str:
    with pytest.raises(Refusal) as caught:
        for _ in file.chunks(Budget.of_settings()):
            pass
    return caught.value.code


@pytest.mark.parametrize("codec", ["zstd", "gzip", None])
def test_a_file_is_decrypted_and_unpacked(permitted, codec):
    path = store(permitted, encrypted(CONTENT, KEY, codec))
    assert b"".join(PackedFile(path, KEY, codec or "none").chunks(Budget.of_settings())) == CONTENT


def test_a_plain_file_is_read_as_it_is(permitted):
    assert b"".join(PackedFile(store(permitted, CONTENT)).chunks(Budget.of_settings())) == CONTENT


def test_an_empty_file_has_no_chunks(permitted):
    assert list(PackedFile(store(permitted, encrypted(b"", KEY)), KEY, "zstd").chunks(Budget.of_settings())) == []


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_a_wrong_key_is_refused(permitted, codec):
    path = store(permitted, encrypted(CONTENT, KEY, codec))
    assert refused(PackedFile(path, OTHER_KEY, codec)) == "WRONG_KEY"


def test_a_key_of_another_length_is_refused(permitted):
    assert refused(PackedFile(store(permitted, encrypted(CONTENT, KEY)), b"short", "zstd")) == "BAD_KEY"


@pytest.mark.parametrize("size", [0, 16, 31, 33, 1001])
def test_file_with_an_incomplete_block_is_refused_as_truncated(permitted, size):
    path = store(permitted, encrypted(CONTENT, KEY)[:size])
    assert refused(PackedFile(path, KEY, "zstd")) == "TRUNCATED_FILE"


def test_file_cut_at_a_block_boundary_is_refused_as_a_wrong_key(permitted):
    path = store(permitted, encrypted(CONTENT, KEY, None)[: 1 << 20])
    assert refused(PackedFile(path, KEY)) == "WRONG_KEY"


def test_a_packed_stream_that_ends_early_is_truncated(permitted):
    path = store(permitted, encrypted(PACKED[:-1000], KEY, None))
    assert refused(PackedFile(path, KEY, "zstd")) == "TRUNCATED_FILE"


def test_a_damaged_stream_is_unreadable(permitted):
    path = store(permitted, encrypted(PACKED + b"no frame of zstd", KEY, None))
    assert refused(PackedFile(path, KEY, "zstd")) == "UNREADABLE_FILE"


def test_uncompressed_file_is_refused_if_compression_is_declared(permitted):
    assert refused(PackedFile(store(permitted, encrypted(b"id,name\n1,a\n", KEY, None)), KEY, "zstd")) == "WRONG_KEY"
    assert refused(PackedFile(store(permitted, b"id,name\n1,a\n"), None, "zstd")) == "UNREADABLE_FILE"


def test_a_file_that_unpacks_beyond_the_limit_is_refused(permitted, settings):
    settings.BATCH_MAX_UNPACKED_BYTES = 1 << 20
    path = store(permitted, encrypted(bytes(50 << 20), KEY))
    assert os.path.getsize(path) < 100_000
    assert refused(PackedFile(path, KEY, "zstd")) == "TOO_LARGE_UNPACKED"


def test_files_of_a_request_that_unpack_beyond_the_limit_together_are_refused(permitted, settings):
    settings.BATCH_MAX_UNPACKED_BYTES = 3 << 20
    file = PackedFile(store(permitted, encrypted(bytes(2 << 20), KEY)), KEY, "zstd")
    budget = Budget.of_settings()
    assert sum(map(len, file.chunks(budget))) == 2 << 20
    with pytest.raises(Refusal) as again:
        list(file.chunks(budget))
    assert again.value.code == "TOO_LARGE_UNPACKED"


def test_a_file_outside_of_the_permitted_places_is_refused(permitted, tmp_path):
    outside = store(tmp_path, encrypted(CONTENT, KEY))
    assert refused(PackedFile(outside, KEY, "zstd")) == "OUTSIDE_ROOTS"
    assert refused(PackedFile(f"{permitted}/../a.csv", KEY, "zstd")) == "OUTSIDE_ROOTS"
    (permitted / "link.csv").symlink_to(outside)
    assert refused(PackedFile(str(permitted / "link.csv"), KEY, "zstd")) == "OUTSIDE_ROOTS"


def test_a_missing_or_special_file_is_refused(permitted):
    os.mkfifo(permitted / "pipe")
    for name in ("missing.csv", "pipe", "", "nul\0.csv"):
        assert refused(PackedFile(str(permitted / name), KEY, "zstd")) == "MISSING_FILE", name


def test_memory_does_not_grow_with_the_file(permitted):
    path = store(permitted, encrypted(bytes(200 << 20), KEY))
    tracemalloc.start()
    try:
        size = sum(len(chunk) for chunk in PackedFile(path, KEY, "zstd").chunks(Budget.of_settings()))
        assert (size, tracemalloc.get_traced_memory()[1] < 16 << 20) == (200 << 20, True)
    finally:
        tracemalloc.stop()
