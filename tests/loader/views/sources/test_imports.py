"""Import of a source from its system, as proposed or with a user's changes."""

from pathlib import Path

import pytest
from django.test import Client

from loader.sources.file_detection import detect_file
from metadata.domain.sources.locations import ANYWHERE
from metadata.models import SourceDataset, System, TargetDataset
from tests.elevata.web.forms import form_of, typed, words
from tests.elevata.web.html import html_of
from tests.loader.readers.records.workbook_files import workbook
from tests.loader.views.sources.shop import ORDERS, generate, import_as, import_page, imported

pytestmark = pytest.mark.django_db


# --- importing -----------------------------------------------------------------------------------


def test_proposals_are_shown_with_their_evidence_and_nothing_is_written(editor: Client, shop: System):
    page = import_page(editor)
    fields = form_of(page, having="lines")
    assert [fields[f"c{n}-type"][0] for n in range(4)] == ["string", "integer", "decimal(18,2)", "date"]
    assert [fields[f"c{n}-target_name"][0] for n in range(4)] == ["order_no", "customer", "amount", "ordered_at"]
    assert fields["c0-key_ordinal"] == ["1"]
    assert "all 2 sampled values have 2 digits after the point" in words(page)
    assert "all 2 rows of orders.csv" in words(page)
    assert not SourceDataset.objects.exists()


def test_an_import_as_proposed_writes_the_contract(editor: Client, shop: System):
    answer = import_as(editor, import_page(editor))
    source = SourceDataset.objects.get()
    assert answer.url == f"/sources/{source.key}/first-load/"
    columns = [(c.name, str(c.type), c.key_ordinal, c.nullable, c.target_name) for c in source.columns.all()]
    assert columns == [
        ("Order No", "string", 1, False, ""),
        ("customer", "integer", None, True, ""),
        ("amount", "decimal(18,2)", None, True, ""),
        ("ordered at", "date", None, True, ""),
    ]
    assert (source.location, source.format, source.options, source.historize) == ("orders.csv", "csv", {}, True)


def test_import_writes_the_changes_of_the_user(editor: Client, shop: System):
    import_as(
        editor,
        import_page(editor),
        name="Orders of the shop",
        short_name="sales",
        c0__target_name="order_number",
        c1__type="string(20)",
        c1__pii="on",
        c2__description="Without tax",
    )
    source = SourceDataset.objects.get()
    order, customer, amount, _ = source.columns.all()
    assert (source.name, source.short_name) == ("Orders of the shop", "sales")
    assert (order.target_name, str(customer.type), customer.pii, amount.description) == (
        "order_number",
        "string(20)",
        True,
        "Without tax",
    )


def test_import_stores_sensitivity_marks_and_passes_them_to_generated_columns(editor: Client, shop: System):
    marked = {"c1__pii": "on", "c1__sensitivity": "restricted", "c2__sensitivity": "internal"}
    import_as(editor, import_page(editor), **marked)
    source = SourceDataset.objects.get()
    columns = source.columns.values_list("name", "pii", "sensitivity")
    assert list(columns) == [
        ("Order No", False, ""),
        ("customer", True, "restricted"),
        ("amount", False, "internal"),
        ("ordered at", False, ""),
    ]
    generate(editor, source)
    generated = TargetDataset.objects.get(name="rc_shop_orders").columns.get(name="customer")
    assert (generated.pii, generated.sensitivity) == (True, "restricted")


def test_unknown_sensitivity_is_refused_at_its_line(editor: Client, shop: System):
    answer = import_as(editor, import_page(editor), c1__sensitivity="secret", c2__sensitivity="internal")
    page = html_of(answer)
    assert answer.status_code == 422
    assert 'id="id_c1-sensitivity_error"' in page
    assert form_of(page, having="lines")["c2-sensitivity"] == ["internal"]
    assert not SourceDataset.objects.exists()


def test_a_line_that_is_not_ticked_is_left_out(editor: Client, shop: System):
    import_as(editor, import_page(editor), c3__take=None)
    assert [c.name for c in SourceDataset.objects.get().columns.all()] == ["Order No", "customer", "amount"]


@pytest.mark.parametrize(
    ("over", "field", "message"),
    [
        ({"c1__type": "nonsense"}, "c1-type", "is not a type"),
        ({"c0__type": "integer"}, "c0-type", "2 sampled values do not fit integer, 'A1' for one"),
        ({"c1__target_name": "__op"}, "c1-target_name", "begins with __"),
        ({"c1__key_ordinal": "many"}, "c1-key_ordinal", "A place is a number"),
        ({"c1__key_ordinal": "1"}, "c1-key_ordinal", "Place 1 is there twice"),
        ({"c1__key_ordinal": "3"}, "c1-key_ordinal", "comes before there is a place 2"),
        ({"name": ""}, "name", "Enter a name"),
        ({"short_name": "1 x"}, "short_name", "must start with a letter"),
    ],
)
def test_invalid_import_is_refused_at_its_field_and_keeps_the_input(
    editor: Client, shop: System, over: dict, field: str, message: str
):
    answer = import_as(editor, import_page(editor), c2__description="kept", **over)
    page = html_of(answer)
    assert answer.status_code == 422
    place = page.index(f'id="id_{field}_error"')
    assert message in words(page[place : place + 400])
    assert form_of(page, having="lines")["c2-description"] == ["kept"]
    assert not SourceDataset.objects.exists()


