"""Columns that may hold personal data, by their names and values."""

import re
from collections.abc import Sequence

_BIRTH = "a date of birth"
_WORDS = {
    "a name of a person": "firstname lastname surname forename fullname vorname nachname familienname prénom prenom "
    "cognome apellido givenname familyname middlename maidenname geburtsname ansprechpartner contactperson",
    "an address": "address street straße strasse adresse hausnummer housenumber indirizzo dirección direccion rue "
    "anschrift addressline",
    "an e-mail address": "email mail emailaddress courriel correo",
    "a phone number": "phone telephone telefon mobile handy fax tel telefono téléphone phonenumber telefonnummer",
    _BIRTH: "birthdate birthdt dateofbirth dob birthday geburtsdatum geburtstag gebdat gebdatum geb geboren geburt "
    "naissance nascita nacimiento birth",
    "an account or identity number": "iban ssn passport passportno steuernummer taxid sozialversicherungsnummer "
    "creditcard cardnumber socialsecuritynumber personalausweis",
    "a property of a person": "gender sex geschlecht salary gehalt religion nationality nationalität "
    "staatsangehörigkeit anrede salutation",
}
_KINDS = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}")
_IBAN = re.compile(r"[A-Z]{2}\d{2} ?(?:[A-Z0-9]{4} ?){2,7}[A-Z0-9]{0,4}")
_PHONE = re.compile(r"\+\d{1,3}[ (/-]?[\d ()/-]{6,16}")
_VALUES = ((_EMAIL, "an e-mail address"), (_IBAN, "an account or identity number"), (_PHONE, "a phone number"))
_SHARE = 0.7
_LONGEST = 320  # characters of an e-mail address


def words_of(name: str) -> list[str]:
    """Return the words of a column's name in lower case: ``order`` and ``date`` of ``orderDate``."""
    return [word for word in re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()) if word]


def is_birth(name: str) -> bool:
    """Return True for the name of a column of dates of birth."""
    return _BIRTH in _kinds(name)


def _kinds(name: str) -> list[str]:
    """Return the kinds of personal data that a name has words for, those of two words first."""
    words = words_of(name)
    pairs = [first + second for first, second in zip(words, words[1:], strict=False)]
    return [_KINDS[word] for word in (*pairs, *words) if word in _KINDS]


def personal_reason(name: str, values: Sequence[str]) -> str:
    """Return why a column may hold personal data, in words; empty if nothing shows it."""
    kinds = _kinds(name)
    if kinds:
        return f"its name is that of {kinds[0]}"
    present = [value.strip()[:_LONGEST] for value in values if value.strip()]
    for pattern, reason in _VALUES:
        if present and sum(pattern.fullmatch(value) is not None for value in present) >= _SHARE * len(present):
            return f"its values look like {reason}"
    return ""
