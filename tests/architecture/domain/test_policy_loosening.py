"""Comparison of two change policies: the choices that permit more than before."""

from dataclasses import replace

import pytest

from architecture.domain.change_policy import REVIEW, SAFE, PolicySet
from architecture.domain.decisions import Need
from architecture.domain.policy_loosening import loosened
from architecture.domain.policy_rules import ALLOW, APPROVE, BLOCK, RULES
from architecture.domain.steps.features import OPEN

DEFAULTS = PolicySet()


def severities(**values: str) -> PolicySet:
    return replace(DEFAULTS, severities={**DEFAULTS.severities, **values})


def needs(policy: PolicySet = DEFAULTS, **by_risk: Need) -> PolicySet:
    return replace(policy, approvals={**policy.approvals, **by_risk})


def choices(before: PolicySet, after: PolicySet) -> list[str]:
    return [change.choice for change in loosened(before, after)]


def test_unchanged_policy_is_not_looser():
    assert loosened(DEFAULTS, PolicySet()) == ()


@pytest.mark.parametrize(("strict", "loose"), [(BLOCK, APPROVE), (BLOCK, ALLOW), (APPROVE, ALLOW)])
@pytest.mark.parametrize("code", [rule.code for rule in RULES])
def test_a_lower_severity_is_looser_and_a_higher_one_is_not(code: str, strict: str, loose: str):
    strict_set, loose_set = severities(**{code: strict}), severities(**{code: loose})
    assert choices(strict_set, loose_set) == [f"severities.{code}"]
    assert choices(loose_set, strict_set) == []


@pytest.mark.parametrize("risk", ["safe", "review", "destructive"])
def test_fewer_approvals_are_looser_and_more_are_not(risk: str):
    more, fewer = needs(**{risk: Need(2)}), needs(**{risk: Need(1)})
    assert choices(more, fewer) == [f"approvals.{risk}"]
    assert choices(fewer, more) == []


def test_a_role_that_is_dropped_or_changed_is_looser():
    approver, admin, anybody = (needs(review=Need(1, role)) for role in ("approver", "admin", ""))
    assert choices(approver, anybody) == ["approvals.review"]
    assert choices(approver, admin) == ["approvals.review"]
    assert choices(anybody, approver) == []


def test_a_role_does_not_make_up_for_fewer_approvals():
    assert choices(needs(review=Need(2)), needs(review=Need(1, "approver"))) == ["approvals.review"]


def test_role_without_required_approvals_is_ignored():
    assert choices(needs(safe=Need(0, "approver")), needs(safe=Need(0))) == []


@pytest.mark.parametrize("flag", ["approver_may_execute", "automatic_safe_changes"])
def test_a_flag_that_is_switched_on_is_looser(flag: str):
    off = replace(DEFAULTS, **{flag: False})
    assert choices(off, DEFAULTS) == [flag]
    assert choices(DEFAULTS, off) == []


def test_readers_limited_to_spark_are_looser():
    open_ = replace(DEFAULTS, readers=OPEN)
    assert choices(open_, DEFAULTS) == ["readers"]
    assert choices(DEFAULTS, open_) == []


def test_higher_severity_is_looser_if_its_risk_needs_fewer_approvals():
    """Check a severity that has two required approvals for safe changes and none above: a higher one drops both."""
    before = needs(**{SAFE: Need(2), REVIEW: Need(0)})
    after = replace(before, severities={**before.severities, "ADD_COLUMN": APPROVE})
    assert choices(before, after) == ["severities.ADD_COLUMN"]
    assert choices(needs(before, review=Need(2)), needs(after, review=Need(2))) == []


def test_a_looser_and_a_stricter_choice_do_not_cancel_out():
    before, after = severities(DROP_TABLE=BLOCK, ADD_COLUMN=ALLOW), severities(DROP_TABLE=APPROVE, ADD_COLUMN=BLOCK)
    assert choices(before, after) == ["severities.DROP_TABLE"]


def test_loosened_choice_describes_before_and_after():
    (change,) = loosened(needs(review=Need(2, "approver")), needs(review=Need(1)))
    assert change.as_json() == {
        "choice": "approvals.review",
        "before": "2 approvals by the role approver",
        "after": "1 approval by any approver",
    }


def test_fewer_approvals_of_maintenance_are_looser():
    some, none = replace(DEFAULTS, maintenance=Need(1)), replace(DEFAULTS, maintenance=Need(0))
    assert choices(some, none) == ["maintenance"]
    assert choices(none, some) == []
    assert choices(replace(DEFAULTS, maintenance=Need(2)), DEFAULTS) == ["maintenance"]
    assert choices(replace(DEFAULTS, maintenance=Need(1)), replace(DEFAULTS, maintenance=Need(1, "admin"))) == []


def test_maintenance_needs_the_approvals_of_safe_reports_by_default():
    assert needs(safe=Need(2, "admin")).maintenance_need == Need(2, "admin")
    policy = type(DEFAULTS).from_json({"maintenance": {"count": 0}})
    assert policy.maintenance_need == Need(0)
    assert type(DEFAULTS).from_json(policy.as_json()) == policy
    assert "maintenance" not in DEFAULTS.as_json()
