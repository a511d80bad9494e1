"""Ends of compressed files."""

import bz2

import pytest

from loader.engine.sources.files import ends_bzip2

# Contents whose streams end at each bit of a byte, and some with a checksum that ends with NUL bytes.
STREAMS = [bz2.compress(b"%d" % number) for number in range(3_000)]


def test_end_of_a_bzip2_stream_is_found_before_nul_bytes():
    assert any(stream.endswith(b"\0") for stream in STREAMS)
    for stream in STREAMS:
        for padding in (0, 1, 5, 512):
            assert ends_bzip2((stream + b"\0" * padding)[-600:])


@pytest.mark.parametrize("cut", [1, 2, 4, 10])
def test_bzip2_stream_without_its_end_is_found_before_nul_bytes(cut):
    for stream in STREAMS:
        if not stream[-cut:].strip(b"\0"):
            continue  # The bytes that are cut off are those of the padding.
        assert not ends_bzip2(stream[:-cut])
    assert not ends_bzip2(b"")
    assert not ends_bzip2(b"\0" * 100)
