"""Values in the names of folders."""

from loader.domain.sources.folders import shared_columns, texts_of, values_in, without_values


def test_folders_have_values_in_the_notation_of_urls():
    name = "a=b c/day=2024-01-31/city=K%C3%B6ln%2FS%C3%BCd/x=__HIVE_DEFAULT_PARTITION__/=y/empty=/file=1.csv"
    expected = {"a": "b c", "day": "2024-01-31", "city": "Köln/Süd", "x": None, "empty": ""}
    assert values_in(name) == expected


def test_the_deepest_folder_of_a_name_has_the_value():
    assert values_in("day=1/day=2/a.csv") == {"day": "2"}


def test_columns_are_those_that_the_folders_of_all_files_have():
    assert shared_columns(["day=1/n=2/a.csv", "n=3/day=1/b.csv"]) == ("day", "n")
    assert shared_columns(["day=1/a.csv", "a.csv"]) == ()


def test_texts_keep_the_spelling_of_folders():
    assert texts_of("a b", ["a%20b=1/x.csv", "a%20b=%31/x.csv"]) == ("a%20b", {"1", "%31"})


def test_a_delivery_is_the_folder_above_those_with_values():
    assert without_values("sales/country=DE/day=1") == "sales"
    assert without_values("sales") == "sales"
    assert without_values("country=DE") == ""