def test_a_type_is_checked_in_the_formats_that_the_reading_options_name(editor: Client, shop: System, landing: Path):
    (landing / "orders.csv").write_text("id;amount;at\n1;1,5;31.01.2024\n2;2;01.02.2024\n")
    page = import_page(editor, format="csv", delimiter=";", date_format="%d.%m.%Y", decimal_separator=",")
    fields = form_of(page, having="lines")
    assert [fields[f"c{n}-type"][0] for n in range(3)] == ["integer", "float", "date"]
    answer = import_as(editor, page, c1__type="decimal(5,1)", c2__type="timestamp")
    assert "2 sampled values do not fit timestamp" in words(html_of(answer))
    import_as(editor, page, c1__type="decimal(5,1)")
    source = SourceDataset.objects.get()
    assert source.options == {"delimiter": ";", "date_format": "%d.%m.%Y", "decimal_separator": ","}
    assert str(source.columns.get(name="amount").type) == "decimal(5,1)"


def test_a_wrong_type_of_a_sensitive_column_shows_no_value_and_no_count(editor: Client, shop: System):
    imported(editor).columns.filter(name="customer").update(pii=True)
    answer = import_as(editor, import_page(editor), c1__type="date", name="again", short_name="again")
    assert "Not every sampled value fits date; a load would refuse them" in words(html_of(answer))


def test_an_error_is_shown_even_if_the_file_is_gone_by_then(editor: Client, shop: System, landing: Path):
    page = import_page(editor)
    (landing / "orders.csv").unlink()
    answer = import_as(editor, page, c1__type="nonsense")
    assert answer.status_code == 422
    assert "all 2 rows of orders.csv" in words(html_of(answer))


def test_a_second_source_of_the_same_name_is_refused_by_its_field(editor: Client, shop: System):
    imported(editor)
    answer = import_as(editor, import_page(editor))
    assert answer.status_code == 422
    assert "another dataset" in words(html_of(answer))
    assert SourceDataset.objects.count() == 1


def test_delimiter_is_detected_and_stored(editor: Client, shop: System, landing: Path):
    (landing / "orders.csv").write_text(ORDERS.replace(",", ";"))
    import_as(editor, import_page(editor))
    source = SourceDataset.objects.get()
    assert source.options == {"delimiter": ";"}
    assert source.columns.count() == 4


@pytest.mark.parametrize(("sent", "delimiter"), [("~", "~"), ("tab", "\t")])
def test_any_character_may_be_the_delimiter(editor: Client, shop: System, landing: Path, sent: str, delimiter: str):
    (landing / "orders.csv").write_text(ORDERS.replace(",", delimiter))
    page = import_page(editor, format="csv", delimiter=sent)
    assert form_of(page, having="delimiter")["delimiter"] == [sent]
    import_as(editor, page)
    source = SourceDataset.objects.get()
    assert (source.options, source.columns.count()) == ({"delimiter": delimiter}, 4)


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        (
            "orders.xlsx",
            workbook({"Notes": [["x"]], "All": {2: ["id", "n"], 3: ["a", 1]}}),
            {"sheet": "All", "range": "A2"},
        ),
        ("orders.json", b'{"items": [{"id": "a", "n": 1}]}', {"path": "items"}),
        ("orders.xml", b"<r><x/><i><id>a</id><n>1</n></i></r>", {"row_tag": "i"}),
        ("orders.fixed", b"a    1\n", {"columns": "id:1-4, n:5-6"}),
    ],
)
def test_a_file_is_imported_with_the_options_of_its_format(
    editor: Client, shop: System, landing: Path, name: str, content: bytes, options: dict[str, str]
):
    (landing / name).write_bytes(content)
    form = {"format": name.partition(".")[2], "delimiter": ",", **options}
    page = import_page(editor, name, **form)
    assert form_of(page, having="delimiter")["format"] == [form["format"]]
    import_as(editor, page)
    source = SourceDataset.objects.get()
    assert (source.format, source.options) == (form["format"], options)
    assert [(column.name, str(column.type)) for column in source.columns.all()] == [("id", "string"), ("n", "integer")]


def test_missing_option_of_a_format_is_named(editor: Client, shop: System, landing: Path):
    (landing / "orders.txt").write_text("a    1\n")
    page = words(import_page(editor, "orders.txt", format="fixed", delimiter=","))
    assert "columns is needed: columns with positions like id:1-8, name:9-30" in page


