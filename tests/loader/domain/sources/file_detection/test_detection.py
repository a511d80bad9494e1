"""Detection of single properties of files."""

from pathlib import Path

import pytest

from loader.contract.refusals import Refusal
from loader.domain.sources.file_detection.cells import DATE, kind_of
from loader.domain.sources.file_detection.character_sets import detect_character_set
from loader.domain.sources.file_detection.detect import detect_csv, value_questions
from loader.domain.sources.file_detection.examples import of_values
from loader.domain.sources.file_detection.file_names import dated_name
from loader.domain.sources.file_detection.model import Detected, FileSample, notes_of
from loader.domain.sources.file_detection.null_words import detect_null_string
from loader.domain.sources.file_detection.numbers import detect_numbers
from loader.domain.sources.file_detection.personal_columns import personal_reason
from loader.domain.sources.file_detection.times import detect_time_formats, unread_dates
from loader.domain.sources.file_detection.truth_words import detect_truth_words


def detected(text: str, name: str = "a.csv", encoding: str = "utf-8") -> Detected:
    return detect_csv(FileSample(name, text.encode(encoding)))


def questions_of(result: Detected) -> dict[str, tuple]:
    return {question.option: question.candidates for question in result.questions}


# --- layout of files


def test_report_with_lines_around_its_records():
    result = detected("Export of 2026-11-28,,\nClient 17,,\nid,amount,amount\n1,10,11\n,,\n2,20,21\n,,\nRecords: 2,,\n")
    assert result.options == {"skip_lines": 2, "footer_lines": 1, "repeated_names": "number"}
    assert [(column.name, str(column.type)) for column in result.columns] == [
        ("id", "integer"),
        ("amount", "integer"),
        ("amount_2", "integer"),
    ]
    assert not result.questions


def test_header_of_two_lines():
    result = detected("Sales,,Returns,\nNorth,South,North,South\n1,2,3,4\n5,6,7,8\n")
    assert result.options == {"header_lines": 2}
    assert [column.target_name for column in result.columns] == [
        "sales_north", "sales_south", "returns_north", "returns_south",
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_records_end_with_cr_or_lf_or_both(end: str):
    result = detected(end.join(("id;name", "1;a", "2;b", "")))
    assert (result.options, result.questions) == ({"delimiter": ";"}, ())
    assert [(column.name, str(column.type)) for column in result.columns] == [("id", "integer"), ("name", "string")]


def test_delimiter_at_the_end_of_records_is_no_column():
    result = detected("id;name\n1;a;\n2;b;\n")
    assert (result.options, [column.name for column in result.columns]) == ({"delimiter": ";"}, ["id", "name"])


def test_delimiter_at_the_end_of_every_line_leaves_its_column_out():
    result = detected("id;name;\n1;a;\n2;b;\n")
    assert result.options == {"delimiter": ";", "ignored_columns": "(column 3)"}
    assert [column.name for column in result.columns] == ["id", "name"]


def test_line_break_in_a_name_is_a_blank():
    assert [column.name for column in detected('id,"Name\nof customer"\n1,a\n2,b\n').columns] == [
        "id",
        "Name of customer",
    ]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Report, printed\nby Ada\n\nid,amount\n1,10\n2,20\n\nTotal,30\n", {"skip_lines": 3, "footer_lines": 2}),
        ("# made by x, y\n# z\nid,v\n1,2\n3,4\n", {"skip_lines": 2}),
        ("sep=;\nid;x\n1;a\n2;b\n", {"skip_lines": 1, "delimiter": ";"}),
        (";2025;;2026;\nName;Q1;Q2;Q1;Q2\nA;1;2;3;4\nB;2;3;4;5\n", {"delimiter": ";", "header_lines": 2}),
        ("time,temp\n[s],[K]\n1,2\n2,3\n", {"header_lines": 2}),
        ("1;Hans;12.5\n2;Franz;13.5\n", {"delimiter": ";", "header": False}),
        ("id,a,b,c,d\n1,,,,x\n2,,,,\n3,a,b,,\n4,,,,\n", {}),
        ('id,t\n1,"say \\"x\\", y"\n2,"b"\n', {"escape": "\\"}),
        ("id;a;b\n'1';'x;y';'z'\n'2';'q;r';'t'\n", {"delimiter": ";", "quote": "'"}),
        ("a;b\n1,50;2,75\n1,60;2,85\n", {"delimiter": ";", "decimal_separator": ","}),
        ("id\n1\n2\n", {}),
    ],
)
def test_lines_and_dialects(text: str, options: dict):
    result = detected(text)
    assert (result.options, result.questions) == (options, ())


