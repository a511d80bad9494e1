"""Words for true and false, by the values of all columns."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from loader.domain.sources.file_detection.model import Question, first_names

# Words that are read without an option, and pairs that need one.
_STANDARD = (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"))
_PAIRS = (
    ("ja", "nein"), ("j", "n"), ("wahr", "falsch"), ("ein", "aus"), ("oui", "non"), ("o", "n"), ("vrai", "faux"),
    ("sí", "no"), ("si", "no"), ("s", "n"), ("verdadero", "falso"), ("sim", "não"), ("sim", "nao"), ("sì", "no"),
    ("vero", "falso"), ("waar", "onwaar"), ("ja", "nee"), ("ja", "nej"), ("tak", "nie"), ("prawda", "fałsz"),
    ("ano", "ne"), ("igen", "nem"), ("evet", "hayır"), ("да", "нет"), ("истина", "ложь"), ("on", "off"),
)  # fmt: skip
# Standard pairs that are nothing else.
WORDS = _STANDARD[:2]
# Pairs that are nothing else. Letters may be codes (N and S of north and south), and so may other short words.
_CLEAR = (
    *WORDS, ("ja", "nein"), ("wahr", "falsch"), ("oui", "non"), ("vrai", "faux"), ("sí", "no"), ("sì", "no"),
    ("verdadero", "falso"), ("sim", "não"), ("sim", "nao"), ("vero", "falso"), ("waar", "onwaar"), ("ja", "nee"),
    ("ja", "nej"), ("tak", "nie"), ("prawda", "fałsz"), ("igen", "nem"), ("evet", "hayır"), ("да", "нет"),
    ("истина", "ложь"),
)  # fmt: skip


def detect_truth_words(columns: Mapping[str, Sequence[str]]) -> tuple[dict[str, Any], list[Question]]:
    """Return ``true_words`` and ``false_words`` if they are needed, and what is open."""
    pairs: dict[str, tuple[str, str]] = {}
    for name, values in columns.items():
        words = {value.strip().lower() for value in values} - {""}
        pair = next((pair for pair in (*_STANDARD, *_PAIRS) if words == set(pair)), None)
        if pair is not None:
            pairs[name] = pair
    open_names = [name for name, pair in pairs.items() if pair not in _CLEAR]
    used = list(dict.fromkeys(pairs.values()))
    if all(pair in _STANDARD for pair in used) and not open_names:
        return {}, []
    true_words = list(dict.fromkeys(pair[0] for pair in used))
    false_words = list(dict.fromkeys(pair[1] for pair in used))
    reason = f"{first_names(open_names)} may have words for true and false, or codes"
    clear = [pair for pair in used if pair in _CLEAR]
    if set(true_words) & set(false_words):
        used = clear or used[:1]
        reason = "a word is for true in one column, and for false in another"
        true_words = list(dict.fromkeys(pair[0] for pair in used))
        false_words = list(dict.fromkeys(pair[1] for pair in used))
        open_names = open_names or list(pairs)
    options = {"true_words": ", ".join(true_words), "false_words": ", ".join(false_words)}
    return options, _questions(options, clear, reason) if open_names else []


def is_pair(words: Collection[str]) -> bool:
    """Return True for two words for true and false, in lower case."""
    return any(set(words) == set(pair) for pair in (*_STANDARD, *_PAIRS))


def _questions(options: Mapping[str, str], clear: Sequence[tuple[str, str]], reason: str) -> list[Question]:
    """Return the questions whether words are for true and false; without those that are open, the others stay."""
    questions = []
    for place, option in enumerate(("true_words", "false_words")):
        words = ", ".join(dict.fromkeys(pair[place] for pair in clear))
        needs_option = any(pair not in _STANDARD for pair in clear)
        candidates = (options[option], words if needs_option else None, None)
        questions.append(Question(option, tuple(dict.fromkeys(candidates)), reason))
    return questions
