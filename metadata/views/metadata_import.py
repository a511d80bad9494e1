"""Page that imports metadata from files: a check shows all changes or all faults, and the import makes them."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from elevata.core.errors import MetadataError, as_sentence
from elevata.core.words import counted
from elevata.web.requests import htmx_of
from elevata.web.views import CONFLICT, REFUSED
from metadata.domain.bulk_edits import MOST_ROWS
from metadata.forms.metadata_import import MetadataImportForm
from metadata.services.exchange.csv_export import DATASETS_FILE, SOURCES_FILE
from metadata.services.exchange.csv_files import SOURCES, TARGETS
from metadata.services.exchange.import_preview import ImportPreview, PreviewOutdated, apply_import, preview_import
from metadata.services.exchange.import_rows import Report
from metadata.services.exchange.metadata_files import MetadataFiles, exported_csv, import_records, read_files
from metadata.views.base import Editing, undoable_entry

CSV_FILES = (DATASETS_FILE, SOURCES_FILE)


class MetadataImport(Editing):
    """Import of metadata from files.

    The browser keeps the files between check and import. ``seen`` is the digest of the preview: an import that would
    make other changes is refused, and its preview is shown.
    """

    template_name, part_template = "metadata/import_page.html", "metadata/import_result.html"

    def import_files(self, files: MetadataFiles) -> Report:
        """Import files. The loader overrides this, to limit the locations of sources, since it reads from them."""
        return import_records(files)

    def context(self) -> dict[str, Any]:
        return super().context() | {"csv_layouts": (TARGETS, SOURCES), "csv_files": CSV_FILES}

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if (name := request.GET.get("csv")) in CSV_FILES:
            response = HttpResponse(exported_csv()[name], content_type="text/csv; charset=utf-8")
            response["Content-Disposition"] = f'attachment; filename="{name}"'
            return response
        return self.render(self.template_name, form=MetadataImportForm())

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        form = MetadataImportForm(request.POST, request.FILES)
        if not form.is_valid():
            return self.render(form=form, status=REFUSED)
        # Parsing is slow, so it comes before the transaction.
        files = read_files({file.name: file.read() for file in form.cleaned_data["files"]})
        try:
            if seen := request.POST.get("seen"):
                return self._import(files, seen, form.cleaned_data["reason"])
            preview = preview_import(files, self.import_files)
        except PreviewOutdated as outdated:
            sentence = as_sentence(outdated.message)
            return self.render(form=form, preview=outdated.preview, outdated=sentence, status=CONFLICT)
        except MetadataError as refused:
            return self.render(form=form, refused=refused, status=REFUSED)
        return self.render(form=form, preview=preview)

    def _import(self, files: MetadataFiles, seen: str, reason: str) -> HttpResponse:
        """Make the previewed changes, and go to the list of datasets."""
        result = apply_import(files, self.import_files, seen=seen, reason=reason)
        if result.entry is not None and result.total <= MOST_ROWS:
            self._entry = undoable_entry(result.entry, None)
        self.add_message(f"Imported: {_summary(result)}.", [("Open change log", reverse("change_list"))])
        address = reverse("dataset_list")
        return HttpResponseClientRedirect(address) if htmx_of(self.request) else redirect(address)


def _summary(result: ImportPreview) -> str:
    """Return the number of changes by action, in words."""
    return ", ".join(f"{counted(count, 'object')} {action}" for action, count in result.by_action.items())
