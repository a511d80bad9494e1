"""Detected layout of files: lines before and after the records, header, delimiters and quotes."""

import pytest

from loader.contract.refusals import Refusal
from loader.domain.sources.file_detection.detect import detect_csv
from loader.domain.sources.file_detection.model import Detected, FileSample
from tests.loader.domain.sources.file_detection.detected_text import detected


def questions_of(result: Detected) -> dict[str, tuple]:
    return {question.option: question.candidates for question in result.questions}


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


@pytest.mark.parametrize(
    ("end", "lines"),
    [
        (";;-----\n;;31,75\n", 2),
        (";;=====\nSumme;;31,75\n", 2),
        (";;_____\n\n;;31,75\n(3 Zeilen)\n", 4),
        ("-----------\nSumme;3;31,75\n-----------\n", 3),
        ("-----------\n", 1),
    ],
)
def test_total_below_a_drawn_line_is_no_record(end: str, lines: int):
    result = detected(f"Konto;Text;Betrag\n1000;Kasse;10,50\n1200;Bank;20,25\n1400;Post;1,00\n{end}")
    assert result.options == {"delimiter": ";", "footer_lines": lines, "decimal_separator": ","}
    assert (str(result.columns[2].type), result.questions) == ("decimal(18,2)", ())


@pytest.mark.parametrize("records", ["C;4,0\n", "C;4,0\n----;----\nD;5,0\n"])
def test_whole_records_below_a_drawn_line_are_left_out_only_if_confirmed(records: str):
    result = detected(f"name;amount\nA;1,5\nB;2,5\n----;----\n{records}")
    assert result.options == {"delimiter": ";", "decimal_separator": ","}
    assert questions_of(result)["footer_lines"][0] == 0


@pytest.mark.parametrize("sign", ["", "*"])
def test_last_numbers_without_a_key_are_left_out_only_if_confirmed(sign: str):
    result = detected(f"Konto;Text;Soll;Haben\n1000;Kasse;10;2\n1200;Bank;20;3\n{sign};;30;5\n")
    assert "footer_lines" not in result.options
    assert questions_of(result)["footer_lines"] == (0, 1)


def test_last_record_without_a_key_is_one_if_it_has_texts_of_its_own():
    assert "footer_lines" not in questions_of(detected("a;b;c;d\n1;x;1;2\n2;y;2;3\n;z;3;\n"))


def test_last_record_without_a_key_is_one_if_others_have_none_either():
    assert "footer_lines" not in questions_of(detected("a;b;c;d\n1;x;1;2\n;y;2;3\n;;3;4\n"))


def test_lines_of_another_width_below_a_blank_line_are_asked():
    result = detected("page,views,users\n/a,10,5\n/b,20,6\n\nday,views\n2024-01-01,12\n2024-01-02,18\n")
    assert questions_of(result)["footer_lines"][-1] == 4


def test_quote_that_is_not_closed_is_asked():
    assert questions_of(detected('a,b\n1,"2\n3,4\n5,6\n7,8\n'))["quote"] == ("", '"')


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("id,use,,\n,A,B,C\n1,A,,C\n2,,B,\n", ["id", "use A", "use B", "use C"]),
        ('"region";"year";\n"region";"2020";"2021"\n"a";1796460;1815278\n"b";894470;906876\n',
         ["region region", "year 2020", "year 2021"]),
    ],
)  # fmt: skip
def test_row_that_fills_the_gaps_of_a_header_likely_belongs_to_it(text: str, columns: list):
    result = detected(text)
    assert questions_of(result) == {"header_lines": (2, 1)}
    assert [column.name for column in result.columns] == columns


@pytest.mark.parametrize("first", ["0,1,2", "0,2021,5"])
def test_record_below_a_header_whose_first_name_is_missing_is_one(first: str):
    result = detected(f",a,b\n{first}\n1,5,9\n2,8,3\n")
    assert "header_lines" not in questions_of(result)


def test_lines_about_columns_above_a_series_are_asked():
    records = "".join(f"2024-01-{day},5.{day},4.{day}\n" for day in range(11, 19))
    result = detected(f'"Series","a","b"\n"Unit:","%","%"\n"Multiplier:","1","1"\n"Time","X","Y"\n{records}')
    assert questions_of(result) == {"header_lines": (4, 3, 2, 1), "skip_lines": (0, 1, 2, 3)}
    assert [str(column.type) for column in result.columns] == ["date", "decimal(18,2)", "decimal(18,2)"]


