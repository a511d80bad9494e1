"""Fields of options, and the options that a form's fields give."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django import forms

from elevata.web.forms import MONO, TextField
from metadata.domain.sources.formats import FILE_FORMATS, FORMATS, NAMES, TEXT_FORMATS
from metadata.domain.sources.option_kinds import CHARACTER, COUNT, DELIMITER, FLAG, NUMBER, THOUSANDS, YEAR
from metadata.domain.sources.options import Option

# Formats that have an option: static/js/page/format_options.js hides its field for others.
FORMATS_OF_FIELD = "data-formats"
# The field of an option that may be longer has several lines.
MANY_CHARACTERS = 1_000
# Groups of formats in help texts; an option of all files needs no hint.
_GROUPS = {FILE_FORMATS: "", TEXT_FORMATS: "Text formats"}
_YES, _NO = "yes", "no"

# Characters that cannot be typed are written as words.
_SPELLED = {CHARACTER: "; write none for an empty one", DELIMITER: "; write tab for a tab"}


def option_fields(options: Iterable[Option], formats: Collection[str] = NAMES) -> type[forms.Form]:
    """Return a form with a field for each option of these formats."""
    return type("OptionFields", (forms.Form,), {option.name: _option_field(option, formats) for option in options})


def option_help(option: Option, formats: Collection[str]) -> str:
    """Return the help text of an option.

    It begins with the formats that have the option, unless all of these have. It ends with an example if the field has
    neither a default to show nor choices.
    """
    meaning = option.short_meaning.replace("`", "") + _SPELLED.get(option.kind, "")
    labels = ", ".join(entry.label for entry in FORMATS if entry.name in option.formats)
    applies_to = "" if {*formats} <= {*option.formats} else _GROUPS.get(option.formats, labels)
    text = f"{applies_to}: {meaning}." if applies_to else f"{meaning[0].upper()}{meaning[1:]}."
    has_example = not _default_text(option) and not _choices(option)
    return f"{text} Example: {option.example.strip('`')}" if has_example else text


def _default_text(option: Option) -> str:
    """Return the default as the form shows it; empty if there is none, or if it depends on the format."""
    return "" if option.default_in else str(option_text(option.default))


def _choices(option: Option) -> tuple[str, ...]:
    return (_YES, _NO) if option.kind is FLAG else option.kind.choices


def _option_field(option: Option, formats_of_form: Collection[str]) -> forms.Field:
    """Return the field of an option. An empty field is not stored, so the default applies, which the field shows."""
    help_text, default = option_help(option, formats_of_form), _default_text(option)
    shared: dict[str, Any] = {"required": False, "label": option.label, "help_text": help_text}
    formats = {FORMATS_OF_FIELD: " ".join(option.formats)}
    if values := _choices(option):
        usual = f"as usual ({default})" if default else "as usual"
        choices = (("", usual), *((value, value) for value in values))
        return forms.ChoiceField(choices=choices, widget=forms.Select(attrs=formats), **shared)
    attributes = formats | ({"placeholder": default} if default else {})
    if option.kind in (COUNT, NUMBER, YEAR):
        least = 0 if option.kind is NUMBER else 1
        invalid = f"Enter a whole number, {least} or more."
        widget = forms.NumberInput(attrs={"min": least} | attributes)
        return forms.IntegerField(min_value=least, widget=widget, error_messages={"invalid": invalid}, **shared)
    if option.longest > MANY_CHARACTERS:
        lines = forms.Textarea(attrs=MONO | attributes | {"rows": 3})
        return TextField(max_length=option.longest, widget=lines, **shared)
    line = forms.TextInput(attrs=MONO | attributes)
    if option.kind in _SPELLED:
        return forms.CharField(max_length=4, strip=False, widget=line, **shared)
    # A blank separates thousands in some languages.
    return forms.CharField(max_length=option.longest, strip=option.kind is not THOUSANDS, widget=line, **shared)


def changed_arguments(
    changed: Mapping[str, Any], facts: Collection[str], data: Mapping[str, Any], options: Mapping[str, Option]
) -> dict[str, Any]:
    """Return the changed fields as arguments of the service; a changed option brings all options.

    An empty option is not stored, so its default applies.
    """
    arguments = {name: value for name, value in changed.items() if name in facts}
    if len(arguments) == len(changed):
        return arguments
    return arguments | {"options": given_options(data, options)}


def given_options(data: Mapping[str, Any], options: Mapping[str, Option]) -> dict[str, Any]:
    """Return the options that are given in a form's cleaned data."""
    texts = {name: data[name] for name in options if data.get(name) not in ("", None)}
    return {name: option_value(options[name], text) for name, text in texts.items()}


def option_value(option: Option, given: Any) -> Any:
    """Return the option's value for a field: ``tab`` and ``none`` stand for a tab and for no character."""
    if option.kind is FLAG:
        return given == _YES
    return {"tab": "\t", "none": ""}.get(given, given) if option.kind in (CHARACTER, DELIMITER) else given


def option_text(value: Any) -> str:
    """Return the text of an option in the form; empty if the option is not stored."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return _YES if value else _NO
    return {"\t": "tab", "": "none"}.get(value, value)
