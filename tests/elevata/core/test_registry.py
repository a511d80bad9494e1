"""Registry for dependencies of an app on apps of higher layers."""

import pytest

from elevata.core.registry import Provided, Registered


def test_registered_items_keep_their_order():
    items: Registered[str] = Registered()
    items.add("b", "a")
    items.add("c")
    assert list(items) == ["b", "a", "c"]


def test_registered_item_is_refused_a_second_time():
    items: Registered[str] = Registered()
    items.add("a")
    with pytest.raises(ValueError, match="a is registered twice"):
        items.add("a")


def test_provided_item_is_returned():
    item: Provided[str] = Provided("NAMES")
    item.provide("a")
    assert item.get() == "a"


def test_second_provider_is_refused():
    item: Provided[str] = Provided("NAMES")
    item.provide("a")
    with pytest.raises(ValueError, match="NAMES is provided twice"):
        item.provide("b")


def test_missing_provider_is_named():
    with pytest.raises(LookupError, match="no installed app provides NAMES"):
        Provided("NAMES").get()