@pytest.mark.parametrize(
    "text",
    [
        "id|name|v\n--|----|--\n1|A|5\n2|B|6\n",
        "id|name|v\n--+----+--\n1|A|5\n2|B|6\n",
        "+--+----+--+\n|id|name|v|\n+--+----+--+\n|1|A|5|\n|2|B|6|\n",
    ],
)
def test_line_drawn_below_the_names_likely_belongs_to_the_header(text: str):
    result = detected(text)
    assert questions_of(result)["header_lines"] == (2, 1)
    assert "skip_lines" not in questions_of(result)
    assert [column.name for column in result.columns if "column" not in column.name] == ["id", "name", "v"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("id,text\n1,hello\n2,a, b, c, d\n3,e, f, g, h\n", (2, 1)),
        ("id;name;v\n1;a;2\n2;b;3\n3;c;x;y;z\n4;d;p;q;r\n", (3, 1)),
        ("2024-01-01,start\n2024-01-02,stop\n2024-01-03,job,1,2,3\n2024-01-04,job,4,5,6\n", (2, 0)),
    ],
)
def test_records_above_those_with_more_delimiters_are_left_out_only_if_confirmed(text: str, lines: tuple):
    assert questions_of(detected(text))["skip_lines"] == lines


@pytest.mark.parametrize("end", ["26;a;b;c;d\n27;a;b;c;d\n", "a;b;c;d;e\nf;g;h;i;j\n"])
def test_few_records_with_delimiters_too_many_are_no_table_below_the_others(end: str):
    records = "".join(f"{number};Ann {number};ok\n" for number in range(25))
    assert detected(f"id;name;note\n{records}{end}").options == {"delimiter": ";"}


@pytest.mark.parametrize("last", ["z;w", "7;w"])
def test_last_line_with_half_of_the_fields_is_left_out_only_if_confirmed(last: str):
    result = detected(f"a;b;c;d\nx;1;4;z\ny;2;5;u\n{last}\n")
    assert result.options == {"delimiter": ";"}
    assert questions_of(result)["footer_lines"] == (0, 1)


def test_only_record_with_a_field_too_few_is_no_line_after_the_records():
    assert "footer_lines" not in detected("a,b\n1\n").options


def test_delimiter_that_the_header_does_not_have_is_asked():
    assert set(questions_of(detected("id,tags\n1,a;b\n2,c;d\n3,e;f\n"))["delimiter"]) == {",", ";"}


def test_single_signs_below_names_are_likely_a_record():
    assert questions_of(detected("id,v,w\n-,-,-\n1,2,3\n2,3,4\n"))["header_lines"] == (1, 2)


def test_every_reading_of_texts_without_a_clear_header_is_asked():
    assert questions_of(detected("alpha;beta\ngamma;delta\nepsilon;zeta\n"))["header"] in ((True, False), (False, True))


def test_sum_of_a_table_whose_first_column_has_texts_is_asked():
    assert questions_of(detected("name;amount\na;1\nb;2\nSumme;3\n"))["footer_lines"] == (0, 1)


def test_quote_that_is_not_closed_is_asked():
    assert questions_of(detected('a,b\n1,"2\n3,4\n5,6\n7,8\n'))["quote"] == ("", '"')


def test_quotes_inside_of_values_are_asked():
    assert questions_of(detected('id,size\n1,5" pipe\n2,6" pipe\n'))["quotes_inside"] == ("keep", "refuse")


def test_header_above_records_without_numbers_is_found():
    result = detected("name,city,left\n" + "Hans,Berlin,\n" * 8 + "Kai,Bonn,2024-01-01\n")
    assert (result.options, result.questions) == ({}, ())


def test_header_of_names_alone_is_asked_unless_its_words_are_names():
    assert questions_of(detected("Kansas City;Bob\n"))["header"] == (True, False)
    assert not detected("id;name\n").questions


def test_lines_after_the_records_of_which_the_end_was_not_read_are_asked():
    sample = FileSample("a.csv", b"id,v\n1,2\n3,4\n", (b"5,6\n7,8\nTot",), is_cut=True)
    assert questions_of(detect_csv(sample)) == {"footer_lines": (0,)}


def test_piece_that_begins_within_quotes_is_read_by_its_records():
    beginning = b"id;note;n\n" + b'1;"a\nb";2\n' * 5
    result = detect_csv(FileSample("a.csv", beginning, (b'x;1\nc;2";3\n4;"d\ne";5\nSumme;;8\n',)))
    assert result.options == {"delimiter": ";", "footer_lines": 1}
    assert [str(column.type) for column in result.columns] == ["integer", "string", "integer"]


def test_value_that_is_cut_by_a_piece_does_not_count():
    beginning = b"id;when\n" + b"1;13.02.2026\n" * 5
    result = detect_csv(FileSample("a.csv", beginning, (b"6\n2;14.02.2026\n3;15.0", b"1.2026\n4;16.02.2026\n")))
    assert result.options == {"delimiter": ";", "date_format": "%d.%m.%Y"}
    assert str(result.columns[1].type) == "date"


def test_character_that_is_cut_by_a_piece_does_not_count():
    text = "id;ort\n1;Köln\n2;Düren\n".encode()
    cut = text.index("ü".encode()) + 1
    assert detect_csv(FileSample("a.csv", text[:cut], (text[cut:] + text[7:],))).options == {"delimiter": ";"}


def test_total_of_the_last_piece_is_no_value():
    sample = FileSample("a.csv", b"id,v\n1,2\n3,4\n", (b"5,6\n7,8\nTotal,20\n",))
    result = detect_csv(sample)
    assert (result.options, str(result.columns[0].type)) == ({"footer_lines": 1}, "integer")