def test_lines_about_a_series_without_a_header_are_asked():
    records = "".join(f'"20{year}","{year}.5"\n' for year in range(10, 20))
    result = detected(f'"Title","Rate"\n"Unit","%"\n"Next release","14 February"\n"Notes",\n{records}')
    assert questions_of(result)["header"] == (True, False)
    assert 4 in questions_of(result)["skip_lines"]


def test_comments_above_a_header_are_no_part_of_it():
    result = detected("#group,false,true\n#datatype,string,double\n,host,_value\n,web1,1.5\n,web2,2.5\n")
    assert result.options == {"skip_lines": 2, "ignored_columns": "(column 1)"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("id,name,amount\n# units\n1,Ann,2.5\n2,Bob,3.5\n", ["id", "name", "amount"]),
        ("sign,price\n*ABC,n/a\nDEF,5.0\nGHI,6.5\n", ["sign", "price"]),
    ],
)
def test_comment_below_a_header_takes_it_no_names(text: str, names: list):
    result = detected(text)
    assert [column.name for column in result.columns] == names
    assert "header" not in result.options


def test_only_the_last_of_several_comments_may_be_the_header():
    result = detected("#Software: Web Server 10 x\n#Version: 1.0\n10:00:01 GET /a 200\n10:00:07 PUT /b 404\n")
    assert result.options == {"delimiter": " ", "skip_lines": 2, "header": False}
    assert "delimiter" in questions_of(result)


def test_first_line_with_a_date_may_be_about_the_file():
    result = detected("HDR|20240131|CUST|v2\n1001|Ann|Oslo|12.50\n1002|Bob|Bonn|7.25\n1003|Cid|Rome|9.00\n")
    assert questions_of(result) == {"header": (True, False), "skip_lines": (0, 1)}


def test_section_below_a_header_is_no_part_of_it():
    result = detected(",Jan,Feb,Total\nIncome,,,\nSales,1.5,2.5,4.0\nServices,1.0,1.5,2.5\n")
    assert (result.options, result.questions) == ({}, ())


def test_lines_drawn_around_few_records_do_not_hide_their_numbers():
    result = detected("a | n | v\n--|---|---\nA | 1 | 2.5\nB | 2 | 3.5\n--|---|---\nTotal | 3 | 6.0\n")
    assert result.options == {"delimiter": "|", "header_lines": 2, "footer_lines": 2}
    assert questions_of(result) == {"header_lines": (2, 1)}


def test_header_with_a_name_too_few_is_asked():
    result = detected('"mpg","cyl"\n"Mazda RX4",21.5,6\n"Datsun 710",22.8,4\n')
    assert result.options == {"skip_lines": 1, "header": False}
    assert questions_of(result) == {"header": (False, True), "skip_lines": (1, 0)}
    assert [str(column.type) for column in result.columns] == ["string", "float", "integer"]


@pytest.mark.parametrize("text", ["---;---\nAnn;10,54\nBob;38,47\n", "------\n1\n2\n3\n"])
def test_line_drawn_above_records_has_no_names(text: str):
    result = detected(text)
    assert (result.options["skip_lines"], result.options["header"]) == (1, False)
    assert questions_of(result) == {"header": (False, True), "skip_lines": (1, 0)}


@pytest.mark.parametrize("names", ["day,2022,city", "2021,2022,city"])
def test_line_drawn_below_names_of_which_some_are_years_is_part_of_the_header(names: str):
    day = "8197" if names.startswith("2021") else "2024-01-15"
    result = detected(f"{names}\n---,---,---\n{day},8196,Oslo\n{day},6636,Oslo\n")
    assert questions_of(result) == {"header_lines": (2, 1)}
    assert [column.name for column in result.columns] == names.split(",")
    assert str(result.columns[1].type) == "integer"


def test_line_drawn_below_the_only_record_has_no_names():
    result = detected("day;2021\n2024-12-10;8113\n-----;-----\n;99\n")
    assert result.options.get("skip_lines", 0) in questions_of(result).get("skip_lines", (0,))
    assert not any("--" in column.name for column in result.columns)


