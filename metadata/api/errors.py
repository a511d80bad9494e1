"""Refusals of services as problem responses, whose status tells a program how to go on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rest_framework.exceptions import APIException

from elevata.core.errors import MetadataError

# Of conflicts (409) the same request may be right later: something else stands in the way.
_STATUS = {"stale_version": 412, "gone": 404, "not_permitted": 403, "token_scope": 403} | dict.fromkeys(
    ("name_taken", "in_use", "order_changed", "constraint", "still_going", "webhook_off"), 409
)


class RefusedRequest(APIException):
    """Refusal of a service. The code is the service's own; ``fields`` maps fields to messages."""

    default_detail = "Refused"

    def __init__(
        self, said: str, *, code: str, status: int, fields: Mapping[str, list[str]] | None = None, retry: int = 0
    ) -> None:
        """``retry``: seconds after which the same request may be right."""
        super().__init__(said, code=code)
        self.status_code = status
        self.fields = dict(fields) if fields else None
        self.wait = retry

    @classmethod
    def of(cls, refused: MetadataError) -> "RefusedRequest":
        """Return the response to a refusal of the rules of metadata."""
        fields = {refused.field: [refused.message]} if refused.field else None
        return cls(refused.one_line(), code=refused.code, status=status_of(refused), fields=fields)


def status_of(refused: MetadataError) -> int:
    """412 over another version, 403 for who, 404 for what is gone, 409 for what stands in the way, else 422."""
    return _STATUS.get(refused.code, 422)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn refusals raised inside into problem responses."""
    try:
        yield
    except MetadataError as refused:
        raise RefusedRequest.of(refused) from None
