"""Evidence for the names of columns: their words, and how they differ from the values below them."""

import re
from collections.abc import Sequence

from loader.domain.sources.file_detection.dialects import Row
from loader.domain.sources.file_detection.personal_columns import is_birth, words_of

# Characters of a name that are compared.
_LONGEST = 200
_WORDS = """
    id name date code type status title email phone address city country zip price amount quantity description
    number nr no key user customer year month day value category comment notes currency lat lon latitude longitude
    first last kunde kundennr straße strasse ort plz stadt land datum betrag menge preis artikel bezeichnung vorname
    nachname telefon anrede summe währung konto iban bemerkung nom prénom ville pays adresse prix quantité nombre
    apellido fecha ciudad precio cantidad nazwa data kod cena miasto nome cognome città prezzo url state region
    jméno příjmení město ulice částka imię nazwisko ulica kwota ad soyad şehir tutar tarih név cím
    navn fornavn efternavn namn förnamn efternamn naam voornaam achternaam plaats bedrag
    gender age sex species label class index time timestamp created updated
"""
_NAMES = frozenset(_WORDS.split())
# Evidence for names from which a header is not asked.
CLEAR = 3
_DATE_WORDS, _DATE_ENDINGS = {"dat", "fecha", "jour", "giorno", "data"}, ("date", "day", "tag")
_OTHER_WORDS = {"candidate", "mandate", "hashtag"}  # with the ending of a date
_HAS_DIGIT = re.compile(r"\d")


def evidence_of_names(names: Sequence[str], values: Sequence[Row], places: Sequence[int] | None = None) -> int:
    """Return how much speaks for names above these values: at least ``CLEAR`` is clear, below zero is against.

    ``places`` are those of the names that are compared with the values below them; None means all.
    """
    evidence = 0
    if len(set(names)) < len([name for name in names if name]):
        evidence -= 1
    for place in places if places is not None else range(len(names)):
        name = names[place]
        column = [other.cells[place].strip() for other in values[:300] if place < len(other.cells)]
        column = [value for value in column if value]
        if not name or not column:
            continue
        # A value may have such a word in it, as the name of a city.
        evidence += CLEAR if is_usual_name(name) else bool(_words(name) & _NAMES)
        evidence += _against(name, column) + _difference(name, column)
    return evidence


def is_usual_name(name: str) -> bool:
    """Return True for a name of words that columns often have."""
    words = _words(name)
    return bool(words) and words <= _NAMES


def is_of_dates(name: str) -> bool:
    """Return True for a name with a word for dates, also at the end of a joined one like Buchungstag."""
    return is_birth(name) or any(
        word in _DATE_WORDS or "datum" in word or (word.endswith(_DATE_ENDINGS) and word not in _OTHER_WORDS)
        for word in (word.rstrip("0123456789") for word in words_of(name))
    )


def _words(name: str) -> set[str]:
    return set(re.split(r"[\W_\d]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name[:_LONGEST]).lower())) - {""}


def _against(name: str, column: Sequence[str]) -> int:
    """Return a negative number if a value stands in its own column again, or one with digits has the form of all."""
    if name in column:
        return -2
    shapes = {_shape(value) for value in column} if _HAS_DIGIT.search(name) else set()
    return -CLEAR if len(shapes) == 1 and _shape(name) in shapes else 0


def _shape(text: str) -> str:
    return re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", text[:_LONGEST]))


def _difference(name: str, column: Sequence[str]) -> int:
    """Return 1 or 2 if a name has another form than the values below it."""
    lengths = {len(value) for value in column}
    difference = 0
    if len(column) >= 3 and len(lengths) == 1 and len(name) not in lengths:
        difference += 1
    if all(_HAS_DIGIT.search(value) for value in column) and not _HAS_DIGIT.search(name):
        difference += 2
    if len(column) >= 3 and all(value.isupper() for value in column) and not name.isupper():
        difference += 1
    if len(column) >= 5 and len(set(column)) <= max(3, len(column) // 5) and name not in column:
        difference += 1
    return difference