def test_more_columns_than_detection_reads_are_refused():
    with pytest.raises(Refusal, match="3,000 columns"):
        detected(",".join(["x"] * 3_000) + "\n" + ",".join(["1"] * 3_000) + "\n")


@pytest.mark.parametrize(
    "text",
    [
        "id,m\n1,a@" + ".a" * 150_000 + "!\n2,b\n",
        "a" + " " * 300_000 + "b,c\n1,2\n",
        "a" * 300_000,
        "a,b\n1,2\n5 rows " + "a " * 150_000 + "\n",
        "x;y\n" + "ä" * 300_000 + ";1\n",
    ],
    ids=["address", "blanks", "letters", "remark", "umlauts"],
)
def test_long_texts_are_read_in_one_pass(text: str):
    assert detected(text, encoding="cp1252").format == "csv"


def test_empty_file_is_refused():
    with pytest.raises(Refusal, match="is empty"):
        detected("\n\n")


def test_pieces_from_middle_and_end_are_read_without_their_first_line():
    beginning = b"id;when\n" + b"1;01.02.2026\n" * 5 + b"2;0"
    result = detect_csv(FileSample("a.csv", beginning, (b".2026\n3;25.12.2026\n", b"x\n4;01.01.2026\nSumme;\n")))
    assert result.options == {"delimiter": ";", "date_format": "%d.%m.%Y", "footer_lines": 1}
    assert not result.questions


# --- character sets

GERMAN = "Kunde;Straße\nMüller;Königsstraße\nJäger;Große Gasse\n"
LONG = GERMAN + "Übel;Äußere Straße\nÖhler;Mühlgässchen\n"


@pytest.mark.parametrize(
    ("text", "codec", "name"),
    [
        (GERMAN, "utf-8", "UTF-8"),
        (GERMAN, "utf-8-sig", "UTF-8"),
        (GERMAN, "utf-16", "UTF-16"),
        (GERMAN, "utf-16-le", "UTF-16LE"),
        (LONG + "5 €\n", "cp1252", "windows-1252"),
        (LONG, "cp850", "IBM850"),
        (LONG, "mac-roman", "MacRoman"),
        ("jméno;město\nJiří Dvořák;Plzeň\nŠárka;České Budějovice\n", "cp1250", "windows-1250"),
        ("imię;ulica\nŁukasz;Świętokrzyska\nŻółć;Gdańsk\nMałgorzata;Łódź\n", "cp1250", "windows-1250"),
        ("név;cím\nSzőke Árpád;Győr\nKovács Örs;Pécs\nTóth Ürge;Hódmezővásárhely\n", "cp1250", "windows-1250"),
        ("ürün;şehir\nÇağrı;İstanbul\nGüneş;Muğla\n", "cp1254", "windows-1254"),
        ("имя;город\nИван Петров;Москва\nОльга;Тверь\n", "koi8-r", "KOI8-R"),
        ("名前;都市\n田中さん;東京\nカタカナ;テスト\n", "shift_jis", "Shift_JIS"),
    ],
)
def test_character_set_is_that_of_the_text(text: str, codec: str, name: str):
    result = detect_character_set(text.encode(codec))
    assert (result.name, result.question) == (name, None)


@pytest.mark.parametrize(
    ("text", "codec", "names"),
    [
        (GERMAN, "cp1252", ("windows-1252", "ISO-8859-15")),
        (GERMAN + "5 €\n", "iso-8859-15", ("ISO-8859-15", "windows-1252")),
        ("姓名;城市\n王伟;北京\n李娜;上海市浦东新区\n", "gb18030", ("GB18030", "EUC-JP")),
    ],
)
def test_character_sets_that_the_bytes_leave_open_are_asked(text: str, codec: str, names: tuple):
    question = detect_character_set(text.encode(codec)).question
    assert question is not None
    assert question.candidates[:2] == names


# --- numbers, dates, words


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (["1.5", "0.123"], {}),
        (["1,50", "2,75"], {"decimal_separator": ","}),
        (["1.234,00", "5"], {"decimal_separator": ",", "thousands_separator": "."}),
        (["1,234.50"], {"thousands_separator": ","}),
        (["1 234,5"], {"decimal_separator": ",", "thousands_separator": " "}),
        (["1'234.5"], {"thousands_separator": "'"}),
        (["1.234.567"], {"decimal_separator": ",", "thousands_separator": "."}),
        (["1,234,567"], {"thousands_separator": ","}),
    ],
)
def test_separators_that_values_show(values: list[str], options: dict):
    assert detect_numbers({"a": values}, ";") == (options, [])


def test_thousands_or_decimals_are_asked_if_no_value_shows_it():
    options, questions = detect_numbers({"a": ["1.234", "5.678"]}, ",")
    assert options == {}
    assert [(question.option, question.candidates) for question in questions] == [
        ("decimal_separator", (".", ",")),
        ("thousands_separator", (None, ".")),
    ]


