"""Texts, keys and names from all of Unicode, loaded by both kinds of loads, equal the delivery."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from loader.engine.loads import raw_loads
from loader.engine.tables.tables import DeltaTable
from tests.fixtures.spark import by_night
from tests.loader.harness import Dataset

pytestmark = pytest.mark.spark

DAYS = ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "2024-01-03T00:00:00Z")
# All line ends, blanks, digits and letters with several cases of Python, and other rare characters.
SEPARATORS = "\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u200b\u2028\u2029\u202f\u205f\u3000\ufeff\u180e"
RARE = "\x01\x7f\x80\x9f\xad²½٣๕İıſKςσßŉǰ\u0301\u202e\ud7ff\ue000\uf8ff\ufdd0\ufffd\uffff\U0001f600\U000e0001\U0010ffff"
CHARACTERS = SEPARATORS + RARE
# CSV with these takes the general way.
_GENERAL_ONLY = dict.fromkeys(map(ord, "\ue000\ufffd\ufeff"))
LIMITS = {"deletes_share": 1.0, "deletes_keys": 10_000}


def any_text(draw: random.Random, length: int) -> str:
    """Return a text of any characters but NUL, surrogates and the ones that CSV needs."""

    def character() -> str:
        while (code := draw.randrange(1, 0x110000)) in range(0xD800, 0xE000):
            pass
        return draw.choice((draw.choice(CHARACTERS), chr(code), draw.choice("aZ09 ,\"'\\$%{}.`~|")))

    return "".join(character() for _ in range(draw.randint(1, length)))


def any_names(draw: random.Random, count: int) -> list[str]:
    """Return distinct names without blanks around them."""
    names: dict[str, str] = {}
    while len(names) < count:
        name = any_text(draw, 6).strip(SEPARATORS + " ").replace("{", "(").replace("$", "-")
        if name and name == name.strip() and not set(name) & set("\ue000\ufffd\ufeff"):
            names.setdefault(name.upper().lower().upper(), name)
    return list(names.values())


def any_rows(draw: random.Random, names: list[str]) -> list[dict[str, Any]]:
    keys = dict.fromkeys([*(f"{c}" for c in CHARACTERS), *(f"x{c}" for c in CHARACTERS)])
    keys |= dict.fromkeys(any_text(draw, 40) for _ in range(40))
    return [{name: key if name == names[0] else any_text(draw, 40) for name in names} for key in keys]


def _refuse_general_way(*_: Any, **__: Any) -> None:
    raise AssertionError("the general way was taken")


class NamedFiles(Dataset):
    """Dataset whose deliveries are folders, each with a file whose name is from all of Unicode."""

    def deliver(self, rows: list[dict]) -> Path:
        path = super().deliver(rows)
        draw = random.Random(path.name)
        name = any_text(draw, 20).replace("/", "-")
        folder = path.with_name(f"delivery-{draw.random()}")
        folder.mkdir()
        shutil.copy(path, folder / f"f{name}{path.suffix}")
        return folder


@pytest.mark.parametrize("seed", [1, *(by_night(seed) for seed in range(2, 12))])
@pytest.mark.parametrize(
    ("format_name", "small"),
    [("csv", 0), ("csv", 50_000), ("jsonl", 0), by_night("parquet", 0), by_night("parquet", 50_000)],
)
def test_texts_and_names_from_all_of_unicode_are_loaded_as_delivered(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str, small: int, seed: int
):
    draw = random.Random(seed)
    names = any_names(draw, 5)
    item = NamedFiles(spark, tmp_path, format=format_name, columns=dict.fromkeys(names, "string"), keys=(names[0],))
    rows = any_rows(draw, names)
    if small:
        rows = [{name: text.translate(_GENERAL_ONLY) or "x" for name, text in row.items()} for row in rows]
        rows = list({row[names[0]]: row for row in rows}.values())
        monkeypatch.setattr(raw_loads, "read_delivery", _refuse_general_way)
    changed = [row | {names[1]: any_text(draw, 40).translate(_GENERAL_ONLY) or "x"} for row in rows]
    for delivery, at in zip((rows, rows, changed), DAYS, strict=True):
        status, event = item.load(delivery, at=at, small_rows=small, **LIMITS)
        errors = [ended["error"] for ended in item.events if ended.get("error")]
        assert status == "succeeded", "; ".join(f"{error['code']} {error['message']!a}" for error in errors)
        assert item.current() == sorted(delivery, key=lambda row: row[names[0]])
    assert event["counts"]["open"] == len(rows)
    history = item.table(item.history_spec)
    assert DeltaTable(spark, item.warehouse, history.key).newest_run_commit().run_id == "run-3"
    assert all(history.commit(version) for version in range(history.version() + 1))
