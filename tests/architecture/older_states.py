"""Applied states of older releases, whose only recorded row rule is the keep mode."""

from architecture.models import AppliedDataset
from architecture.services.states import sign_applied


def store_as_older_release() -> None:
    """Store all applied states in the format of an older release."""
    for row in AppliedDataset.objects.all():
        policy = row.state.get("load_policy") or {}
        row.state = {name: value for name, value in row.state.items() if name != "rules_recorded"}
        row.state["load_policy"] = {name: value for name, value in policy.items() if name == "keep"} or None
        sign_applied(row).save()
