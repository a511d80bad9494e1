"""What services refuse, as problems: who reads them is a program, so the status tells what to do next."""

from collections.abc import Iterator
from contextlib import contextmanager

from rest_framework.exceptions import APIException

from metadata.domain.errors import MetadataError, StaleVersion

# Something else stands in the way; the same request may be right later.
_CONFLICTS = frozenset({"name_taken", "in_use", "order_changed", "constraint"})


class RefusedMetadata(APIException):
    """A change that metadata's rules do not allow; code and field are the rule's own."""

    default_detail = "Refused"

    def __init__(self, refused: MetadataError, *, at: tuple[str, int] | None = None) -> None:
        """``at``: the list and position in a bulk request."""
        place = f"{at[0]}[{at[1]}]: " if at else ""
        super().__init__(f"{place}{refused.one_line()}", code=refused.code)
        self.status_code = status_of(refused)
        field = refused.field or "non_field_errors"
        where = f"{at[0]}.{at[1]}.{field}" if at else field
        self.fields = {where: [refused.message]} if refused.field or at else None


def status_of(refused: MetadataError) -> int:
    """412 over another version, 404 for what is gone, 409 for what stands in the way, else 422."""
    if isinstance(refused, StaleVersion):
        return 412
    if refused.code == "gone":
        return 404
    return 409 if refused.code in _CONFLICTS else 422


@contextmanager
def refusals(at: tuple[str, int] | None = None) -> Iterator[None]:
    """What is refused inside is answered as a problem."""
    try:
        yield
    except MetadataError as refused:
        raise RefusedMetadata(refused, at=at) from None
