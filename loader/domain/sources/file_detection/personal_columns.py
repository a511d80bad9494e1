"""Columns that may hold personal data, by their names and values."""

import re
from collections.abc import Sequence

BIRTH = "a date of birth"
_WORDS = {
    "a name of a person": "firstname lastname surname forename fullname vorname nachname familienname prénom prenom "
    "cognome apellido givenname familyname middlename maidenname geburtsname ansprechpartner contactperson",
    "an address": "address street straße strasse adresse hausnummer housenumber indirizzo dirección direccion rue "
    "anschrift addressline",
    "an e-mail address": "email mail emailaddress courriel correo",
    "a phone number": "phone telephone telefon mobile handy fax tel telefono téléphone phonenumber telefonnummer",
    BIRTH: "birthdate dateofbirth dob birthday geburtsdatum geburtstag gebdat gebdatum naissance nascita nacimiento "
    "birth",
    "an account or identity number": "iban ssn passport passportno steuernummer taxid sozialversicherungsnummer "
    "creditcard cardnumber socialsecuritynumber personalausweis",
    "a property of a person": "gender sex geschlecht salary gehalt religion nationality nationalität "
    "staatsangehörigkeit anrede salutation",
}
_REASONS = {word: reason for reason, words in _WORDS.items() for word in words.split()}
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}")
_IBAN = re.compile(r"[A-Z]{2}\d{2} ?(?:[A-Z0-9]{4} ?){2,7}[A-Z0-9]{0,4}")
_PHONE = re.compile(r"\+\d{1,3}[ (/-]?[\d ()/-]{6,16}")
_VALUES = ((_EMAIL, "an e-mail address"), (_IBAN, "an account or identity number"), (_PHONE, "a phone number"))
_SHARE = 0.7
_LONGEST = 320  # characters of an e-mail address


def personal_reason(name: str, values: Sequence[str]) -> str:
    """Return why a column may hold personal data, in words; empty if nothing shows it."""
    words = [word for word in re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()) if word]
    pairs = [first + second for first, second in zip(words, words[1:], strict=False)]
    for word in (*pairs, *words):
        if word in _REASONS:
            return f"its name is that of {_REASONS[word]}"
    present = [value.strip()[:_LONGEST] for value in values if value.strip()]
    for pattern, reason in _VALUES:
        if present and sum(pattern.fullmatch(value) is not None for value in present) >= _SHARE * len(present):
            return f"its values look like {reason}"
    return ""
