"""Refusals of the workflow as problems, and who takes part in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from architecture.domain.reports.workflow import Refused
from architecture.report_details import BUILDERS, may_build
from architecture.views.decisions import status_of
from metadata.api import errors
from metadata.api.errors import RefusedRequest


@contextmanager
def refusals() -> Iterator[None]:
    """Turn refusals of the workflow or of the rules of metadata into problem responses."""
    with errors.refusals():
        try:
            yield
        except Refused as refused:
            raise RefusedRequest(refused.one_line(), code=refused.code, status=status_of(refused)) from None


class MayBuild(BasePermission):
    """Whoever edits, approves or executes."""

    needs = frozenset(BUILDERS)

    def has_permission(self, request: Request, view: Any) -> bool:
        return may_build(request.user)
