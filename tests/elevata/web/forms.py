"""Form data as a browser sends it: the fields of a page with changed values."""

from html import unescape
from html.parser import HTMLParser
from typing import Any

from tests.elevata.web import pages

Fields = dict[str, list[str]]


class _Forms(HTMLParser):
    """Parser of all forms of a page with the values of their fields."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[tuple[dict[str, str], Fields]] = []
        self._inside = False
        self._select: str | None = None
        self._options: list[str] = []
        self._chosen: list[str] = []
        self._multiple = False
        self._text: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append((attributes, {}))
            self._inside = True
        elif not self._inside:
            return
        elif tag == "input" and attributes.get("name") and attributes.get("type") not in ("submit", "button"):
            ticked = attributes.get("type") in ("checkbox", "radio")
            if not ticked or "checked" in attributes:
                self._field(attributes["name"]).append(attributes.get("value", "on" if ticked else ""))
        elif tag == "textarea":
            self._text = attributes["name"]
            self._field(self._text).append("")
        elif tag == "select" and attributes.get("name"):
            self._select, self._options, self._chosen = attributes["name"], [], []
            self._multiple = "multiple" in attributes
        elif tag == "option" and self._select:
            self._options.append(attributes.get("value", ""))
            if "selected" in attributes:
                self._chosen.append(attributes.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif tag == "textarea" and self._text:
            values = self._field(self._text)
            values[-1] = values[-1].removeprefix("\n")
            self._text = None
        elif tag == "select" and self._select:
            chosen = self._chosen or ([] if self._multiple else self._options[:1])
            if chosen:
                self._field(self._select).extend(chosen)
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._text:
            self._field(self._text)[-1] += data

    def _field(self, name: str) -> list[str]:
        return self.forms[-1][1].setdefault(name, [])


class _Fields(HTMLParser):
    """Parser of the visible fields of POST forms with their descriptions, and of all ids."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[tuple[str, str]] = []
        self.ids: set[str] = set()
        self._does = False
        self._groups: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.ids.add(attributes.get("id", ""))
        if tag == "form":
            self._does = attributes.get("method") == "post"
        elif tag == "fieldset":
            self._groups.append(attributes.get("aria-describedby", ""))
        elif self._does and tag in ("input", "select", "textarea"):
            self._field(attributes)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._does = False
        elif tag == "fieldset":
            self._groups.pop()

    def _field(self, attributes: dict[str, str]) -> None:
        # A checkbox that selects a row is described by the row.
        chooses = attributes.get("type") == "checkbox" and "aria-label" in attributes
        if attributes.get("type") not in ("hidden", "submit", "button") and not chooses:
            group = self._groups[-1] if self._groups and attributes.get("type") == "radio" else ""
            self.fields.append((attributes.get("name", "?"), attributes.get("aria-describedby", "") or group))


def unexplained(page: str) -> list[str]:
    """Return the names of form fields that no element of the page describes."""
    parser = _Fields()
    parser.feed(page)
    return [name for name, by in parser.fields if not by or not set(by.split()) <= parser.ids]


def form_of(page: str, *, having: str) -> Fields:
    """Return the fields of the form that has a field of this name."""
    parser = _Forms()
    parser.feed(page)
    return next(dict(fields) for _, fields in parser.forms if having in fields)


def action_of(page: str, *, having: str) -> str:
    """Return the address that this form is sent to."""
    parser = _Forms()
    parser.feed(page)
    return next(attrs.get("action", "") for attrs, fields in parser.forms if having in fields)


def typed(page: str, *, having: str = "version", **over: Any) -> dict[str, Any]:
    """Return the fields of this form with changed values; None unticks a box or empties a choice."""
    fields: dict[str, Any] = dict(form_of(page, having=having))
    for name, value in over.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value
    return fields


def words(page: str) -> str:
    """Return the visible text of the page without tags and entities."""
    return unescape(pages.words(page))
