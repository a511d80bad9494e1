"""Page before a load of the datasets that are selected in their list."""

from django.http import HttpResponse

from architecture.selectors.environments import described_states
from architecture.services.states import current_environment
from loader.domain.dependencies import come_by_files, is_loaded, is_view_model
from loader.domain.selection import MAX_WORDS
from loader.views.runs.load_runs import ForStarters
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset
from metadata.views.bulk_edits import SelectedDatasets, SelectedRow


class DatasetsLoad(ForStarters, SelectedDatasets):
    """Show which of the selected datasets a load writes, and the form that starts one load of these."""

    template_name = "loader/datasets/selected_load.html"

    def handle(self) -> HttpResponse:
        states = {state.key: state for state in described_states(environment=current_environment())}
        by_files = come_by_files(states)
        rows, names = [], []
        for dataset in self.selected:
            state = states.get(str(dataset.key))
            reason = _reason(dataset, state, by_files)
            rows.append(SelectedRow(str(dataset), "" if reason else "is loaded", reason))
            if not reason and state is not None:
                names.append(state.qualified_name)
        selection = " ".join(names)
        if len(selection) > MAX_WORDS:
            return self.refuse(
                f"The names of the datasets have {len(selection)} characters; {MAX_WORDS} are possible. "
                "Select fewer, or load a schema or a tag."
            )
        return self.render(edits=rows, selection=selection, count=len(names))


def _reason(dataset: TargetDataset, state: DatasetState | None, by_files: frozenset[str]) -> str:
    """Return the reason why a load does not write a dataset; empty if it does."""
    if dataset.history_of is not None:
        return f"A load writes it with {dataset.history_of}."
    if not dataset.active:
        return "It is retired."
    if state is None or not (is_loaded(state) or is_view_model(state)):
        return "It is a view, or loads do not write its layer."
    return "Its history comes as batch files." if state.key in by_files else ""
