"""Tests of the embedded broker: a message is delivered whole or not at all."""

import json
import os
import shutil
from pathlib import Path
from queue import Empty

import pytest
from kombu import Connection

from elevata.ops import broker


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    options = {"data_folder_in": "messages", "data_folder_out": "messages", "control_folder": "control"}
    for name in set(options.values()):
        (tmp_path / name).mkdir()
    return {option: str(tmp_path / name) for option, name in options.items()}


@pytest.fixture
def channel(folders: dict[str, str]):
    broker.use_whole_messages()
    with Connection("filesystem://", transport_options=folders) as connection:
        yield connection.channel()


def test_filesystem_url_chooses_the_embedded_broker(channel):
    assert isinstance(channel, broker.Channel)


def test_broker_message_is_delivered_once(channel):
    channel._put("runs", {"run": 7})
    assert channel._get("runs") == {"run": 7}
    with pytest.raises(Empty):
        channel._get("runs")


def test_a_message_that_is_still_being_written_is_not_found(channel, monkeypatch: pytest.MonkeyPatch):
    replace, results = os.replace, []

    def look_first(pending, name):
        with pytest.raises(Empty):
            channel._get("runs")
        results.append(json.loads(Path(pending).read_text()))
        replace(pending, name)

    monkeypatch.setattr(broker.os, "replace", look_first)
    channel._put("runs", {"run": 7})
    assert results == [{"run": 7}]
    assert channel._get("runs") == {"run": 7}


def test_folders_that_somebody_removed_are_made_again(channel, folders: dict[str, str]):
    for deed in (lambda: channel._size("runs"), lambda: channel._purge("runs")):
        remove(folders)
        assert deed() == 0
    remove(folders)
    with pytest.raises(Empty):
        channel._get("runs")
    remove(folders)
    channel._put("runs", {"run": 7})
    assert channel._get("runs") == {"run": 7}


def test_message_sent_after_the_folders_were_deleted_is_delivered(channel, folders: dict[str, str]):
    with channel.connection.client.SimpleQueue("runs") as queue:
        remove(folders)
        queue.put({"run": 7})
        assert queue.get(timeout=5).payload == {"run": 7}


def remove(folders: dict[str, str]) -> None:
    for folder in set(folders.values()):
        shutil.rmtree(folder)
