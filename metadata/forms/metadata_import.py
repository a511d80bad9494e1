"""Form of an import of metadata by files."""

from collections import Counter
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile

from elevata.web.forms import ProductForm, ReasonField
from metadata.services.exchange.metadata_files import CSV_SUFFIX, SUFFIXES

_SUFFIXES = (*SUFFIXES, CSV_SUFFIX)
MOST_LISTED = 5


class FilesInput(forms.FileInput):
    """Input of several files."""

    allow_multiple_selected = True


class FilesField(forms.FileField):
    """Field whose value is a list of uploaded files with different names."""

    widget = FilesInput

    def clean(self, data: Any, initial: Any = None) -> list[UploadedFile]:
        files = [super(FilesField, self).clean(file, initial) for file in data or [None]]
        wrong = [file.name for file in files if not file.name.lower().endswith(_SUFFIXES)]
        if wrong:
            more = f" and {len(wrong) - MOST_LISTED} more" if len(wrong) > MOST_LISTED else ""
            names = ", ".join(wrong[:MOST_LISTED])
            raise ValidationError(f"Choose files that end with {', '.join(_SUFFIXES)}, not {names}{more}.")
        twice = [name for name, count in Counter(file.name for file in files).items() if count > 1]
        if twice:
            raise ValidationError(f"Two files are named {twice[0]}. Rename one: faults name the file.")
        return files


class MetadataImportForm(ProductForm):
    """Files to import, and the reason."""

    files = FilesField(  # type: ignore[assignment]  # a field of the form
        widget=FilesInput(
            attrs={
                "multiple": True,
                "accept": ",".join(_SUFFIXES),
                "data-most-files": settings.DATA_UPLOAD_MAX_NUMBER_FILES,
                "data-most-bytes": settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
            }
        ),
        allow_empty_file=True,
        help_text=(
            "YAML, as an export writes it, or CSV with a line for each dataset, source or column; "
            f"together at most {settings.DATA_UPLOAD_MAX_MEMORY_SIZE >> 20} MB."
        ),
        error_messages={"required": "Choose at least one file."},
    )
    reason = ReasonField(required=False)