def test_signs_for_no_value_below_a_header_are_no_comments():
    result = detected("#id;price\n*;n/a\n--;n/a\n7;5.0\n8;6.5\n")
    assert [column.name for column in result.columns] == ["#id", "price"]


def test_years_above_other_numbers_are_names_in_any_language():
    result = detected("지역,항목,2022,2023\n전국,총인구수,51439038,51325329\n서울,총인구수,9428372,9386034\n")
    assert (result.options, result.questions) == ({}, ())


def test_text_after_a_closing_quote_is_asked():
    result = detected('id\ttitle\n1\t"Bar" none\n2\t"Giliap"\n')
    assert (result.options, questions_of(result)["quote"]) == ({"delimiter": "\t", "quote": ""}, ("", '"'))
    result = detected('id,title,n\n1,"Bar" none,3\n2,"Rome, Open City",4\n')
    assert (result.options, questions_of(result)["quote"]) == ({}, ('"', ""))


def test_quote_before_text_is_asked_once_among_other_quotes():
    result = detected(
        "\"x\" y;Total;n\nx;'q';20240131\n2024-01-31\n44,18,797;5;20240131\n::;m;'q'\n20240131;44,18,797;1"
    )
    assert [each.candidates for each in result.questions if each.option == "quote"] == [('"', "'", "")]


def test_quotes_of_fields_without_quotes_are_not_asked_twice():
    result = detected('id\ttitle\n1\t"Bar" none\n2\t5" disk\n3\tx\n')
    assert (result.options, list(questions_of(result))) == ({"delimiter": "\t", "quote": ""}, ["quote"])


@pytest.mark.parametrize(
    "text", ['a,b\n1,"x" \n2,"y"\n', 'a,b\n1,"say ""x"" y"\n2,"y"\n', '"a b" 1 "c"\n"d e" 2 "f"\n']
)
def test_quoted_fields_that_end_with_their_quote_are_not_asked(text: str):
    assert "quote" not in questions_of(detected(text))


def test_quotes_in_lines_before_the_header_are_not_asked():
    result = detected('##INFO=<ID=DP,Description="Depth">\n#CHROM\tPOS\n20\t14370\n21\t17330\n')
    assert (result.options, result.questions) == ({"delimiter": "\t", "skip_lines": 1}, ())


@pytest.mark.parametrize(
    "text",
    [
        "1::1193::5::978300760\n1::661::3::978302109\n",
        "1::Toy Story::Animation|Comedy\n2::Heat::Action|Crime\n3::M: I::Drama\n",
        "1~|~Ann~|~12.5\n2~|~Bob~|~7.25\n",
        "id|^|name\n1|^|Ann\n2|^|Bob\n",
    ],
)
def test_delimiter_of_several_characters_is_asked(text: str):
    result = detected(text)
    assert questions_of(result)["delimiter"][0] == result.options["delimiter"]
    assert "may separate the fields, but a delimiter is one character" in result.questions[0].reason


@pytest.mark.parametrize("text", ["id,type,n\n1,std::string,2\n2,std::map,3\n", "id;ip;n\n1;fe80::1;2\n2;fe80::2;3\n"])
def test_two_colons_within_values_are_no_delimiter(text: str):
    assert not detected(text).questions


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("0100124 Abbeville          2688  AL\n0100460 Adamsville         4522  AL\n", ","),
        ("        ID NAME           SALARY\n---------- ---------- ----------\n       101 Ann         2500\n"
         "       102 Bob          950\n", ","),
        ('18.0   8   307.0   12.0\t"dodge"\n15.0   8   350.0   11.5\t"buick"\n25.0   4   98.0    ?\t"ford"\n', "\t"),
        ("#YY  MM DD WDIR WSPD GST\n#yr  mo dy degT m/s  m/s\n"
         "2024 01 31 230  5.0  6.0\n2024 01 31  30 10.0   MM\n", " "),
    ],
    ids=["fixed", "sql_client", "first_column", "buoy"],
)  # fmt: skip
def test_delimiter_of_values_that_are_aligned_by_blanks_is_asked(text: str, delimiter: str):
    assert questions_of(detected(text))["delimiter"][0] == delimiter


def test_two_blanks_within_texts_are_no_alignment():
    assert not detected("id,text\n1,a  b\n2,c  d  e\n3,f\n").questions


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