@pytest.mark.parametrize(
    ("columns", "decimals"),
    [
        ({"a": ["1.234", "12345"]}, (".", ",")),
        ({"a": ["1.234", "5", "17", "999"] * 10}, (",", ".")),
        ({"a": ["1.234"], "latitude": ["48.5"]}, (".", ",")),
        ({"a": ["1,234"], "b": ["1 234"]}, (",", ".")),
    ],
)
def test_separator_before_three_digits_is_asked_whichever_is_likelier(columns: dict, decimals: tuple):
    _, questions = detect_numbers(columns, ";")
    assert {question.option: question.candidates for question in questions}["decimal_separator"] == decimals


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (["1.234", "1.5"], {}),
        (["1.234", "1.234.567"], {"decimal_separator": ",", "thousands_separator": "."}),
        (["1.234", "5,5"], {"decimal_separator": ",", "thousands_separator": "."}),
        (["1,234", "0.5"], {"thousands_separator": ","}),
        (["1,234", "1 234"], {"decimal_separator": ",", "thousands_separator": " "}),
    ],
)
def test_values_of_the_same_column_settle_the_separator(values: list[str], options: dict):
    assert detect_numbers({"a": values}, ",") == (options, [])


def test_point_between_commas_separates_decimals_if_another_column_shows_it():
    columns = {"a": ["190.936", "187.262"], "b": ["192.0", "190.94"]}
    assert detect_numbers(columns, ",") == ({}, [])
    assert detect_numbers(columns, ";")[1]


@pytest.mark.parametrize(
    ("values", "marked", "options"),
    [
        (["1,234", "321"], ["45.5%", "7 %"], {"thousands_separator": ","}),
        (["1,234", "321"], ["$1,200.50"], {"thousands_separator": ","}),
        (["1.234", "321"], ["12,50 €"], {"decimal_separator": ",", "thousands_separator": "."}),
    ],
)
def test_amounts_with_a_currency_or_percent_sign_settle_the_separator(values: list, marked: list, options: dict):
    assert detect_numbers({"a": values, "b": marked}, ",") == (options, [])
    assert detect_numbers({"b": marked}, ",") == ({}, [])


def test_days_without_a_year_show_no_decimal_separator():
    amounts = {"Betrag": ["-89,90", "2500,00"]}
    assert detect_numbers({"Buchungstag": ["30.01", "29.01"]} | amounts, ";") == ({"decimal_separator": ","}, [])
    assert detect_numbers({"Kurs": ["30.01", "29.01"]} | amounts, ";")[1]


def test_days_without_a_year_do_not_settle_the_separator_of_amounts():
    options, questions = detect_numbers({"Buchungstag": ["30.01", "29.01"], "Betrag": ["1,234", "2,500"]}, ",")
    assert options == {"thousands_separator": ","}
    assert [question.option for question in questions] == ["decimal_separator", "thousands_separator"]


def test_errors_of_spreadsheets_are_no_other_values_than_numbers():
    values = {"quote": ["1,5", "#DIV/0!", "2,5"]}
    assert detect_numbers(values, ";") == ({"decimal_separator": ","}, [])
    assert detect_null_string(values) == ({"null_string": "#DIV/0!"}, [])


def test_another_column_settles_the_separator():
    columns = {"a": ["1.234"], "b": ["2,5"]}
    assert detect_numbers(columns, ";") == ({"decimal_separator": ",", "thousands_separator": "."}, [])


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (["2026-01-31"], {}),
        (["2026-01-31 10:00:00"], {}),
        (["13.02.2026"], {"date_format": "%d.%m.%Y"}),
        (["1.2.2026", "25.12.2026"], {"date_format": "%-d.%-m.%Y"}),
        (["12/25/2026"], {"date_format": "%m/%d/%Y"}),
        (["12-Jan-2026"], {"date_format": "%d-%b-%Y"}),
        (["31.12.2026 23:59"], {"timestamp_format": "%d.%m.%Y %H:%M"}),
        (["12/31/2026 11:59 PM"], {"timestamp_format": "%m/%d/%Y %I:%M %p"}),
        (["12. Jan. 2026", "03. Mai 2026"], {"date_format": "%d. %b %Y"}),
        (["5. März 2026", "24. Dezember 2026"], {"date_format": "%-d. %B %Y"}),
        (["03 févr. 2026", "14 août 2026"], {"date_format": "%d %b %Y"}),
        (["3 mars 2026", "14 juillet 2026"], {"date_format": "%-d %B %Y"}),
        (["Jan. 5, 2026", "May 12, 2026"], {"date_format": "%b %-d, %Y"}),
    ],
)
def test_formats_of_dates_that_values_show(values: list[str], options: dict):
    assert detect_time_formats({"a": values}, is_american=False) == (options, [])


@pytest.mark.parametrize(
    ("values", "formats"),
    [
        (["31.12.26", "01.02.69"], (None, "%d.%m.%y")),
        (["12/31/26"], (None, "%m/%d/%y")),
        (["01/02/26"], (None, "%d/%m/%y", "%m/%d/%y")),
        (["12-JAN-26"], (None, "%d-%b-%y")),
        (["98-12-31"], (None, "%y-%m-%d")),
    ],
)
def test_century_of_years_of_two_digits_is_asked(values: list[str], formats: tuple):
    options, questions = detect_time_formats({"day": values}, is_american=False)
    assert options == {}
    assert [question.option for question in questions] == ["date_format", "first_year"]
    assert (questions[0].candidates, questions[1].candidates) == (formats, (1970, 1930, 2000, 1900))


