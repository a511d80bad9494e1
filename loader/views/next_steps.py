"""Parts of pages about what is to be done now: the next step, and the changes that block a load."""

from functools import partial
from typing import Any

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist
from django.http import Http404

from architecture.permissions import may_build, place_of_scope
from elevata.web.views import TemplatePage
from loader.forms.load_runs import StartLoadForm
from loader.selectors.next_step_facts import KINDS, changes_before_load
from loader.selectors.next_step_texts import NAMED
from loader.selectors.next_steps import next_step_of
from metadata.domain.scope import Scope


class NextStepPart(TemplatePage):
    """Next step of a dataset, source, run, report or execution, which the address names."""

    template_name = "parts/next_step.html"

    def context(self) -> dict[str, Any]:
        asked = [(kind, self.request.GET[kind][:200]) for kind in KINDS if kind in self.request.GET]
        if len(asked) != 1:
            raise Http404
        try:
            step = next_step_of(*asked[0], self.request.user)
        except ObjectDoesNotExist:
            raise Http404 from None
        return super().context() | {"step": step, "named": step.who[:NAMED]}


class LoadBlocks(TemplatePage):
    """Changes that will block the load that the form describes."""

    template_name = "loader/runs/start_blocks.html"

    def context(self) -> dict[str, Any]:
        form = StartLoadForm(self.request.GET)
        form.full_clean()
        changes = changes_before_load(form.scope_chosen()) if not form.errors else None
        scope = changes.scope if changes is not None else Scope()
        place = partial(place_of_scope, scope, settings.ENVIRONMENT)
        return super().context() | {"pending": changes, "may_build": may_build(self.request.user, place)}
