"""Last operation of a key: the rule of the view ``operations``."""

import pytest

from tests.loader.reference.operations import last_operations


@pytest.mark.parametrize(
    ("intervals", "delivered", "operation"),
    [
        ([(3, None)], True, ("I", 3)),
        ([(1, 3), (3, None)], True, ("U", 3)),
        ([(1, 2), (3, None)], True, ("I", 3)),
        ([(1, 3)], False, ("D", 3)),
        ([(1, 2)], False, ("D", 2)),
        ([(1, None)], True, ("N", 1)),
        ([(1, 2), (2, None)], True, ("N", 2)),
        ([(1, None)], False, ("X", 3)),
    ],
)
def test_last_operation_follows_from_the_newest_version_and_delivery(intervals, delivered, operation):
    assert last_operations({("a",): intervals}, 3, {("a",)} if delivered else ()) == {("a",): operation}
