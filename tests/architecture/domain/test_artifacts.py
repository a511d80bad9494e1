"""Verification of artifacts."""

import pytest

from architecture.domain.artifacts import verify
from elevata.core.errors import MetadataError


@pytest.mark.parametrize("form", [None, 7, [], {}, "a-report/v9"])
def test_artifact_of_an_unknown_format_is_refused(form):
    with pytest.raises(MetadataError, match="must be .* or .*, not ") as refusal:
        verify({"format": form})
    assert (refusal.value.code, refusal.value.field) == ("invalid", "format")
