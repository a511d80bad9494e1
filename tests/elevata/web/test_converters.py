"""Addresses with numbers of rows: one beyond the range of primary keys is unknown, on pages and in the API."""

import pytest
from django.test import Client
from django.urls import NoReverseMatch, reverse

from elevata.accounts.roles import Role
from elevata.bootstrap.places import ROOT
from tests.elevata.web.pages import signed_in
from tests.fixtures.users import someone

PAGES = (
    *("delivery_page", "refresh_page", "execution_page", "execution_cancel", "read_part", "dry_run_live"),
    *("sql_answer", "change_undo"),
)
TOO_LARGE = 10**22
ROOMS = ("architecture", "elevata", "loader", "metadata")


@pytest.mark.parametrize("name", PAGES)
def test_page_has_no_address_for_a_number_beyond_all_keys(name: str):
    known = reverse(name, args=[7])
    assert "/7/" in known
    with pytest.raises(NoReverseMatch):
        reverse(name, args=[TOO_LARGE])


@pytest.mark.django_db
@pytest.mark.parametrize("address", ["deliveries", "executions", "api/v1/deliveries", "api/v1/executions"])
def test_number_beyond_all_keys_is_unknown(address: str):
    client: Client = signed_in(someone("ad", Role.ADMIN))
    assert client.get(f"/{address}/{TOO_LARGE}/").status_code == 404


def test_each_module_of_addresses_with_numbers_registers_the_converter():
    modules = [path for room in ROOMS for path in (ROOT / room).rglob("urls.py")]
    with_numbers = [path for path in modules if "<number:" in path.read_text()]
    assert with_numbers
    assert [path for path in with_numbers if "import elevata.web.converters" not in path.read_text()] == []
