"""Change log entries that approvals still depend on, so that retention leaves them."""

from architecture.authors import carried_out, hands
from architecture.models import AppliedDataset, Environment
from metadata.models import TargetDataset


def entries_needed() -> set[int]:
    """The entries behind whatever waits to be carried out, in any environment.

    Who made them are the authors who may not approve it: without the entries nobody would know.
    """
    described = set(map(str, TargetDataset.objects.filter(history_of__isnull=True).values_list("key", flat=True)))
    needed: set[int] = set()
    for environment in Environment.objects.all():
        applied = AppliedDataset.objects.filter(environment=environment).values_list("dataset_key", flat=True)
        keys = described | set(map(str, applied))
        needed.update(hand.entry for hand in hands(environment, carried_out(environment, keys)))
    return needed
