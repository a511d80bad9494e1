"""Values in the names of folders."""

from loader.domain.sources.folders import shared_columns, texts_of, values_in, without_values


def test_folder_values_are_url_decoded():
    name = "a=b c/day=2024-01-31/city=K%C3%B6ln%2FS%C3%BCd/x=__HIVE_DEFAULT_PARTITION__/=y/empty=/file=1.csv"
    expected = {"a": "b c", "day": "2024-01-31", "city": "Köln/Süd", "x": None, "empty": ""}
    assert values_in(name) == expected


def test_deepest_folder_sets_the_value_of_a_repeated_name():
    assert values_in("day=1/day=2/a.csv") == {"day": "2"}


def test_folder_columns_are_those_shared_by_all_files():
    assert shared_columns(["day=1/n=2/a.csv", "n=3/day=1/b.csv"]) == ("day", "n")
    assert shared_columns(["day=1/a.csv", "a.csv"]) == ()


def test_folder_texts_keep_their_url_encoding():
    assert texts_of("a b", ["a%20b=1/x.csv", "a%20b=%31/x.csv"]) == ({"a%20b"}, {"1", "%31"})
    assert texts_of("a b", ["a%20b=1/x.csv", "a b=2/x.csv"]) == ({"a%20b", "a b"}, {"1", "2"})


def test_a_delivery_is_the_folder_above_those_with_values():
    assert without_values("sales/country=DE/day=1") == "sales"
    assert without_values("sales") == "sales"
    assert without_values("country=DE") == ""
