"""CSV files written by options, with the options that a detection should return."""

import datetime
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CODECS = {"windows-1252": "cp1252"}
_PEOPLE = ("Hans A", "Jürgen B", "Käthe C", "Léa D", "José E", "Paul F")
_PLACES = ("Köln", "Berlin", "Zürich", "Málaga", "Wien", "Genève")
_NAMES = ("KundenNr", "Name", "Ort", "Umsatz", "Datum", "Aktiv")
BEFORE = ("nothing", "title", "padded", "sep")
AFTER = ("nothing", "total", "count", "remarks")


@dataclass(frozen=True)
class Written:
    """File and the options by which it was written."""

    content: bytes
    options: Mapping[str, Any] = field(default_factory=dict)


def write(
    *,
    encoding: str = "UTF-8",
    delimiter: str = ",",
    decimal: str = ".",
    thousands: str = "",
    dates: str = "%Y-%m-%d",
    header: int = 1,
    before: str = "nothing",
    after: str = "nothing",
    rows: int = 30,
    seed: int = 1,
) -> Written:
    """Return a file of customers with a number, texts, an amount, a date and a truth value in each row."""
    chance = random.Random(seed)
    others = delimiter * (len(_NAMES) - 1)
    above = {
        "nothing": [],
        "title": ["Kundenliste", ""],
        "padded": [f"Export vom 13.11.2026{others}", f"Mandant{delimiter}17{others[:-1]}"],
        "sep": [f"sep={delimiter}"],
    }[before]
    names = [delimiter.join(_NAMES)]
    if header == 2:
        names = [delimiter.join(("Kunde", "", "", "Umsatz", "", "")), delimiter.join(("Nr", *_NAMES[1:]))]
    below = {
        "nothing": [],
        "total": [delimiter.join(("Summe", "", "", _amount(1_234_567.89, decimal, thousands, delimiter), "", ""))],
        "count": ["", f"{rows} Zeilen"],
        "remarks": ["Quelle: Buchhaltung", "Stand: gestern"],
    }[after]
    records = [
        delimiter.join(
            (
                str(1000 + number),
                chance.choice(_PEOPLE),
                chance.choice(_PLACES),
                _amount(chance.random() * 5_000 + 0.11, decimal, thousands, delimiter),
                (datetime.date(2020, 1, 28) + datetime.timedelta(days=chance.randrange(2_000))).strftime(dates),
                chance.choice(("ja", "nein")) if number > 1 else ("ja", "nein")[number],
            )
        )
        for number in range(rows)
    ]
    text = "\r\n".join([*above, *(names if header else []), *records, *below]) + "\r\n"
    wanted = {
        "encoding": encoding if encoding != "UTF-8" else None,
        "delimiter": delimiter if delimiter != "," else None,
        "decimal_separator": decimal if decimal != "." else None,
        "thousands_separator": thousands or None,
        "date_format": dates if dates != "%Y-%m-%d" else None,
        "skip_lines": len(above) or None,
        "header": False if not header else None,
        "header_lines": header if header > 1 else None,
        "footer_lines": len(below) or None,
        "true_words": "ja",
        "false_words": "nein",
    }
    content = text.encode(CODECS.get(encoding, encoding))
    return Written(content, {name: value for name, value in wanted.items() if value is not None})


def _amount(value: float, decimal: str, thousands: str, delimiter: str) -> str:
    text = f"{value:,.2f}".replace(",", "T").replace(".", decimal).replace("T", thousands)
    return f'"{text}"' if delimiter in text else text