def test_examples_show_a_year_of_two_digits_in_each_century():
    _, (_, century) = detect_time_formats({"geburtstag": ["31.12.26", "01.02.85"]}, is_american=False)
    assert century.candidates == (1930, 1900, 1970, 2000)
    assert century.examples[0] == "31.12.26 is 31 December 2026"
    assert century.examples[1] == "31.12.26 is 31 December 1926"


FULL = ["31.12.2024", "30.11.2024"]


@pytest.mark.parametrize("unsure", [["31.12.24"], ["1.12.24"], ["20241231"]])
def test_unsure_dates_leave_the_format_of_other_columns(unsure: list[str]):
    options, questions = detect_time_formats({"code": unsure, "ordered": FULL, "paid": FULL}, is_american=False)
    assert options == {"date_format": "%d.%m.%Y"}
    assert questions[0].candidates[:2] == ("%d.%m.%Y", None)
    assert questions[0].candidates[2:]
    assert questions[0].reason.startswith("code may have dates")


def test_more_columns_of_unsure_dates_leave_the_format_of_a_sure_one():
    columns = {"v1": ["1.12.24"], "v2": ["1.12.24"], "ordered": FULL, "n1": ["20241231"], "n2": ["20241231"]}
    options, (question, _) = detect_time_formats(columns, is_american=False)
    assert (options, question.candidates[:2]) == ({"date_format": "%d.%m.%Y"}, ("%d.%m.%Y", None))


@pytest.mark.parametrize(
    ("columns", "reasons"),
    [
        (
            {"a": ["2024-12-31"], "c": FULL, "b": ["31.12.24"]},
            (
                "a is written in the standard way, c is not; only one can be read",
                "b may have dates with years of two digits, or other values",
            ),
        ),
        (
            {"a": ["2024-12-31"], "b": ["31.12.24"]},
            (
                "a is written in the standard way, b is not; only one can be read",
                "b may have dates with years of two digits, or other values",
            ),
        ),
        (
            {"a": ["31.12.2024"], "s": ["2024/12/31"], "nr": ["20241231"]},
            ("a, s are written in different formats; only one can be read", "nr may have dates or numbers"),
        ),
        (
            {"a": ["01.02.2024"], "nr": ["20241231"]},
            ("no value of a shows which number is the day", "nr may have dates"),
        ),
        (
            {"v": ["1.12.24"], "nr": ["20241231"], "w": ["1.12.24"], "m": ["20241230"]},
            ("v, w may have dates with years of two digits, or other values", "nr, m may have dates or numbers"),
        ),
    ],
)
def test_every_reason_for_the_question_about_dates_is_given(columns: dict, reasons: tuple):
    _, (question, *_) = detect_time_formats(columns, is_american=False)
    assert [reason for reason in reasons if reason not in question.reason] == []


def test_numbers_that_may_be_dates_do_not_replace_dates_in_the_standard_way():
    options, (question,) = detect_time_formats({"id": ["20241231"], "day": ["2024-12-31"]}, is_american=False)
    assert (options, question.candidates[0]) == ({}, None)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        *[(name, 1970) for name in ("Angebotsdatum", "gebucht_am", "Ergebnisdatum")],
        *[(name, 1930) for name in ("Geburtsdatum", "GebDat", "geb_datum", "birth_date", "DOB", "date_naissance")],
        *[(name, 1930) for name in ("geb.", "geb", "geboren", "geboren_am", "geburt", "birthdt", "kunde_geb_am")],
        ("mail_geburtsdatum", 1930),
        ("kind_of_a_date_of_birthplace", 1970),
    ],
)
def test_last_century_is_proposed_first_for_births(name: str, first: int):
    _, (_, century) = detect_time_formats({name: ["31.12.26"]}, is_american=False)
    assert century.candidates[0] == first


@pytest.mark.parametrize("name", ["geb.", "geb", "geboren", "geboren_am", "geburt", "birthdt"])
def test_dates_of_birth_are_likely_personal(name: str):
    assert "a date of birth" in personal_reason(name, ())


@pytest.mark.parametrize("name", ["voltage", "percentage", "stage", "kandidat", "candidate", "hashtag", "mandat"])
def test_name_with_the_letters_of_a_date_in_another_word_is_none_of_dates(name: str):
    options, (question,) = detect_time_formats({name: ["20241231"]}, is_american=False)
    assert (options, question.candidates) == ({}, (None, "%Y%m%d"))


@pytest.mark.parametrize(
    "name",
    ["day", "order_date", "orderDate", "paydate", "Buchungstag", "Lieferdatum", "datumvon", "date2", "geboren_am"],
)
def test_name_of_dates_makes_dates_of_eight_digits(name: str):
    options, (question,) = detect_time_formats({name: ["20241231"]}, is_american=False)
    assert (options, question.candidates) == ({"date_format": "%Y%m%d"}, ("%Y%m%d", None))


