"""Tests of YAML reading: libyaml, limits, and the line and column of every value."""

import pytest
import yaml

from elevata.core.errors import MetadataError
from metadata.services.exchange import yaml_files
from metadata.services.exchange.yaml_files import MAX_DEPTH, parse_yaml


def refused(content: str) -> MetadataError:
    with pytest.raises(MetadataError) as caught:
        parse_yaml(content, "a.yaml")
    return caught.value


@pytest.fixture(params=["libyaml", "python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Select each of PyYAML's two parsers, which must enforce the same limits and report the same positions."""
    monkeypatch.setattr(yaml_files, "_Parser", yaml.CSafeLoader if request.param == "libyaml" else yaml.SafeLoader)


def test_yaml_parser_is_libyaml():
    assert yaml_files._Parser is yaml.CSafeLoader


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("content", "code", "place"),
    [
        ("a: 1\nb: &x [1]\n", "alias", "a.yaml:2:4"),
        ("a: 1\nb: *x\n", "alias", "a.yaml:2:4"),
        ("&x a: 1\n", "alias", "a.yaml:1:1"),
        ("- " * (MAX_DEPTH + 1) + "a", "too_big", f"a.yaml:1:{2 * MAX_DEPTH + 1}"),
        ("ü: 1\nname: 'ö'\nü: 2\n", "duplicate_field", "a.yaml:3:1"),
        ("a: {b: 1, [c]: 2}\n", "bad_yaml", "a.yaml:1:11"),
        ("a: 1\n--- \nb: 2\n", "bad_yaml", "a.yaml:2:1"),
        ("a: 1\nb: !!binary aGk=\n", "bad_yaml", "a.yaml:2:4"),
        ("a: ü\nb: x\ud800\n", "bad_text", "a.yaml:2:5"),
        ("a: ü\nb: x\0\n", "bad_text", "a.yaml:2:5"),
        ("# nothing\n", "empty", "a.yaml"),
    ],
)
def test_invalid_yaml_is_refused_with_its_place(content: str, code: str, place: str):
    error = refused(content)
    assert (error.code, error.place) == (code, place)


@pytest.mark.usefixtures("parser")
def test_yaml_places_count_characters_not_bytes():
    node = parse_yaml("a: ['ü', '😀', last]\n", "a.yaml")
    assert [item.where for item in node.value["a"].value] == ["a.yaml:1:5", "a.yaml:1:10", "a.yaml:1:15"]


@pytest.mark.usefixtures("parser")
def test_yaml_above_the_value_limit_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(yaml_files, "MAX_NODES", 10)
    assert refused("[" + "1, " * 20 + "1]").code == "too_big"
    assert refused("".join(f"a{n}: 1\n" for n in range(10))).code == "too_big"
