"""Fifty programs or browsers that edit one dataset at once, on PostgreSQL: nothing is lost, nobody waits for ever."""

import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from django.test import Client as DjangoClient

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.tokens import create_token
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services import chain
from elevata.audit.services.verification import verify_chain
from metadata.services.datasets.targets import create_target_column
from tests.architecture.world import customers, person
from tests.elevata.web.forms import form_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services]
# Five programs want each column: who comes second reads again, and none waits for long.
CLIENTS, COLUMNS, EDITS = 50, 10, 2


def _edit_until_done(address: str, token: str, number: int) -> list[int]:
    """Add a word to what the column says now, again from the start whenever somebody else came first."""
    answers = []
    with httpx.Client(headers={"Authorization": f"Token {token}"}, timeout=120) as client:
        for turn in range(EDITS):
            while True:
                seen = client.get(address)
                text = f"{seen.json()['description']} w{number}.{turn}"
                tag = {"If-Match": seen.headers["ETag"]}
                answers.append(client.patch(address, json={"description": text}, headers=tag).status_code)
                if answers[-1] != 412:
                    break
    return answers


@pytest.mark.nightly
def test_concurrent_edits_of_fifty_programs_are_all_stored_and_logged(live_server):
    author = person("ada", Role.EDITOR)
    dataset = customers(author)
    with acting_as(author):
        columns = [
            create_target_column(dataset=dataset, name=f"note_{number}", type="string", inputs=[])
            for number in range(COLUMNS)
        ]
    tokens = [create_token(user=author, name=f"program {number}")[1] for number in range(CLIENTS)]
    before = ChangeLogEntry.objects.count()
    addresses = [f"{live_server.url}/api/v1/columns/{columns[number % COLUMNS].key}/" for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = list(pool.map(_edit_until_done, addresses, tokens, range(CLIENTS)))
    assert {status for some in answers for status in some} <= {200, 412}
    text = " ".join(dataset.columns.values_list("description", flat=True))
    words = re.findall(r"w\d+\.\d+", text)
    assert sorted(words) == sorted(f"w{number}.{turn}" for number in range(CLIENTS) for turn in range(EDITS))
    assert ChangeLogEntry.objects.count() - before == CLIENTS * EDITS
    chain.seal(wait=True)
    assert verify_chain().intact


def _edit_pages_until_done(address: str, cookies: dict[str, str], number: int) -> list[int]:
    """Add a word to the description in a column's form, now and again from the start if somebody else came first."""
    answers = []
    with httpx.Client(cookies=cookies, timeout=300) as browser:
        for turn in range(EDITS):
            while True:
                page = browser.get(address)
                assert page.status_code == 200, page.text[:500]
                fields: dict = dict(form_of(page.text, having="version"))
                fields["description"] = f"{fields['description'][0]} w{number}.{turn}"
                sent = browser.post(address, data=fields, headers={"Referer": address})
                answers.append(sent.status_code)
                if answers[-1] != 409:
                    break
    return answers


@pytest.mark.nightly
def test_edits_of_fifty_browsers_at_once_are_all_stored_and_logged(live_server):
    """Each has a session of its own; the last one reads what all have written."""
    author = person("ada", Role.EDITOR)
    dataset = customers(author)
    with acting_as(author):
        columns = [
            create_target_column(dataset=dataset, name=f"note_{number}", type="string", inputs=[])
            for number in range(COLUMNS)
        ]
    cookies = []
    for number in range(CLIENTS):
        client = DjangoClient()
        client.force_login(person(f"editor-{number}", Role.EDITOR))
        cookies.append({name: morsel.value for name, morsel in client.cookies.items()})
    before = ChangeLogEntry.objects.count()
    addresses = [f"{live_server.url}/columns/{columns[number % COLUMNS].key}/edit/" for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = list(pool.map(_edit_pages_until_done, addresses, cookies, range(CLIENTS)))
    assert {status for some in answers for status in some} <= {302, 409}
    expected = sorted(f"w{number}.{turn}" for number in range(CLIENTS) for turn in range(EDITS))
    pages = " ".join(httpx.get(address, cookies=cookies[0], timeout=60).text for address in addresses[:COLUMNS])
    assert sorted(set(re.findall(r"w\d+\.\d+", pages))) == expected
    assert sorted(re.findall(r"w\d+\.\d+", " ".join(dataset.columns.values_list("description", flat=True)))) == expected
    assert ChangeLogEntry.objects.count() - before == CLIENTS * EDITS
    chain.seal(wait=True)
    assert verify_chain().intact


def test_concurrent_role_changes_of_one_user_succeed_only_once(live_server):
    root, ada = person("root", Role.ADMIN), person("ada", Role.VIEWER)
    _, token = create_token(user=root, name="program")
    address, headers = f"{live_server.url}/api/v1/users/{ada.username}/", {"Authorization": f"Token {token}"}
    wanted = [["editor"], ["approver"], ["operator"], ["admin"]]
    with httpx.Client(headers=headers, timeout=60) as client:
        seen = {"If-Match": client.get(address).headers["ETag"]}

    def change(roles: list[str]) -> int:
        return httpx.patch(address, json={"roles": roles}, headers=headers | seen, timeout=60).status_code

    with ThreadPoolExecutor(len(wanted)) as pool:
        answers = list(pool.map(change, wanted))
    assert sorted(answers) == [200, 412, 412, 412]
    assert sorted(ada.groups.values_list("name", flat=True)) == wanted[answers.index(200)]