@pytest.mark.parametrize(
    ("value", "candidates"),
    [
        ("12März2024", ("%d%B%Y", "%d%b%Y")),
        ("31DEC2024 10:00", ("%d%b%Y %H:%M",)),
        ("31DEC24", (None, "%d%b%y")),
        ("3janvier2024", ("%-d%B%Y",)),
    ],
)
def test_dates_without_signs_between_their_parts_are_read(value: str, candidates: tuple):
    options, questions = detect_time_formats({"day": [value]}, is_american=False)
    option = "timestamp_format" if ":" in value else "date_format"
    assert options.get(option) == candidates[0]
    assert {question.option: question.candidates for question in questions}.get(option, candidates[:1]) == candidates
    assert kind_of(value) == DATE


@pytest.mark.parametrize("code", ["12ABC2024", "12MAR245", "10AB24"])
def test_code_with_letters_is_no_date(code: str):
    assert kind_of(code) != DATE


def test_dates_with_other_names_of_months_stay_texts_with_a_note():
    columns = {"ordered": FULL, "dia": ["12 enero 2026", "3 marzo 2026"], "v": ["1.12.24"]}
    options, questions = detect_time_formats(columns, is_american=False)
    assert options == {"date_format": "%d.%m.%Y"}
    assert unread_dates(columns) == ("dia",)
    content = "id;dia;ordered\n1;12 enero 2026;31.12.2024\n2;3 marzo 2026;30.11.2024\n"
    result = detected(content)
    assert (result.questions, result.unread_dates) == ((), ("dia",))
    assert result.as_json()["notes"] == ["dia may have dates, in a format that is not read; they stay texts."]


@pytest.mark.parametrize(
    ("values", "options", "candidates"),
    [
        (["12,50-", "15,00"], {"negative_numbers": "trailing"}, ("trailing", None)),
        (["(1,250.00)", "12.50"], {"negative_numbers": "brackets"}, ("brackets", None)),
        (["12,50-", "15,00", "(3,20)"], {"negative_numbers": "trailing"}, ("trailing", "brackets", None)),
        (["2-", "1", "3"], {}, (None, "trailing")),
        (["(100)", "(200)"], {}, (None, "brackets")),
        (["(030)", "(040)"], {}, None),
        (["-12.5", "3"], {}, None),
        (["a-", "b"], {}, None),
    ],
)
def test_signs_after_or_around_numbers_are_detected(values: list[str], options: dict, candidates: tuple | None):
    read, questions = detect_numbers({"saldo": values}, ";")
    assert read.get("negative_numbers") == options.get("negative_numbers")
    assert {question.option: question.candidates for question in questions}.get("negative_numbers") == candidates


@pytest.mark.parametrize("codes", [["1.5-", "2.7-"], ["(1.234)", "(2.234)"]])
def test_separators_of_codes_do_not_count_beside_those_of_numbers(codes: list[str]):
    columns = {"code": codes, "more": codes, "amount": ["12,50", "3,75"]}
    options, questions = detect_numbers(columns, ";")
    assert options == {"decimal_separator": ","}
    assert [question.option for question in questions] == ["negative_numbers"]


def test_separators_of_plain_numbers_beside_values_that_may_be_codes_count():
    columns = {"m": ["3.5", "4.7", "5.2-"], "b": ["2,50", "3,75"]}
    _, questions = detect_numbers(columns, ";")
    asked = {question.option: question.candidates for question in questions}
    assert asked["decimal_separator"] == (".", ",")
    assert asked["negative_numbers"] == (None, "trailing")


def test_clear_negative_numbers_decide_over_marks_of_another_column():
    options, questions = detect_numbers({"betrag": ["1.234,50-", "17,00"], "mark": ["2-", "3"]}, ";")
    assert options["negative_numbers"] == "trailing"
    (question,) = (question for question in questions if question.option == "negative_numbers")
    assert question.candidates == ("trailing", None)
    assert question.reason == "mark may have negative numbers, or marks and codes"


def test_kind_of_clear_negative_numbers_comes_before_that_of_marks():
    columns = {"betrag": ["12,50-", "17,00"], "code": ["(1)", "(2)", "(3)"]}
    options, questions = detect_numbers(columns, ";")
    (question,) = (question for question in questions if question.option == "negative_numbers")
    assert (options["negative_numbers"], question.candidates) == ("trailing", ("trailing", "brackets", None))
    assert "code may have negative numbers, or marks and codes" in question.reason


def test_marks_of_two_kinds_stay_texts_until_a_user_answers():
    options, questions = detect_numbers({"mark": ["2-", "3"], "code": ["(1)", "(2)"]}, ";")
    assert "negative_numbers" not in options
    assert questions[0].candidates == (None, "brackets", "trailing")


def test_separators_of_values_that_may_be_codes_count_if_no_number_has_any():
    options, _ = detect_numbers({"saldo": ["12,50-", "3,75-"], "id": ["1", "2"]}, ";")
    assert options == {"decimal_separator": ","}


