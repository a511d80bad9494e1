"""Registering a system, looking what it has, importing it, and generating from it, in the browser."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from metadata.domain.roles import Role
from metadata.models import ChangeLogEntry, SourceDataset, System, TargetDataset
from metadata.services.actor import acting_as
from metadata.services.sources import update_source_column, update_system
from metadata.services.targets import update_target_column
from tests.architecture.world import person as someone
from tests.factories import SystemFactory
from tests.web.controlling import read
from tests.web.forms import action_of, form_of, typed, words

pytestmark = pytest.mark.django_db

ORDERS = "Order No,customer,amount,ordered at\nA1,7,12.50,2024-01-01\nA2,8,3.99,2024-01-02\n"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def landing(tmp_path: Path, settings: Any) -> Path:
    """The one folder that sources may stand in, with the orders of a shop."""
    folder = tmp_path / "landing"
    folder.mkdir()
    settings.SOURCE_ROOTS = [str(folder)]
    (folder / "orders.csv").write_text(ORDERS)
    return folder


@pytest.fixture
def shop(landing: Path, db: None) -> System:
    return SystemFactory(short_name="shop", name="Shop", location=str(landing))


def import_page(client: Client, location: str = "orders.csv", **how: str) -> str:
    answer = client.get("/systems/shop/import/", {"location": location, "show": "now", **how})
    assert answer.status_code == 200, answer.content[:500]
    return answer.content.decode()


def import_as(client: Client, page: str, **over: Any) -> HttpResponse:
    fields = {name.replace("__", "-"): value for name, value in over.items()}
    return client.post("/systems/shop/import/", typed(page, having="lines", **fields))


def imported(client: Client) -> SourceDataset:
    import_as(client, import_page(client))
    return SourceDataset.objects.get(name="orders")


# --- registering ---------------------------------------------------------------------------------


def register(client: Client, **over: Any) -> HttpResponse:
    page = read(client, "/register-system/")
    return client.post("/register-system/", typed(page, having="short_name", name="Shop", short_name="shop", **over))


def test_a_system_is_registered_by_its_form(editor: Client, landing: Path):
    answer = register(editor, location=str(landing))
    assert answer.url == "/systems/shop/"
    assert System.objects.get().location == str(landing)
    assert ChangeLogEntry.objects.get(subject_kind="system").actor == "mia"


@pytest.mark.parametrize(
    "location", ["/etc", "{{ data_dir }}", "{{ data_dir }}/../..", "s3a://bucket/in", "file:///etc"]
)
def test_a_folder_outside_of_the_allowed_ones_is_refused(editor: Client, landing: Path, location: str):
    answer = register(editor, location=location)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert 'id="id_location_error"' in page
    assert form_of(page, having="short_name")["location"] == [location]
    assert not System.objects.exists()


def test_a_password_in_the_location_is_refused_and_not_sent_back(editor: Client, landing: Path):
    answer = register(editor, kind="jdbc", location="postgresql://reader:s3cret@db/erp")
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Holds a password" in words(page)
    assert "s3cret" not in page


@pytest.mark.parametrize("secret", ["ELEVATA_SECRET_KEY", "DATABASE_URL", "hunter2", "ELEVATA_SOURCE_ROOTS"])
def test_only_variables_made_for_it_can_be_named_as_secret(editor: Client, landing: Path, secret: str):
    answer = register(editor, kind="jdbc", location="postgresql://reader@db/erp", secret=secret)
    assert answer.status_code == 422
    assert 'id="id_secret_error"' in answer.content.decode()


def test_a_system_is_edited(editor: Client, shop: System):
    page = read(editor, "/systems/shop/edit/")
    assert editor.post("/systems/shop/edit/", typed(page, owner="Team Shop")).url == "/systems/shop/"
    assert System.objects.get().owner == "Team Shop"


def test_two_people_edit_one_system_and_the_second_sees_both(editor: Client, shop: System):
    page = read(editor, "/systems/shop/edit/")
    with acting_as(someone("bob", Role.EDITOR)):
        update_system(system=shop, expected_version=shop.version, owner="Bob")
    answer = editor.post("/systems/shop/edit/", typed(page, owner="Mia"))
    assert answer.status_code == 409
    assert "bob changed shop" in words(answer.content.decode())
    text = answer.content.decode()
    editor.post(action_of(text, having="version"), form_of(text, having="version"))
    assert System.objects.get().owner == "Mia"


def test_a_system_cannot_be_moved_out_of_the_allowed_folders(editor: Client, shop: System):
    page = read(editor, "/systems/shop/edit/")
    assert editor.post("/systems/shop/edit/", typed(page, location="/")).status_code == 422


def test_a_place_that_came_by_yaml_stands_when_something_else_is_edited(editor: Client, shop: System):
    System.objects.update(location="s3a://bucket/in")
    page = read(editor, "/systems/shop/edit/")
    assert editor.post("/systems/shop/edit/", typed(page, owner="Team Shop")).status_code == 302


# --- testing the connection ----------------------------------------------------------------------


def test_of_a_folder_it_is_said_what_was_reached(editor: Client, shop: System):
    answer = editor.post("/systems/shop/test/", headers=HTMX)
    text = words(answer.content.decode())
    assert "The folder is there and can be read." in text
    assert "orders.csv" in text
    assert "<html" not in answer.content.decode()


def test_without_scripts_the_answer_comes_with_the_page(editor: Client, shop: System):
    text = editor.post("/systems/shop/test/").content.decode()
    assert "<html" in text
    assert "The folder is there" in text


def test_a_missing_folder_is_named(editor: Client, shop: System, landing: Path):
    System.objects.update(location=str(landing / "gone"))
    text = words(editor.post("/systems/shop/test/").content.decode())
    assert "gone is not there" in text
    assert "Make the folder" in text


def test_a_host_that_is_not_allowed_is_not_asked(editor: Client, shop: System):
    System.objects.update(kind="jdbc", location="postgresql://reader@169.254.169.254/erp")
    text = words(editor.post("/systems/shop/test/").content.decode())
    assert "no host that may be asked from here" in text
    assert "ELEVATA_SOURCE_HOSTS" in text


def test_a_secret_that_is_not_set_is_named(editor: Client, shop: System, settings: Any):
    settings.SOURCE_HOSTS = ["localhost"]
    System.objects.update(
        kind="jdbc", location="postgresql://reader@localhost/erp", secret="ELEVATA_SOURCE_ERP_PASSWORD"
    )
    text = words(editor.post("/systems/shop/test/").content.decode())
    assert "ELEVATA_SOURCE_ERP_PASSWORD is not set" in text


def test_a_refused_connection_says_host_and_port(editor: Client, shop: System, settings: Any):
    settings.SOURCE_HOSTS = ["127.0.0.1"]
    System.objects.update(kind="jdbc", location="postgresql://reader@127.0.0.1:1/erp")
    text = words(editor.post("/systems/shop/test/").content.decode())
    assert "127.0.0.1 refuses connections on port 1" in text


# --- looking through -----------------------------------------------------------------------------


def test_the_page_comes_before_what_is_found(editor: Client, shop: System):
    assert "orders.csv" not in read(editor, "/systems/shop/discover/")
    part = editor.get("/systems/shop/discover/", headers=HTMX).content.decode()
    assert "orders.csv" in part
    assert "<html" not in part


def test_files_are_searched_by_name(editor: Client, shop: System, landing: Path):
    (landing / "customers.csv").write_text("id\n1\n")
    part = words(read(editor, "/systems/shop/discover/?show=now&q=CUST"))
    assert "customers.csv" in part
    assert "orders.csv" not in part


def test_a_search_that_finds_nothing_says_so(editor: Client, shop: System):
    assert "has “xyz” in its name" in words(read(editor, "/systems/shop/discover/?show=now&q=xyz"))


def test_files_come_a_page_at_a_time(editor: Client, shop: System, landing: Path):
    for number in range(60):
        (landing / f"day_{number:02}.csv").write_text("id\n1\n")
    assert "1–50 of 61" in words(read(editor, "/systems/shop/discover/?show=now"))
    assert "51–61 of 61" in words(read(editor, "/systems/shop/discover/?show=now&page=2"))


def test_what_is_described_already_is_compared_instead(editor: Client, shop: System):
    source = imported(editor)
    part = read(editor, "/systems/shop/discover/?show=now")
    assert reverse("source_columns", args=[source.key]) in part
    assert "/systems/shop/import/" not in part


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
    assert answer.url == f"/sources/{source.key}/generate/"
    told = [(c.name, str(c.type), c.key_ordinal, c.nullable, c.target_name) for c in source.columns.all()]
    assert told == [
        ("Order No", "string", 1, False, ""),
        ("customer", "integer", None, True, ""),
        ("amount", "decimal(18,2)", None, True, ""),
        ("ordered at", "date", None, True, ""),
    ]
    assert (source.location, source.format, source.options, source.historize) == ("orders.csv", "csv", {}, True)


def test_what_a_person_changes_is_what_is_written(editor: Client, shop: System):
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


def test_a_line_that_is_not_ticked_is_left_out(editor: Client, shop: System):
    page = import_page(editor)
    fields = typed(page, having="lines", **{"c3-take": None})
    editor.post("/systems/shop/import/", fields)
    assert [c.name for c in SourceDataset.objects.get().columns.all()] == ["Order No", "customer", "amount"]


@pytest.mark.parametrize(
    ("over", "field", "said"),
    [
        ({"c1__type": "nonsense"}, "c1-type", "is not a type"),
        ({"c1__target_name": "__op"}, "c1-target_name", "begins with __"),
        ({"c1__key_ordinal": "many"}, "c1-key_ordinal", "A place is a number"),
        ({"c1__key_ordinal": "1"}, "c1-key_ordinal", "Place 1 is there twice"),
        ({"c1__key_ordinal": "3"}, "c1-key_ordinal", "comes before there is a place 2"),
        ({"name": ""}, "name", "needs a name"),
        ({"short_name": "1 x"}, "short_name", "must start with a letter"),
    ],
)
def test_what_is_wrong_stands_where_it_was_typed_and_nothing_is_lost(
    editor: Client, shop: System, over: dict, field: str, said: str
):
    answer = import_as(editor, import_page(editor), c2__description="kept", **over)
    page = answer.content.decode()
    assert answer.status_code == 422
    place = page.index(f'id="id_{field}_error"')
    assert said in words(page[place : place + 400])
    assert form_of(page, having="lines")["c2-description"] == ["kept"]
    assert not SourceDataset.objects.exists()


def test_an_error_is_shown_even_if_the_file_is_gone_by_then(editor: Client, shop: System, landing: Path):
    page = import_page(editor)
    (landing / "orders.csv").unlink()
    answer = import_as(editor, page, c1__type="nonsense")
    assert answer.status_code == 422
    assert "all 2 rows of orders.csv" in words(answer.content.decode())


def test_a_second_source_of_the_same_name_is_refused_by_its_field(editor: Client, shop: System):
    imported(editor)
    answer = import_as(editor, import_page(editor))
    assert answer.status_code == 422
    assert "another dataset" in words(answer.content.decode())
    assert SourceDataset.objects.count() == 1


def test_the_delimiter_is_guessed_and_kept(editor: Client, shop: System, landing: Path):
    (landing / "orders.csv").write_text(ORDERS.replace(",", ";"))
    import_as(editor, import_page(editor))
    source = SourceDataset.objects.get()
    assert source.options == {"delimiter": ";"}
    assert source.columns.count() == 4


def test_a_wrong_delimiter_is_told_with_the_line(editor: Client, shop: System, landing: Path):
    (landing / "orders.csv").write_text("a;b\n1;2\n1,5;2\n")
    page = words(import_page(editor, format="csv", delimiter=","))
    assert "line 3: 2 fields, where the header has 1" in page
    assert "is that the delimiter?" in page


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "orders.csv is empty"),
        (b"a,a\n1,2\n", "the header names a more than once"),
        (b"a,b\n1\n", "line 2: 1 field, where the header has 2"),
        ("name\nK\xf6ln\n".encode("latin-1"), "is not UTF-8"),
        (b'a,b\n"1,2\n', "orders.csv, line"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(editor: Client, shop: System, landing: Path, content: bytes, said: str):
    (landing / "orders.csv").write_bytes(content)
    page = import_page(editor)
    assert said in words(page)
    assert "Import it" not in page


def test_a_missing_file_is_named(editor: Client, shop: System):
    assert "gone.csv is not there" in words(import_page(editor, "gone.csv"))


@pytest.mark.parametrize("location", ["/etc/passwd", "../secret_key", "a/../../x", "s3a://bucket/x.csv"])
def test_a_file_outside_of_the_folder_is_neither_shown_nor_imported(editor: Client, shop: System, location: str):
    good = import_page(editor)
    assert "Import it" not in import_page(editor, location)
    assert editor.post("/systems/shop/import/", typed(good, having="lines", location=location)).status_code == 400
    assert not SourceDataset.objects.exists()


@pytest.mark.parametrize("lines", ["", "nonsense", "[1]", '[{"status": "new"}]', "{}"])
def test_a_form_that_no_page_made_is_a_bad_request(editor: Client, shop: System, lines: str):
    good = import_page(editor)
    assert editor.post("/systems/shop/import/", typed(good, having="lines", lines=lines)).status_code in (400, 422)
    assert not SourceDataset.objects.exists()


def test_columns_that_differ_only_by_case_cannot_both_be_taken(editor: Client, shop: System, landing: Path):
    (landing / "orders.csv").write_text("id,Id\n1,2\n")
    assert "differs only by case from id" in words(import_page(editor))


def test_three_hundred_columns_are_one_form(editor: Client, shop: System, landing: Path):
    names = [f"c_{number}" for number in range(300)]
    (landing / "orders.csv").write_text(f"{','.join(names)}\n{','.join(['1'] * 300)}\n")
    assert import_as(editor, import_page(editor)).status_code == 302
    assert SourceDataset.objects.get().columns.count() == 300


# --- comparing -----------------------------------------------------------------------------------


def compare_page(client: Client, source: SourceDataset) -> str:
    return read(client, f"/sources/{source.key}/columns/?show=now")


def take(client: Client, source: SourceDataset, page: str, **over: Any) -> HttpResponse:
    fields = {name.replace("__", "-"): value for name, value in over.items()}
    return client.post(f"/sources/{source.key}/columns/", typed(page, having="lines", **fields))


def place_of(page: str, name: str) -> int:
    lines = json.loads(form_of(page, having="lines")["lines"][0])
    return next(place for place, line in enumerate(lines) if line["name"] == name)


def test_a_delivery_as_promised_has_nothing_to_decide(editor: Client, shop: System):
    page = compare_page(editor, imported(editor))
    assert "Nothing differs" in page
    assert "4 columns as the contract says" in words(page)


def test_what_is_new_changed_and_gone_is_shown_and_only_what_is_ticked_is_taken(
    editor: Client, shop: System, landing: Path
):
    source = imported(editor)
    (landing / "orders.csv").write_text("Order No,customer,amount,vip\nA1,x7,1.50,true\nA2,x8,2.50,false\n")
    page = compare_page(editor, source)
    text = words(page)
    assert "2 sampled values do not fit integer, 'x7' for one" in text
    assert "is promised, but not delivered any more" in text
    customer = place_of(page, "customer")
    answer = take(editor, source, page, **{f"c{customer}-take": "on"})
    assert answer.url == f"/sources/{source.key}/generate/"
    told = {c.name: (str(c.type), c.active) for c in source.columns.all()}
    assert told == {
        "Order No": ("string", True),
        "customer": ("string", True),
        "amount": ("decimal(18,2)", True),
        "ordered at": ("date", True),
        "vip": ("boolean", True),
    }


def test_a_column_that_is_gone_can_be_put_out_of_use(editor: Client, shop: System, landing: Path):
    source = imported(editor)
    (landing / "orders.csv").write_text("Order No,customer,amount\nA1,7,1.50\nA2,8,2.50\n")
    page = compare_page(editor, source)
    take(editor, source, page, **{f"c{place_of(page, 'ordered at')}-take": "on"})
    assert source.columns.get(name="ordered at").active is False
    (landing / "orders.csv").write_text(ORDERS)
    page = compare_page(editor, source)
    assert "was in the contract once" in words(page)
    take(editor, source, page)
    assert source.columns.get(name="ordered at").active is True


def test_a_change_by_somebody_else_is_told_before_anything_is_written(editor: Client, shop: System, landing: Path):
    source = imported(editor)
    (landing / "orders.csv").write_text(ORDERS.replace(",7,", ",x,"))
    page = compare_page(editor, source)
    column = source.columns.get(name="customer")
    with acting_as(someone("bob", Role.EDITOR)):
        update_source_column(source_column=column, expected_version=column.version, type="bigint")
    place = place_of(page, "customer")
    answer = take(editor, source, page, **{f"c{place}-take": "on", f"c{place}-type": "string(9)"})
    text = answer.content.decode()
    assert answer.status_code == 409
    assert "somebody changed it meanwhile: bigint" in words(text)
    assert form_of(text, having="lines")[f"c{place}-type"] == ["string(9)"]
    assert str(source.columns.get(name="customer").type) == "bigint"
    editor.post(f"/sources/{source.key}/columns/", form_of(text, having="lines"))
    assert str(source.columns.get(name="customer").type) == "string(9)"


# --- generating ----------------------------------------------------------------------------------


def generate_page(client: Client, source: SourceDataset) -> str:
    return read(client, f"/sources/{source.key}/generate/")


def generate(client: Client, source: SourceDataset, **over: Any) -> HttpResponse:
    page = generate_page(client, source)
    return client.post(f"/sources/{source.key}/generate/", typed(page, having="fingerprint", **over))


def test_the_preview_names_what_would_appear_and_makes_nothing(editor: Client, shop: System):
    text = words(generate_page(editor, imported(editor)))
    for name in ("raw.raw_shop_orders", "stage.stg_shop_orders", "rawcore.rc_shop_orders", "rc_shop_orders_hist"):
        assert name in text
    assert "order_no string" in text
    assert not TargetDataset.objects.exists()


def test_a_wanted_name_is_what_stage_and_rawcore_get(editor: Client, shop: System):
    import_as(editor, import_page(editor), c0__target_name="order_number")
    generate(editor, SourceDataset.objects.get())
    for name, first in (("raw_shop_orders", "Order No"), ("stg_shop_orders", "order_number")):
        assert TargetDataset.objects.get(name=name).columns.first().name == first


def test_generating_makes_what_was_shown_and_a_second_time_there_is_nothing_to_do(editor: Client, shop: System):
    source = imported(editor)
    assert generate(editor, source).url == f"/sources/{source.key}/"
    assert sorted(source.generated.values_list("name", flat=True)) == [
        "raw_shop_orders",
        "rc_shop_orders",
        "rc_shop_orders_hist",
        "stg_shop_orders",
    ]
    entries = ChangeLogEntry.objects.count()
    assert "Nothing to do." in words(generate_page(editor, source))
    assert ChangeLogEntry.objects.count() == entries


@pytest.fixture
def edited(editor: Client, shop: System) -> SourceDataset:
    """Orders whose amount a person made a float in rawcore, described in their words."""
    source = imported(editor)
    generate(editor, source)
    column = TargetDataset.objects.get(name="rc_shop_orders").columns.get(name="amount")
    update_target_column(column=column, expected_version=column.version, type="float", description="Net")
    return source


def amount() -> Any:
    return TargetDataset.objects.get(name="rc_shop_orders").columns.get(name="amount")


def test_what_a_person_edited_is_shown_as_a_difference_and_left_alone(editor: Client, edited: SourceDataset):
    text = words(generate_page(editor, edited))
    assert "1 difference from the source" in text
    generate(editor, edited)
    assert (str(amount().type), amount().description) == ("float", "Net")


def test_a_person_may_take_the_sources_word_per_dataset(editor: Client, edited: SourceDataset):
    generate(editor, edited, accept=str(TargetDataset.objects.get(name="rc_shop_orders").key))
    assert (str(amount().type), amount().description) == ("decimal(18,2)", "Net")


def test_a_preview_that_is_not_true_any_more_is_not_carried_out(editor: Client, edited: SourceDataset):
    page = generate_page(editor, edited)
    column = edited.columns.get(name="customer")
    update_source_column(source_column=column, expected_version=column.version, type="bigint")
    accept = str(TargetDataset.objects.get(name="rc_shop_orders").key)
    answer = editor.post(f"/sources/{edited.key}/generate/", typed(page, having="fingerprint", accept=accept))
    assert answer.status_code == 409
    assert "Look at it again" in words(answer.content.decode())
    assert str(amount().type) == "float"


def test_a_source_without_columns_says_what_to_do_first(editor: Client, shop: System):
    source = imported(editor)
    source.columns.update(active=False)
    text = generate_page(editor, source)
    assert "Import its columns first." in text


# --- who may ---------------------------------------------------------------------------------------


def test_a_viewer_sees_systems_and_why_buttons_are_off(viewer: Client, shop: System):
    page = read(viewer, "/systems/shop/")
    assert "needs the role editor" in page
    assert '<form class="actions"' not in page
    assert "disabled" in read(viewer, "/sources/")