def test_wrong_delimiter_is_reported_with_the_line(editor: Client, shop: System, landing: Path):
    (landing / "orders.csv").write_text("a;b\n1;2\n1,5;2\n")
    page = words(import_page(editor, format="csv", delimiter=","))
    assert "line 3: 2 fields, where the header has 1" in page
    assert "is that the delimiter?" in page


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "orders.csv is empty"),
        (b"a,a\n1,2\n", "the header names a more than once"),
        (b"a,b\n1\n", "line 2: 1 field, where the header has 2"),
        ("name\nK\xf6ln\n".encode("latin-1"), "is not UTF-8"),
        (b'a,b\n"1,2\n', "orders.csv, line"),
    ],
)
def test_unreadable_file_shows_its_error(editor: Client, shop: System, landing: Path, content: bytes, message: str):
    (landing / "orders.csv").write_bytes(content)
    page = import_page(editor, format="csv", delimiter=",")
    assert message in words(page)
    assert "Import source dataset" not in page


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,a\n1,2\n", "Repeated names are numbered"),
        ("name\nK\xf6ln\n".encode("latin-1"), "No character of the file differs between them"),
        (b'a,b\n"1,2\n', "A quote that begins a field is not closed"),
        (b"id,dia\n1,12 enero 2026\n", "dia may have dates or numbers in a format that is not read; they stay texts."),
    ],
)
def test_detected_options_are_shown_with_open_questions(
    editor: Client, shop: System, landing: Path, content: bytes, message: str
):
    (landing / "orders.csv").write_bytes(content)
    assert message in words(import_page(editor))


def test_answers_to_questions_are_the_options_of_the_source(editor: Client, shop: System, landing: Path):
    (landing / "orders.csv").write_text("id;amount;at\n1;1.234;01.02.2024\n2;5.678;03.04.2024\n")
    form = form_of(import_page(editor), having="answer-date_format")
    assert form["answer-date_format"] == ['{"date_format": "%d.%m.%Y"}']
    sent = {name: values[0] for name, values in form.items()} | {
        "answer-date_format": '{"date_format": "%m.%d.%Y"}',
        "answer-decimal_separator": '{"decimal_separator": ".", "thousands_separator": null}',
    }
    page = import_page(editor, **sent)
    assert "answer-" not in page
    assert form_of(page, having="lines")["c1-type"] == ["decimal(18,3)"]
    import_as(editor, page)
    assert SourceDataset.objects.get().options == {"delimiter": ";", "date_format": "%m.%d.%Y"}


@pytest.mark.parametrize("sent", [{"options": "[]"}, {"options": "{}", "answer-x": "nonsense"}])
def test_tampered_answers_are_refused(editor: Client, shop: System, sent: dict):
    answer = editor.get("/systems/shop/import/", {"location": "orders.csv", "format": "csv", "show": "now", **sent})
    assert answer.status_code == 400


def test_page_and_detection_propose_the_same_names(editor: Client, shop: System, landing: Path):
    (landing / "orders.csv").write_text("KundenNr;Straße;Umsatz €\n1;a;1,5\n2;b;2,5\n")
    fields = form_of(import_page(editor), having="lines")
    detected = detect_file(landing / "orders.csv", ANYWHERE)
    names = [column.target_name for column in detected.columns]
    assert [fields[f"c{n}-target_name"][0] for n in range(3)] == names == ["kunden_nr", "strasse", "umsatz"]


def test_source_of_a_dated_file_is_named_without_the_date(editor: Client, shop: System, landing: Path):
    (landing / "customers_2026-11-01.csv").write_text("id,name\n1,Ann\n")
    form = form_of(import_page(editor, "customers_2026-11-01.csv"), having="short_name")
    assert (form["name"], form["short_name"]) == (["customers"], ["customers"])


def test_a_missing_file_is_named(editor: Client, shop: System):
    assert "gone.csv is not there" in words(import_page(editor, "gone.csv"))


@pytest.mark.parametrize("location", ["/etc/passwd", "../secret_key", "a/../../x", "s3a://bucket/x.csv"])
def test_a_file_outside_of_the_folder_is_neither_shown_nor_imported(editor: Client, shop: System, location: str):
    good = import_page(editor)
    assert "Import source dataset" not in import_page(editor, location)
    assert editor.post("/systems/shop/import/", typed(good, having="lines", location=location)).status_code == 400
    assert not SourceDataset.objects.exists()


@pytest.mark.parametrize("lines", ["", "nonsense", "[1]", '[{"status": "new"}]', "{}"])
def test_tampered_import_form_is_refused(editor: Client, shop: System, lines: str):
    good = import_page(editor)
    assert editor.post("/systems/shop/import/", typed(good, having="lines", lines=lines)).status_code in (400, 422)
    assert not SourceDataset.objects.exists()


def test_columns_that_differ_only_by_case_cannot_both_be_taken(editor: Client, shop: System, landing: Path):
    (landing / "orders.csv").write_text("id,Id\n1,2\n")
    assert "differs only by case from id" in words(import_page(editor, format="csv", delimiter=","))


@pytest.mark.nightly
def test_import_form_accepts_three_hundred_columns(editor: Client, shop: System, landing: Path):
    names = [f"c_{number}" for number in range(300)]
    (landing / "orders.csv").write_text(f"{','.join(names)}\n{','.join(['1'] * 300)}\n")
    assert import_as(editor, import_page(editor)).status_code == 302
    assert SourceDataset.objects.get().columns.count() == 300