@pytest.mark.parametrize(
    ("values", "option", "examples"),
    [
        (["a", "12,50-", "15,00"], "negative_numbers", ("12,50- is -12.50", "12,50- is a text")),
        (["1 to 5-", "1.234,50-", "17,00"], "negative_numbers", ("1.234,50- is -1234.50", "1.234,50- is a text")),
        (["(100)", "(200)"], "negative_numbers", ("(100) is a text", "(100) is -100")),
        (["(1.250)", "3.125-"], "negative_numbers", ("(1.250) is -1250", "3.125- is -3125", "(1.250) is a text")),
        (["1.234-", "2.345-"], "decimal_separator", ("1.234- is -1234", "1.234- is -1.234")),
    ],
)
def test_negative_numbers_are_examples(values: list[str], option: str, examples: tuple):
    options, questions = detect_numbers({"saldo": values[-2:]}, ";")
    question = next(question for question in questions if question.option == option)
    assert of_values(question, {"saldo": values}, options).examples == examples


@pytest.mark.parametrize(
    ("columns", "option", "examples"),
    [
        ({"d": ["31.12.24"], "n": ["1.234"]}, "decimal_separator", ("1.234 is 1234", "1.234 is 1.234")),
        ({"c": ["€ 2,50"], "a": ["3.5"], "b": ["2,50"]}, "decimal_separator", ("3.5 is 3.5", "3.5 is a text")),
        ({"d": ["31.12.24"], "n": ["1.234"]}, "thousands_separator", ("1.234 is 1234", "")),
        (
            {"a": ["1'234,5"], "b": ["1\u00a0234,5"]},
            "thousands_separator",
            ("1'234,5 is 1234.5", "1\u00a0234,5 is 1234.5"),
        ),
    ],
)
def test_examples_of_separators_are_numbers_as_a_load_reads_them(columns: dict, option: str, examples: tuple):
    _, questions, _ = value_questions(columns, ";")
    assert next(question.examples for question in questions if question.option == option) == examples


@pytest.mark.parametrize(
    ("columns", "examples"),
    [
        (
            {"a": ["31.12.2024"] * 3_000, "b": ["n/a", "31.12.24"]},
            {
                "%d.%m.%Y": "31.12.2024 is 31 December 2024",
                None: "31.12.24 is a text",
                "%d.%m.%y": "31.12.24 is 31 December 2024",
            },
        ),
        (
            {"a": ["2024-12-31"], "b": ["31.12.2024"]},
            {None: "31.12.2024 is a text", "%d.%m.%Y": "31.12.2024 is 31 December 2024"},
        ),
        (
            {"a": ["31.12.2024"], "nr": ["20241231"]},
            {
                "%d.%m.%Y": "31.12.2024 is 31 December 2024",
                None: "20241231 is a number",
                "%Y%m%d": "20241231 is 31 December 2024",
            },
        ),
    ],
)
def test_each_format_of_dates_has_an_example_that_it_reads(columns: dict, examples: dict):
    _, (question, *_), _ = value_questions(columns, ";")
    assert dict(zip(question.candidates, question.examples, strict=True)) == examples


@pytest.mark.parametrize(
    ("values", "is_american", "formats"),
    [
        (["01.02.2026"], False, ("%d.%m.%Y", "%m.%d.%Y")),
        (["01/02/2026"], True, ("%m/%d/%Y", "%d/%m/%Y")),
        (["01/02/2026"], False, ("%d/%m/%Y", "%m/%d/%Y")),
    ],
)
def test_day_or_month_is_asked_if_no_value_shows_it(values: list[str], is_american: bool, formats: tuple):
    options, questions = detect_time_formats({"a": values}, is_american=is_american)
    assert (options, questions[0].candidates) == ({"date_format": formats[0]}, formats)


def test_another_column_settles_the_order_of_day_and_month():
    columns = {"a": ["01/02/2026"], "b": ["25/12/2026 10:00"]}
    options, questions = detect_time_formats(columns, is_american=True)
    assert (options, questions) == ({"date_format": "%d/%m/%Y", "timestamp_format": "%d/%m/%Y %H:%M"}, [])


def test_order_of_day_and_month_between_other_signs_settles_nothing():
    columns = {"a": ["01.02.2026 10:00"], "b": ["12/25/2026"]}
    options, (question,) = detect_time_formats(columns, is_american=True)
    assert options == {"date_format": "%m/%d/%Y", "timestamp_format": "%d.%m.%Y %H:%M"}
    assert question.candidates == ("%d.%m.%Y %H:%M", "%m.%d.%Y %H:%M")


def test_truth_words_that_need_no_option_have_none():
    assert detect_truth_words({"a": ["yes", "No"]}) == ({}, [])
    assert detect_truth_words({"a": ["Ja", "nein"]})[0] == {"true_words": "ja", "false_words": "nein"}
    assert detect_truth_words({"a": ["J", "N"], "b": ["true", "false"]})[0] == {
        "true_words": "j, true",
        "false_words": "n, false",
    }


@pytest.mark.parametrize(
    "values", [["N", "S"], ["si", "no"], ["ON", "OFF"], ["J", "N"], ["Y", "N"], ["t", "f"], ["o", "n"]]
)
def test_words_that_may_be_codes_are_asked(values: list[str]):
    options, questions = detect_truth_words({"a": values})
    assert {question.option: question.candidates for question in questions} == {
        "true_words": (options["true_words"], None),
        "false_words": (options["false_words"], None),
    }


