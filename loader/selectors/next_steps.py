"""Next step of a dataset, source, load run, report or execution, with the users who can take it.

The rule is ``loader.domain.next_steps``; its facts are in ``next_step_facts``, its words in ``next_step_texts``.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.urls import reverse

from architecture.domain import decisions
from architecture.permissions import BUILDERS, place_of_execution, place_of_report, place_of_scope
from elevata.accounts.access import holders_of_any
from elevata.accounts.permissions import may
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission, Role
from elevata.core.errors import as_sentence
from elevata.web.subjects import FINDERS
from loader.domain import next_steps
from loader.selectors.next_step_facts import Known, known_of, valid_key
from loader.selectors.next_step_texts import NextStep, text_of
from metadata.permissions import here, place_of

# Users that the button mentions which asks them.
_ASKED = 3


def next_step_of(kind: str, key: str, user: Any) -> NextStep:
    """Return the next step of a ``dataset`` or ``source`` (key), ``report`` (id), ``run`` (id) or ``execution`` (pk).

    Raise ObjectDoesNotExist for an unknown one.
    """
    valid = valid_key(kind, key)
    known = known_of(kind, valid, user)
    step = _described(next_steps.next_step(known.facts), known, user)
    own = reverse(f"{kind}_page", args=[valid])
    return replace(step, page=own if step.is_form or not step.address else step.address)


def _described(do: str, known: Known, user: Any) -> NextStep:
    step = text_of(do, known)
    if do in (next_steps.NOTHING, next_steps.WAIT, next_steps.OPEN_NEWER):
        return step
    permissions, place = _permissions(do, known)
    who = _users(do, known, permissions, place)
    refusal = _refusal(do, known, user, permissions, place)
    names = tuple(name for name in who if name != user.get_username())
    if refusal and names:
        step = replace(step, ask=_question(step, known, names))
    return replace(step, who=who, refusal=refusal)


def _permissions(do: str, known: Known) -> tuple[tuple[Permission, ...], Place]:
    """Return the permissions of which a step needs one, and its place."""
    if do == next_steps.CREATE_REPORT:
        return BUILDERS, place_of_scope(known.scope, settings.ENVIRONMENT)
    permission, place = _permission(do, known)
    return (permission,), place


def _permission(do: str, known: Known) -> tuple[Permission, Place]:
    """Return the permission that any other step needs, and its place."""
    if do in (next_steps.LOAD, next_steps.LOAD_AGAIN):
        return Permission.START_LOAD, here()
    if do == next_steps.APPROVE_RUN:
        return Permission.APPROVE_REPORTS, here()
    if do == next_steps.RESUME and known.execution is not None:
        place = place_of_execution(known.execution)()
        return Permission.EXECUTE_REPORTS, place
    if do in (next_steps.PREVIEW, next_steps.EXECUTE, next_steps.APPROVE) and known.report is not None:
        approves = do == next_steps.APPROVE
        permission = Permission.APPROVE_REPORTS if approves else Permission.EXECUTE_REPORTS
        return permission, place_of_report(known.report)()
    if do == next_steps.RETIRE and known.column is not None:
        return Permission.CHANGE_METADATA, place_of(known.column)
    if do in (next_steps.REVIEW_PROPOSAL, next_steps.GENERATE, next_steps.LOAD_REST) or known.dataset is None:
        return Permission.CHANGE_METADATA, Place()
    return Permission.CHANGE_METADATA, place_of(known.dataset)


def _users(do: str, known: Known, permissions: Collection[Permission], place: Place) -> tuple[str, ...]:
    """Return the users who can take the step, by name."""
    users, excluded = holders_of_any(permissions, place), set[str]()
    review = known.review
    if do == next_steps.APPROVE and review is not None:
        excluded = {*review.authors, *(approval.person_name for approval in review.approvals)}
        if review.need.role:
            users = users.filter(groups__name__in=(review.need.role, Role.ADMIN.value)).distinct()
    if do == next_steps.EXECUTE and review is not None and review.need.count and not review.approver_may_execute:
        excluded = {row.person_name for row in review.approvals if row.decision == decisions.YES}
    return tuple(name for name in users.values_list("username", flat=True) if name not in excluded)


def _refusal(do: str, known: Known, user: Any, permissions: Collection[Permission], place: Place) -> str:
    """Return the reason why the user cannot take the step; empty if the user can."""
    review = known.review
    if review is not None and do in (next_steps.APPROVE, next_steps.EXECUTE):
        refused = review.cannot_approve if do == next_steps.APPROVE else review.cannot_execute
        return _sentence(refused, user)
    if any(may(user, permission, place) for permission in permissions):
        return ""
    names = [_ROLES[permission] for permission in dict.fromkeys(permissions)]
    listed = " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"It needs the {listed} role."


_ROLES = {
    Permission.START_LOAD: "operator",
    Permission.APPROVE_REPORTS: "approver",
    Permission.EXECUTE_REPORTS: "operator",
    Permission.CHANGE_METADATA: "editor",
}


def _sentence(refused: Any, user: Any) -> str:
    if not refused:
        return ""
    message = refused["message"] if isinstance(refused, Mapping) else refused.message
    return as_sentence(str(message), user.get_username())


def _question(step: NextStep, known: Known, names: tuple[str, ...]) -> tuple[str, str]:
    """Return address and text of a comment that asks the users, on the report or the dataset."""
    if known.report is not None:
        subject = ("report", known.report.report_id)
    elif known.dataset is not None:
        subject = ("dataset", known.dataset.key)
    else:
        return "", ""
    if subject[0] not in {finder.kind for finder in FINDERS if finder.comments}:
        return "", ""
    mentions = " ".join(f"@{name}" for name in names[:_ASKED])
    return reverse("comment_list", args=subject), f"{mentions} {step.text} Please: {step.button.lower()}."
