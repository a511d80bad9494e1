"""Changes of models that are views, which a load makes if no user needs to decide on them."""

from collections.abc import Callable, Iterator

from architecture.services.automatic_changes import Pending
from elevata.core.errors import MetadataError
from loader.services.loads.plans import LoadPlan
from metadata.domain.state import DatasetState

Compare = Callable[[frozenset[str]], Pending]


def with_views(plan: LoadPlan, pending: Pending, compare: Compare) -> tuple[Pending, dict[str, str]]:
    """Return the pending changes with those of a plan's views, and the outcome for each view by its name.

    ``compare`` returns the pending changes of datasets by their keys. A view that a user needs to decide on is left as
    it is: tables are loaded all the same.
    """
    keys = plan.described
    everything = _compared(compare, keys.union(*map(plan.beneath, plan.views)))
    if isinstance(everything, Pending) and not everything.needing:
        return everything, {view.qualified_name: _outcome(everything, view) for view in plan.views}
    outcomes: dict[str, str] = {}
    for view in plan.views:
        more = _compared(compare, keys | plan.beneath(view))
        needing = "; ".join(_needing(more))
        if isinstance(more, Pending) and not needing:
            keys, pending = keys | plan.beneath(view), more
            outcomes[view.qualified_name] = _outcome(more, view)
        else:
            outcomes[view.qualified_name] = f"left as it is, because a user needs to decide: {needing}"
    return pending, outcomes


def _compared(compare: Compare, keys: frozenset[str]) -> Pending | MetadataError:
    try:
        return compare(keys)
    except MetadataError as problem:
        return problem


def _needing(compared: Pending | MetadataError) -> Iterator[str]:
    yield from compared.needing if isinstance(compared, Pending) else [compared.one_line()]


def _outcome(pending: Pending, view: DatasetState) -> str:
    changes = any(operation.dataset_key == view.key for operation in pending.operations)
    return "created or changed" if changes else "up to date"
