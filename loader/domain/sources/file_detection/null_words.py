"""Words that stand for no value, by the values beside which they are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loader.domain.sources.file_detection.cells import CODE, TYPED, is_missing, kind_of
from loader.domain.sources.file_detection.model import Question, first_names
from loader.domain.sources.file_detection.truth_words import is_pair

# Words that are hardly texts themselves.
_CERTAIN = frozenset({"\\N", "(null)", "[null]", "<null>", "<NA>", "#N/A", "#NV", "NaT"})
# Words that databases and programs write for NULL in columns of texts, too.
_OF_PROGRAMS = _CERTAIN | {"NULL", "null", "NA", "nan", "NaN"}
# The others may also be an answer or a kind.
_OF_TEXTS = _OF_PROGRAMS | {"N/A", "n/a", "None", "?"}
_NOT_A_NUMBER = "nan"
_LONGEST_CODE = 5


@dataclass
class _Words:
    """Words by how many values they stand for: in columns of numbers and the like, of texts, and of short codes."""

    typed: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    columns: list[str] = field(default_factory=list)


def detect_null_string(columns: Mapping[str, Sequence[str]]) -> tuple[dict[str, Any], list[Question]]:
    """Return ``null_string`` if a word stands for no value, and what is open.

    A word among numbers, dates or words for true and false is one. A single sign like - may also be a zero, NaN is a
    value of floats, and only one word can be read: these are asked.
    """
    words = _words(columns)
    of_texts = [word for word, _ in words.texts.most_common() if word.strip() in _OF_TEXTS and word not in words.typed]
    typed = [word for word, _ in words.typed.most_common()]
    candidates: list[str | None] = [*typed, *of_texts]
    if not candidates:
        return {}, []
    shown = " and ".join(word.strip() for word in (*typed, *of_texts)[:3])
    where = f"in {first_names(words.columns)}"
    if len(candidates) > 1:
        reason = f"{shown} {where} may stand for no value; only one of them can be read"
    elif candidates[0] in _CERTAIN or (typed and _is_clear(typed[0], words)):
        return {"null_string": candidates[0]}, []
    else:
        reason = f"{shown} {where} may stand for no value, or be a value itself"
    return {"null_string": candidates[0]}, [Question("null_string", (*candidates, None), reason)]


def without_word(columns: Mapping[str, Sequence[str]], word: str | None) -> dict[str, list[str]]:
    """Return the values of columns with empty ones in place of a word."""
    return {name: ["" if text == word else text for text in values] for name, values in columns.items()}


def _is_clear(word: str, words: _Words) -> bool:
    """Return True for a word of typed columns that is no value in any other column, nor itself a number."""
    text = word.strip()
    is_value = word in words.codes or (word in words.texts and text not in _OF_PROGRAMS)
    return len(text) > 1 and text.lower() != _NOT_A_NUMBER and not is_value


def _words(columns: Mapping[str, Sequence[str]]) -> _Words:
    """Return the words of all columns that may stand for no value."""
    words = _Words()
    for name, values in columns.items():
        missing = Counter(text for text in values if is_missing(text))
        others = [text.strip() for text in values if text.strip() and not is_missing(text)]
        if not missing:
            continue
        are_truth_words = is_pair({text.lower() for text in others})
        if are_truth_words or _are_typed(others):
            words.typed += missing
            # Beside yes and no, unknown may be a third answer.
            words.texts += missing if are_truth_words else Counter[str]()
            words.columns.append(name)
        elif _are_codes([*others, *(word.strip() for word in missing)]):
            words.codes += missing
        else:
            words.texts += missing
            words.columns += [name] if any(word.strip() in _OF_TEXTS for word in missing) else []
    return words


def _are_typed(texts: Sequence[str]) -> bool:
    """Return True for values that are all numbers, or all dates or times."""
    kinds = {kind_of(text) for text in texts}
    return len(kinds) == 1 and kinds <= TYPED - {CODE}


def _are_codes(texts: Sequence[str]) -> bool:
    """Return True for several texts of one length or of few capital letters, like NA among countries and regions.

    Codes are written in one case: NULL among names of cities is none.
    """
    are_capitals = all(text.isalpha() and text.isupper() and len(text) <= _LONGEST_CODE for text in texts)
    is_one_case = all(text == text.upper() for text in texts) or all(text == text.lower() for text in texts)
    are_alike = is_one_case and len({len(text) for text in texts}) == 1
    return len(set(texts)) > 1 and (are_capitals or are_alike)
