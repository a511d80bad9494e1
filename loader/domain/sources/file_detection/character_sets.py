"""Character set of a text, by its bytes and by the languages whose letters it has."""

import codecs
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from loader.domain.sources.file_detection.model import Question

UTF8 = "UTF-8"
WESTERN, WESTERN_EURO = "windows-1252", "ISO-8859-15"
_MARKS = (
    (codecs.BOM_UTF8, UTF8),
    # Its beginning is the mark of UTF-16, too.
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
# Sequences that change the character set within a Japanese text of ASCII bytes.
_SHIFTS = re.compile(rb"\x1b\$[@B]")
# Letters of languages besides a to z, in lower case, by their character sets, the usual ones first.
_LANGUAGES = {
    WESTERN: (
        "äöüß", "éèêàâçîïôûëœùæ", "ñíóáúéü", "ãõçáéíóúâêôà", "àèéìòùó", "åäöæøé", "ëïéèöü", "ðþæöáéíóúý",
    ),
    "windows-1250": ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áéíóöőúüű", "ăâîşţ", "čćžšđ", "áäčďéíĺľňóôŕšťúýž", "äöüß"),
    "ISO-8859-2": ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áéíóöőúüű", "čćžšđ", "áäčďéíĺľňóôŕšťúýž"),
    "windows-1251": ("абвгдежзийклмнопрстуфхцчшщъыьэюяё", "абвгдежзийклмнопрстуфхцчшщьюяєіїґ"),
    "KOI8-R": ("абвгдежзийклмнопрстуфхцчшщъыьэюяё",),
    "IBM866": ("абвгдежзийклмнопрстуфхцчшщъыьэюяё",),
    "ISO-8859-5": ("абвгдежзийклмнопрстуфхцчшщъыьэюяё",),
    "windows-1254": ("çğıöşüi̇",),
    "windows-1255": ("אבגדהוזחטיךכלםמןנסעףפץצקרשת",),
    "windows-1256": ("ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىي",),
    "TIS-620": ("".join(map(chr, (*range(0xE01, 0xE3B), *range(0xE40, 0xE4F)))),),
    "windows-1253": ("αβγδεζηθικλμνξοπρστυφχψωςάέήίόύώ",),
    "windows-1257": ("āčēģīķļņšūž", "ąčęėįšųūž", "õäöüšž"),
    "IBM850": ("äöüß", "éèêàâçîïôûëùæ", "ñíóáúéü", "åäöæøé"),
    "IBM852": ("ąćęłńóśźż", "áčďéěíňóřšťúůýž"),
    "MacRoman": ("äöüß", "éèêàâçîïôûëœùæ", "ñíóáúéü", "åäöæøé"),
}  # fmt: skip
# Character sets in which nearly every byte beyond ASCII is a letter of one language, so that any text makes sense.
# The numbers are the differences of scores up to which they are asked.
_DENSE = {"windows-1255": 0.45, "windows-1256": 0.45, "TIS-620": 0.3}
_DENSE_CHANCE = 0.3
_USUAL_CYRILLIC = "оеаинтсрвлкмдпу"
# Several bytes a character: first bytes of the usual characters.
_ASIAN = (
    ("Shift_JIS", "shift_jis"),
    ("EUC-JP", "euc_jp"),
    ("GB18030", "gb18030"),
    ("Big5", "big5"),
    ("EUC-KR", "euc_kr"),
)
_SIGNS = "€£§°²³µ–—„“”‘’‚…«»·×®©™ªº½¼¾±•\u00a0"
_LAST_LATIN = "\u036f"  # with the marks that are combined with letters
_BETWEEN_LETTERS = "’‘·"
# Bytes at which windows-1252 and ISO-8859-15 differ.
_DIFFERING = frozenset(b"\xa4\xa6\xa8\xb4\xb8\xbc\xbd\xbe")
_HIGH = re.compile(rb"[\x80-\xff]")
_HIGH_SIGN = re.compile(r"[^\x00-\x7f]")
# Characters beyond ASCII of which the plausibility is measured.
_MOST_SIGNS = 10_000
# Ideographs of several character sets have the same bytes.
_CLOSE_ASIAN = 0.4
_CLOSE, _PREFERENCE, _ONE_LANGUAGE, _MANY_LETTERS = 0.12, 0.04, 0.15, 5
# Few characters may make sense in another character set by chance.
_FEW_KINDS, _FEW, _CLOSE_OF_FEW = 4, 10, 0.4
# Character sets of which a text with few letters may always be: they have most letters in common.
_CENTRAL, _CENTRAL_ISO = "windows-1250", "ISO-8859-2"


@dataclass(frozen=True)
class CharacterSet:
    """Character set of a text, with the question if others are possible."""

    name: str
    question: Question | None = None


def detect_character_set(content: bytes, *, is_whole: bool = True) -> CharacterSet:
    """Return the character set of the bytes; ``is_whole`` False: they may end within a character."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            return CharacterSet(name)
    if wide := _wide(content):
        return CharacterSet(wide)
    signs = _HIGH.findall(content)
    if not signs:
        return CharacterSet("ISO-2022-JP" if _SHIFTS.search(content) else UTF8)
    wrong, right = _count_utf8(content, is_whole=is_whole)
    if not wrong:
        return CharacterSet(UTF8)
    texts = {name: _decoded(content, name) for name in _LANGUAGES}
    ranked = _ranked(content, texts)
    best_score, best = ranked[0]
    if right > 3 * wrong:
        reason = f"{right} characters are UTF-8, {wrong} are not: the file may be mixed or damaged"
        return CharacterSet(UTF8, Question("encoding", (UTF8, best), reason))
    values = {byte[0] for byte in signs}
    is_few = len(signs) < _FEW or (best not in dict(_ASIAN) and len(values) <= _FEW_KINDS)
    others = _others(content, ranked, texts, is_few=is_few)
    if best == WESTERN and not any(value < 0xA0 for value in values):
        return _western(content, values, others)
    is_central = best == _CENTRAL and (others or _may_differ(texts[best], texts[_CENTRAL_ISO]))
    if (is_central or _CENTRAL in others) and _CENTRAL_ISO not in (best, *others):
        others = (_CENTRAL_ISO, *others) if is_central else (*others, _CENTRAL_ISO)
    if not others:
        return CharacterSet(best)
    if WESTERN in others and not any(value < 0xA0 for value in values):
        others = (*others, WESTERN_EURO)
    reason = f"the characters beyond ASCII make sense in {', '.join((best, *others[:-1]))} and {others[-1]}"
    return CharacterSet(best, Question("encoding", (best, *others), reason))


def _others(
    content: bytes, ranked: Sequence[tuple[float, str]], texts: Mapping[str, str], *, is_few: bool
) -> tuple[str, ...]:
    """Return the other possible character sets, the likeliest first."""
    best_score, best = ranked[0]
    text = texts[best] if best in texts else _decoded(content, best)
    ranked = [entry for entry in ranked[1:7] if (texts.get(entry[1]) or _decoded(content, entry[1])) != text]
    others = [name for score, name in ranked[:3] if best_score - score < _closeness(best, name)]
    # Where the character set is asked anyway, others that make some sense are offered, too.
    if is_few or others:
        others += [name for score, name in ranked if best_score - score < _CLOSE_OF_FEW and name not in others]
    # A file of the next day may have a letter that differs.
    usual = [name for name in (WESTERN, _CENTRAL) if is_few and name != best]
    return tuple(dict.fromkeys((*sorted(others, key=lambda name: name in _DENSE), *usual)))


def _may_differ(text: str, other: str) -> bool:
    """Return True for a text that is the same in both central European sets, in a language with letters that differ."""
    letters = {sign.lower() for sign in _HIGH_SIGN.findall(text)}
    language = max(_LANGUAGES[_CENTRAL], key=lambda known: (len(letters & set(known)), -len(set(known))))
    return text == other and any(
        sign.encode("cp1250", "replace") != sign.encode("iso8859-2", "replace") for sign in language
    )


def _closeness(best: str, other: str) -> float:
    """Return the difference of scores up to which another character set is possible, too."""
    asian = dict(_ASIAN)
    if other in _DENSE:
        return _DENSE[other]
    return _CLOSE_ASIAN if other in asian and best in (*asian, *_DENSE) else _CLOSE


def _western(content: bytes, values: set[int], others: tuple[str, ...]) -> CharacterSet:
    differing = values & _DIFFERING
    if not differing:
        reason = "no character of the file differs between them; they differ in €, Š, š, Ž, ž, Œ, œ and Ÿ"
        return CharacterSet(WESTERN, Question("encoding", (WESTERN, WESTERN_EURO, *others), reason))
    shown = ", ".join(
        f"{bytes([value]).decode('cp1252')} or {bytes([value]).decode('iso-8859-15')}" for value in sorted(differing)
    )
    scores = {name: _score(content.decode(name, "replace"), name, WESTERN) for name in (WESTERN, WESTERN_EURO)}
    names = tuple(sorted(scores, key=lambda name: -scores[name]))
    return CharacterSet(names[0], Question("encoding", (*names, *others), f"the file has {shown}"))


def _wide(content: bytes) -> str:
    """Return UTF-16 without a byte order mark by its NUL bytes; empty for another text."""
    start = content[:4096]
    half = len(start) // 2
    if half < 4 or b"\0" not in start:
        return ""
    even, odd = start[0::2].count(0), start[1::2].count(0)
    if odd > 0.4 * half and even < 0.1 * half:
        return "UTF-16LE"
    if even > 0.4 * half and odd < 0.1 * half:
        return "UTF-16BE"
    # Letters of other scripts have no NUL bytes, but line ends and delimiters have.
    pairs = [start[place : place + 2] for place in range(0, 2 * half, 2)]
    little, big = pairs.count(b"\n\0"), pairs.count(b"\0\n")
    name = "UTF-16LE" if little > 0 == big else "UTF-16BE" if big > 0 == little else ""
    return name if name and "\ufffd" not in start[: 2 * half - 2].decode(name, "replace") else ""


def _count_utf8(content: bytes, *, is_whole: bool) -> tuple[int, int]:
    """Return the number of places that are not UTF-8, and of characters beyond ASCII that are."""
    text = content.decode("utf-8", "replace")
    wrong = text.count("\ufffd") - content.count("\ufffd".encode())
    if not is_whole and wrong and text.endswith("\ufffd"):
        wrong -= len(text) - len(text.rstrip("\ufffd"))
    return max(wrong, 0), sum(1 for character in text if character > "\x7f" and character != "\ufffd")


def _ranked(content: bytes, texts: Mapping[str, str]) -> list[tuple[float, str]]:
    # A character set that gives the same text as the western one is none of its own.
    scores = [(_score(text, name), name) for name, text in texts.items() if name == WESTERN or text != texts[WESTERN]]
    scores += [(_asian_score(content, name, codec), name) for name, codec in _ASIAN]
    order = [*_LANGUAGES, *(name for name, _ in _ASIAN)]
    return sorted(scores, key=lambda entry: (-round(entry[0], 3), order.index(entry[1])))


def _decoded(content: bytes, name: str) -> str:
    """Return the text, with control characters where the character set has none."""
    return content.decode(name, "replace")


def _score(text: str, name: str, languages: str = "") -> float:
    """Return how well the characters beyond ASCII make sense, better as letters of one language.

    ``languages`` are those of another character set.
    """
    places = [match.start() for match in islice(_HIGH_SIGN.finditer(text), _MOST_SIGNS)]
    if not places:
        return -1.0
    letters = {text[place].lower() for place in places if text[place].isalpha()}
    language = max(_LANGUAGES[languages or name], key=lambda known: (len(letters & set(known)), -len(set(known))))
    others = "".join(_LANGUAGES[languages or name])
    score = sum(_plausibility(text, place, language, others) for place in places) / len(places)
    # Fewer letters are those of one language by chance.
    is_one_language = len(letters) >= _MANY_LETTERS and all(letter in language for letter in letters)
    score += _PREFERENCE * (name == WESTERN) + _ONE_LANGUAGE * is_one_language
    return score - _DENSE_CHANCE * (name in _DENSE)


def _plausibility(text: str, place: int, language: str, others: str) -> float:
    """Return how well a character suits its word; ``language`` has the letters of the text's likely one."""
    sign = text[place]
    before = text[place - 1 : place].strip()
    after = text[place + 1 : place + 2].strip()
    if (sign.isalpha() and sign not in _SIGNS) or sign in language:
        if sign.isupper() and before.islower():
            return -1.0
        if not (before.isalpha() or after.isalpha() or before in language or after in language):
            return 0.0
        letter = sign.lower()
        # Names of several western languages stand side by side more often than those of others.
        elsewhere = 0.85 if "ñ" in others else 0.6
        value = 1.0 if letter in language else elsewhere if letter in others else 0.3
        if any(letter > _LAST_LATIN for letter in language):
            is_mixed = any("a" <= other.lower() <= "z" for other in (before, after) if other)
            value = -0.5 if is_mixed else value
        elif not any("a" <= other.lower() <= "z" for other in (before, after) if other):
            value = 0.2  # words of such letters only are of another script
        return value - 0.25 if "а" in language and sign not in _USUAL_CYRILLIC else value
    if unicodedata.category(sign) in ("Cc", "Cn", "Co") or sign == "\ufffd" or "\u2500" <= sign <= "\u259f":
        return -2.0
    is_inside = before.isalpha() and after.isalpha()
    if is_inside and sign not in _BETWEEN_LETTERS:
        return -1.0
    if sign in "²³" and before.isalpha():
        return 1.0  # as in m²
    return 0.8 if sign in _SIGNS else -0.3


def _asian_score(content: bytes, name: str, codec: str) -> float:
    high = len(_HIGH.findall(content))
    in_runs = sum(len(run) for run in re.findall(rb"[\x80-\xff]{2,}", content))
    # Letters of European languages are alone among those of ASCII.
    if name not in ("Shift_JIS", "Big5") and in_runs < 0.8 * high:
        return -1.0
    text = content.decode(codec, "ignore")
    if len(content.decode(codec, "replace")) - len(text) > 0.02 * len(text):
        return -1.0
    signs = list(islice(_HIGH_SIGN.finditer(text), _MOST_SIGNS))
    are_side_by_side = any(after.start() == before.end() for before, after in zip(signs, signs[1:], strict=False))
    if not are_side_by_side and not any(_has_high_bytes_only(sign[0], codec) for sign in signs):
        return -1.0  # a unit like µg or °C
    usual = sum(
        -0.5 if _is_within_letters(text, sign.start(), codec) else _usual_asian(sign[0], name) for sign in signs
    )
    return usual / max(len(signs), 1) * 0.95


def _has_high_bytes_only(sign: str, codec: str) -> bool:
    """Return True for a character of several bytes, none of which is one of ASCII."""
    encoded = sign.encode(codec)
    return len(encoded) > 1 and not any(byte < 0x80 for byte in encoded)


def _is_within_letters(text: str, place: int, codec: str) -> bool:
    """Return True for a character whose bytes are among letters of ASCII, as those of European languages are."""
    within = text[place].encode(codec)[1:].decode("ascii", "ignore")
    around = [sign for sign in (text[max(place - 1, 0) : place], within, text[place + 1 : place + 2]) if sign]
    return sum(sign.isascii() and sign.isalpha() for sign in around) > 1


def _usual_asian(sign: str, name: str) -> float:
    """Return 1 for a usual character of a language, less for one that others use as well, 0 for any other."""
    is_punctuation = "\u3000" <= sign <= "\u3002" or "\uff01" <= sign <= "\uff5e"
    if name in ("Shift_JIS", "EUC-JP"):
        try:
            first = sign.encode("euc_jp")[0]
        except UnicodeEncodeError:
            return 0.0
        is_kana = "\u3041" <= sign <= "\u30ff"
        return 1.0 if is_kana or is_punctuation else 0.7 if 0xB0 <= first <= 0xCF else 0.0
    if name == "EUC-KR":
        return float("\uac00" <= sign <= "\ud7a3" or is_punctuation)
    try:
        first = sign.encode("gb2312" if name == "GB18030" else "big5")[0]
    except UnicodeEncodeError:
        return 0.0
    is_usual = 0xB0 <= first <= 0xD7 if name == "GB18030" else 0xA4 <= first <= 0xC6
    return 1.0 if is_punctuation else 0.9 * is_usual