def test_words_of_two_languages_that_contradict_each_other_are_asked():
    options, questions = detect_truth_words({"a": ["ja", "nein"], "b": ["n", "o"], "c": ["s", "n"]})
    assert options["true_words"].startswith("ja")
    assert [question.option for question in questions] == ["true_words", "false_words"]


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ({"a": ["1.5", "NA", "2"]}, "NA"),
        ({"a": ["1.5", "NA", "2"], "b": ["x", "NA", "why"]}, "NA"),
        ({"a": ["2024-01-31", "NULL"]}, "NULL"),
        ({"a": ["ja", "NULL", "nein"]}, "NULL"),
        ({"a": ["17", "k.A."]}, "k.A."),
        ({"a": ["5:31", "--"]}, "--"),
        ({"a": ["106442", ".."]}, ".."),
        ({"a": ["x", "\\N", "why"]}, "\\N"),
        ({"a": ["AF", "NA", "DE"]}, None),
        ({"a": ["10.0.0.1", "unknown", "10.0.0.2"]}, None),
        ({"a": ["ann@example.org", "none"]}, None),
        ({"a": ["x", "-", "why"]}, None),
        ({"a": ["", "x"]}, None),
    ],
)
def test_word_for_no_value_is_that_among_typed_values(columns: dict, word: str | None):
    assert detect_null_string(columns) == ({"null_string": word} if word else {}, [])


@pytest.mark.parametrize(
    ("columns", "candidates"),
    [
        ({"a": ["5", "-", "7"]}, ("-", None)),
        ({"a": ["5", ".", "7"]}, (".", None)),
        ({"a": ["5.5", "NaN"]}, ("NaN", None)),
        ({"a": ["5", "NULL", "7"], "b": ["x", "\\N", "why"]}, ("NULL", "\\N", None)),
        ({"a": ["5", "NA"], "b": ["AF", "NA", "DE"]}, ("NA", None)),
        ({"a": ["5", "unknown"], "b": ["red", "unknown"]}, ("unknown", None)),
        ({"a": ["Ann", "NULL"]}, ("NULL", None)),
        ({"a": ["ja", "k.A.", "nein"]}, ("k.A.", None)),
        ({"a": [" Private", " ?"]}, (" ?", None)),
        ({"a": ["5", "NA"], "b": ["EMEA", "NA", "APAC"]}, ("NA", None)),
        ({"a": ["5", "None"], "b": ["Full", "None", "Partial"]}, ("None", None)),
        ({"a": ["Yes", "No", "N/A"]}, ("N/A", None)),
    ],
)
def test_word_for_no_value_that_may_be_a_value_is_asked(columns: dict, candidates: tuple):
    options, (question,) = detect_null_string(columns)
    assert (options, question.candidates) == ({"null_string": candidates[0]}, candidates)


def test_columns_with_a_word_for_no_value_keep_their_types():
    result = detected("id,born,ok,v\n1,NA,ja,1.5\n2,31.12.2024,NA,NA\n3,30.12.2024,nein,2.5\n")
    assert result.options == {
        "date_format": "%d.%m.%Y", "true_words": "ja", "false_words": "nein", "null_string": "NA",
    }  # fmt: skip
    assert [str(column.type) for column in result.columns] == ["integer", "date", "boolean", "float"]


@pytest.mark.parametrize(
    "values",
    [["J", "N"], ["31.12.24"], ["01.02.2024"], ["2-", "3"], ["12 enero 2026"]],
    ids=["words", "years", "days", "signs", "months"],
)
def test_more_than_three_columns_are_named_by_the_first_ones(values: list[str]):
    columns = dict.fromkeys("abcde", values)
    _, questions, unread = value_questions(columns)
    sentences = [question.reason for question in questions] or notes_of(unread)
    assert "a, b, c …" in sentences[-1]
    assert not any("d" in sentence.split("…")[0].split() for sentence in sentences)


# --- names


@pytest.mark.parametrize(
    ("name", "pattern", "short"),
    [
        ("kunden_2026-11-01.csv", "kunden_*.csv", "kunden"),
        ("in/kunden_20261101.csv.gz", "in/kunden_*.csv.gz", "kunden"),
        ("2026-11_sales.csv", "*_sales.csv", "sales"),
        ("orders-2026-11-01T1200-full.csv", "orders-*-full.csv", "orders_full"),
        ("orders_4711.csv", "", "orders_4711"),
        ("kunden.csv", "", "kunden"),
    ],
)
def test_dates_in_names_become_a_pattern(name: str, pattern: str, short: str):
    assert dated_name(name) == (pattern, short)


def test_names_of_columns_follow_one_rule():
    result = detected("KundenNr;Name;Straße;Umsatz €;PLZ\n1;a;b;2;3\n2;c;d;4;5\n")
    assert [column.target_name for column in result.columns] == ["kunden_nr", "name", "strasse", "umsatz", "plz"]


def test_likely_personal_columns_have_a_reason():
    assert "an e-mail address" in personal_reason("contact", ["ada@example.org", "bob@example.org"])
    assert "a name of a person" in personal_reason("Vorname", [])
    assert personal_reason("amount", ["1", "2"]) == ""


def test_module_is_pure_and_keeps_no_values():
    folder = Path(detect_csv.__code__.co_filename).parent
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.py")}
    assert not [name for name, text in texts.items() if "django" in text or "cache" in text]
