"""Four eyes and service accounts: an account and its owner are one person. And roles for one environment."""

import pytest

from architecture.domain.workflow import Refused
from architecture.models import ChangeReport
from architecture.services.approvals import approvals_missing, approve
from architecture.services.people import role_names
from architecture.services.policies import update_policies
from architecture.services.reports import authors_of_report
from architecture.shown import standing
from metadata.domain.roles import Role
from metadata.models import TargetColumn
from metadata.services.actor import acting_as
from metadata.services.people import create_service_account, grant_role
from metadata.services.targets import update_target_column
from tests.architecture.world import person

pytestmark = pytest.mark.django_db


def not_null(world, who) -> ChangeReport:
    column = TargetColumn.objects.get(name="full_name")
    with acting_as(who, by_token=True):
        update_target_column(column=column, expected_version=column.version, nullable=False)
    return world.report()


def refused_with(code: str, deed, **asked: object) -> None:
    with pytest.raises(Refused) as refused:
        deed(**asked)
    assert refused.value.code == code


def robot(owner, *roles: Role, name: str = "robot"):
    return create_service_account(name=name, owner=owner, roles=roles)


def test_an_owner_does_not_approve_what_their_account_changed(built):
    report = not_null(built, robot(built.approver, Role.EDITOR))
    refused_with("OWN_CHANGE", approve, report=report, person=built.approver)
    assert standing(report, built.approver, authors_of_report(report)).cannot_approve.code == "OWN_CHANGE"


def test_an_account_does_not_approve_what_its_owner_changed(built):
    account = robot(built.author, Role.APPROVER)
    refused_with("OWN_CHANGE", approve, report=not_null(built, built.author), person=account)


def test_nor_what_another_account_of_the_same_owner_changed(built):
    dave = person("dave", Role.VIEWER)
    report = not_null(built, robot(dave, Role.EDITOR, name="writer"))
    refused_with("OWN_CHANGE", approve, report=report, person=robot(dave, Role.APPROVER, name="reader"))


def test_an_owner_and_their_account_are_one_approval(built):
    not_null(built, built.author)
    policies = {"approvals": {"review": {"count": 2}}}
    update_policies(
        environment=built.environment, policies=policies, expected_version=1, person=person("root", Role.ADMIN)
    )
    report = built.report()
    approve(report=report, person=robot(built.approver, Role.APPROVER))
    refused_with("ALREADY_DECIDED", approve, report=report, person=built.approver)
    assert approvals_missing(report) == 1
    approve(report=report, person=person("eve", Role.APPROVER))
    assert report.status == "approved"


# --- roles for one environment or schema -----------------------------------------------------------


def test_an_approver_of_this_environment_approves_here(built):
    report = not_null(built, built.author)
    dora = person("dora")
    refused_with("NOT_PERMITTED", approve, report=report, person=dora)
    grant_role(user=dora, role="approver", environment=built.environment.name)
    dora = type(dora).objects.get(pk=dora.pk)
    assert approve(report=report, person=dora).roles == ["approver"]
    assert report.status == "approved"


def test_an_approver_of_another_does_not(built):
    dora = person("dora")
    grant_role(user=dora, role="approver", environment="prod")
    refused_with("NOT_PERMITTED", approve, report=not_null(built, built.author), person=dora)


def test_an_approver_of_the_schema_approves_what_touches_nothing_else(built):
    report = not_null(built, built.author)
    dora = person("dora")
    schema = TargetColumn.objects.get(name="full_name").dataset.schema
    grant_role(user=dora, role="approver", schema=schema)
    approve(report=report, person=type(dora).objects.get(pk=dora.pk))
    assert report.status == "approved"


def test_an_author_is_one_whatever_they_are_granted(built):
    grant_role(user=built.author, role="approver", environment=built.environment.name)
    author = type(built.author).objects.get(pk=built.author.pk)
    refused_with("OWN_CHANGE", approve, report=not_null(built, author), person=author)


def test_roles_told_of_an_approval_are_those_of_the_place(built):
    dora = person("dora", Role.VIEWER)
    assert role_names(dora) == ["viewer"]
