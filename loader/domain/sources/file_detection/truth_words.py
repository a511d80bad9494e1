"""Words for true and false, by the values of all columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from loader.domain.sources.file_detection.model import Question

# Words that are read without an option, and pairs that need one.
STANDARD = (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"))
_PAIRS = (
    ("ja", "nein"), ("j", "n"), ("wahr", "falsch"), ("ein", "aus"), ("oui", "non"), ("o", "n"), ("vrai", "faux"),
    ("sí", "no"), ("si", "no"), ("s", "n"), ("verdadero", "falso"), ("sim", "não"), ("sim", "nao"), ("sì", "no"),
    ("vero", "falso"), ("waar", "onwaar"), ("ja", "nee"), ("ja", "nej"), ("tak", "nie"), ("prawda", "fałsz"),
    ("ano", "ne"), ("igen", "nem"), ("evet", "hayır"), ("да", "нет"), ("истина", "ложь"), ("on", "off"),
)  # fmt: skip


def detect_truth_words(
    columns: Mapping[str, Sequence[str]],
) -> tuple[dict[str, Any], list[Question]]:
    """Return ``true_words`` and ``false_words`` if they are needed, and what is open."""
    pairs: list[tuple[str, str]] = []
    for values in columns.values():
        words = {value.strip().lower() for value in values} - {""}
        pair = next((pair for pair in (*STANDARD, *_PAIRS) if words == set(pair)), None)
        if pair is not None:
            pairs.append(pair)
    special = [pair for pair in dict.fromkeys(pairs) if pair not in STANDARD]
    questions: list[Question] = []
    if not special:
        return {}, questions
    used = list(dict.fromkeys(pairs))
    true_words = list(dict.fromkeys(pair[0] for pair in used))
    false_words = list(dict.fromkeys(pair[1] for pair in used))
    if set(true_words) & set(false_words):
        true_words, false_words = [special[0][0]], [special[0][1]]
        questions.append(Question("true_words", (true_words[0],), "a word is for true in one column, false in another"))
    options = {"true_words": ", ".join(true_words), "false_words": ", ".join(false_words)}
    return options, questions
