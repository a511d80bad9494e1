"""Fifty concurrent clients that edit one dataset, on PostgreSQL: all edits are stored."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest
from django.contrib.auth.models import User
from django.test import Client as DjangoClient

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.tokens import create_token
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services import chain
from elevata.audit.services.verification import verify_chain
from metadata.models import TargetColumn
from metadata.services.datasets.targets import create_target_column
from tests.architecture.world import customers, person
from tests.elevata.web.forms import form_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services]
# Five clients edit each column: after a conflict they read again.
CLIENTS, COLUMNS, EDITS = 50, 10, 2
WORDS = sorted(f"w{number}.{turn}" for number in range(CLIENTS) for turn in range(EDITS))


def columns_of(author: User) -> list[TargetColumn]:
    """Create a dataset with the columns that all clients edit."""
    dataset = customers(author)
    with acting_as(author):
        return [
            create_target_column(dataset=dataset, name=f"note_{number}", type="string", inputs=[])
            for number in range(COLUMNS)
        ]


def edit_concurrently(edit: Callable[[int, str], int], conflict: int) -> list[int]:
    """Edit with all clients concurrently; return the statuses of all responses.

    ``edit`` gets the number of a client and the word to add. It is repeated if it returns ``conflict``.
    """

    def edits_of(number: int) -> list[int]:
        answers = []
        for turn in range(EDITS):
            answers.append(edit(number, f"w{number}.{turn}"))
            while answers[-1] == conflict:
                answers.append(edit(number, f"w{number}.{turn}"))
        return answers

    with ThreadPoolExecutor(CLIENTS) as pool:
        return [status for answers in pool.map(edits_of, range(CLIENTS)) for status in answers]


def words_in(text: str) -> list[str]:
    return sorted(re.findall(r"w\d+\.\d+", text))


def check_edits(columns: list[TargetColumn], before: int) -> None:
    """Check that each word is stored once and logged since there were ``before`` entries."""
    stored = TargetColumn.objects.filter(pk__in=[column.pk for column in columns])
    assert words_in(" ".join(stored.values_list("description", flat=True))) == WORDS
    assert ChangeLogEntry.objects.count() - before == len(WORDS)
    chain.seal(wait=True)
    assert verify_chain().intact


@pytest.mark.nightly
def test_concurrent_edits_of_fifty_programs_are_all_stored_and_logged(live_server):
    author = person("ada", Role.EDITOR)
    columns = columns_of(author)
    tokens = [create_token(user=author, name=f"program {number}")[1] for number in range(CLIENTS)]
    before = ChangeLogEntry.objects.count()
    with ExitStack() as stack:
        clients = [
            stack.enter_context(httpx.Client(headers={"Authorization": f"Token {token}"}, timeout=120))
            for token in tokens
        ]

        def add(number: int, word: str) -> int:
            address = f"{live_server.url}/api/v1/columns/{columns[number % COLUMNS].key}/"
            response = clients[number].get(address)
            change = {"description": f"{response.json()['description']} {word}"}
            tag = {"If-Match": response.headers["ETag"]}
            return clients[number].patch(address, json=change, headers=tag).status_code

        assert set(edit_concurrently(add, 412)) <= {200, 412}
    check_edits(columns, before)


@pytest.mark.nightly
def test_edits_of_fifty_browsers_at_once_are_all_stored_and_logged(live_server):
    """Check edits with one session per browser; the first one reads what all have written."""
    columns = columns_of(person("ada", Role.EDITOR))
    addresses = [f"{live_server.url}/columns/{column.key}/edit/" for column in columns]
    cookies = []
    for number in range(CLIENTS):
        client = DjangoClient()
        client.force_login(person(f"editor-{number}", Role.EDITOR))
        cookies.append({name: morsel.value for name, morsel in client.cookies.items()})
    before = ChangeLogEntry.objects.count()
    with ExitStack() as stack:
        browsers = [stack.enter_context(httpx.Client(cookies=each, timeout=300)) for each in cookies]

        def add(number: int, word: str) -> int:
            address, browser = addresses[number % COLUMNS], browsers[number]
            page = browser.get(address)
            assert page.status_code == 200, page.text[:500]
            fields: dict = dict(form_of(page.text, having="version"))
            fields["description"] = f"{fields['description'][0]} {word}"
            return browser.post(address, data=fields, headers={"Referer": address}).status_code

        assert set(edit_concurrently(add, 409)) <= {302, 409}
        pages = " ".join(browsers[0].get(address).text for address in addresses)
    assert sorted(set(words_in(pages))) == WORDS
    check_edits(columns, before)


def test_concurrent_role_changes_of_one_user_succeed_only_once(live_server):
    root, ada = person("root", Role.ADMIN), person("ada", Role.VIEWER)
    _, token = create_token(user=root, name="program")
    address, headers = f"{live_server.url}/api/v1/users/{ada.username}/", {"Authorization": f"Token {token}"}
    wanted = [["editor"], ["approver"], ["operator"], ["admin"]]
    with httpx.Client(headers=headers, timeout=60) as client:
        if_match = {"If-Match": client.get(address).headers["ETag"]}

    def change(roles: list[str]) -> int:
        return httpx.patch(address, json={"roles": roles}, headers=headers | if_match, timeout=60).status_code

    with ThreadPoolExecutor(len(wanted)) as pool:
        answers = list(pool.map(change, wanted))
    assert sorted(answers) == [200, 412, 412, 412]
    assert sorted(ada.groups.values_list("name", flat=True)) == wanted[answers.index(200)]
