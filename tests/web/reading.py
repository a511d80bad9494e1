"""Reading pages in tests."""

from django.test import Client


def text_of(client: Client, address: str) -> str:
    return client.get(address).content.decode()
