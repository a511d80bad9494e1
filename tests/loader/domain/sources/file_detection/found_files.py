"""Files as programs and offices write them, with the options by which they are read."""

from dataclasses import dataclass, field
from typing import Any

from loader.domain.sources.file_detection.detect import detect_csv
from loader.domain.sources.file_detection.model import FileSample
from metadata.domain.sources.reading_options import check_options, options_of


@dataclass(frozen=True)
class Found:
    """Text of a file, its character set, the options by which it is read, and types of some of its columns.

    ``asks``: options that must be asked, since another reading of the same text is possible.
    """

    name: str
    text: str
    options: dict[str, Any] = field(default_factory=dict)
    codec: str = "utf-8"
    types: dict[str, str] = field(default_factory=dict)
    asks: tuple[str, ...] = ()

    @property
    def sample(self) -> FileSample:
        return FileSample(f"{self.name}.csv", self.text.encode(self.codec))

    def wrong(self) -> list[str]:
        """Return the faults of the detection: options and types that are neither as expected nor asked."""
        detected = detect_csv(self.sample)
        check_options("csv", detected.options)
        questions = {question.option: question.candidates for question in detected.questions}
        types = {column.name: str(column.type) for column in detected.columns}
        faults = [f"{name} is not asked" for name in self.asks if name not in questions]
        faults += [f"{name} is {types.get(name)}" for name, type_ in self.types.items() if types.get(name) != type_]
        for name in {*self.options, *detected.options}:
            expected, value = self.options.get(name), detected.options.get(name)
            default = options_of("csv")[name].default_of("csv")
            if expected != value and not {expected, default if expected is None else expected} & {
                *questions.get(name, ())
            }:
                faults.append(f"{name} is {value!r}")
        return faults


FILES = (
    Found(
        "german_bank",
        '"Auftragskonto";"Buchungstag";"Valutadatum";"Buchungstext";"Beguenstigter";"Betrag";"Waehrung"\r\n'
        '"DE12";"28.11.25";"28.11.25";"LASTSCHRIFT";"Müller GmbH";"-1.234,56";"EUR"\r\n'
        '"DE12";"27.11.25";"27.11.25";"GUTSCHRIFT";"Jäger & Söhne";"50,00";"EUR"\r\n',
        {"delimiter": ";", "decimal_separator": ",", "thousands_separator": ".", "encoding": "windows-1252"},
        "cp1252",
        {"Betrag": "decimal(18,2)", "Buchungstag": "string"},
        ("date_format", "first_year"),
    ),
    Found(
        "german_bank_with_account_lines",
        "Kontonummer:;DE02 1203 0000 0000 2020 51 / Girokonto;\n\nVon:;01.10.2025;\nBis:;31.10.2025;\n"
        "Kontostand vom 31.10.2025:;1.234,56 EUR;\n\n"
        "Buchungstag;Wertstellung;Buchungstext;Auftraggeber;Betrag (EUR)\n"
        "30.10.2025;30.10.2025;Lastschrift;Stadtwerke;-89,00\n28.10.2025;28.10.2025;Gutschrift;Firma;2.500,00\n",
        {"delimiter": ";", "skip_lines": 6, "decimal_separator": ",", "thousands_separator": ".",
         "date_format": "%d.%m.%Y"},
        types={"Buchungstag": "date", "Betrag (EUR)": "decimal(18,2)"},
    ),
    Found(
        "french_bank",
        "Date;Libellé;Débit euros;Crédit euros;\n"
        "31/10/2025;CARTE SUPERMARCHÉ;-45,20;;\n30/10/2025;VIREMENT SALAIRE;;2 345,67;\n"
        "29/10/2025;CHÈQUE;-1 200,00;;\n",
        {"delimiter": ";", "decimal_separator": ",", "thousands_separator": " ", "date_format": "%d/%m/%Y",
         "ignored_columns": "(column 5)", "encoding": "ISO-8859-15"},
        "iso-8859-15",
        {"Date": "date"},
    ),
    Found(
        "spanish_bank",
        "Fecha;Concepto;Importe;Saldo\n01/02/2025;Recibo luz;-45,20;1.200,00\n03/02/2025;Nómina;1.500,00;2.700,00\n"
        "05/02/2025;Cajero;-60,00;2.640,00\n",
        {"delimiter": ";", "decimal_separator": ",", "thousands_separator": ".", "date_format": "%d/%m/%Y"},
        asks=("date_format",),
    ),
    Found(
        "excel_with_sep_line",
        "sep=;\r\nArtikel;Menge;Preis\r\nSchraube;100;0,05\r\nMutter;200;0,07\r\n",
        {"delimiter": ";", "skip_lines": 1, "decimal_separator": ","},
    ),
    Found(
        "sap_list",
        "|Material|Bezeichnung     |Bestand     |Wert        |\n"
        "|4711    |Pumpe           |   1.234,000|    99,00-  |\n"
        "|4712    |Ventil          |      12,500|    15,50   |\n",
        {"delimiter": "|", "decimal_separator": ",", "thousands_separator": ".",
         "negative_numbers": "trailing", "ignored_columns": "(column 1), (column 6)"},
        asks=("ignored_columns", "negative_numbers"),
    ),
    Found(
        "government_with_title_and_footnotes",
        "Bevölkerung nach Ländern;;;\nStichtag 31.12.2023;;;\n;;;\nLand;Männlich;Weiblich;Insgesamt\n"
        "Bayern;6.600.123;6.700.456;13.300.579\nHessen;3.100.100;3.200.200;6.300.300\n"
        "Deutschland;41.000.000;42.000.000;83.000.000\n"
        ";;;\n1) Vorläufiges Ergebnis;;;\n© Statistisches Bundesamt, 2024;;;\n",
        {"delimiter": ";", "skip_lines": 3, "footer_lines": 2, "thousands_separator": ".", "decimal_separator": ","},
        types={"Männlich": "integer"},
    ),
    Found(
        "destatis_table",
        "GENESIS-Tabelle: 12411-0001\nBevölkerung: Deutschland, Stichtag;;\nFortschreibung des Bevölkerungsstandes;;\n"
        "Deutschland\nStichtag;Bevölkerungsstand\n;Anzahl\n31.12.2021;83237124\n31.12.2022;84358845\n31.12.2023;83456045\n31.12.2024;83577140\n"
        "__________\nBevölkerung zum 31.12.\nHinweise siehe Metadaten\n(C)opyright Statistisches Bundesamt\n",
        {"delimiter": ";", "skip_lines": 4, "header_lines": 2, "footer_lines": 4, "date_format": "%d.%m.%Y"},
    ),
    Found(
        "world_bank",
        '"Data Source","World Development Indicators",\n\n"Last Updated Date","2024-05-30",\n\n'
        '"Country Name","Country Code","Indicator Name","2019","2020","2021",\n'
        '"Aruba","ABW","Population","106442","106585","106537",\n"Angola","AGO","Population","32353588","33428486","",\n'
        '"Chad","TCD","Population","16126866","","",\n',
        {"skip_lines": 4, "ignored_columns": "(column 7)"},
        types={"2019": "integer", "2021": "integer"},
    ),
    Found(
        "years_as_names",
        "2021;2022;2023\n10;20;30\n11;21;31\n",
        {"delimiter": ";"},
        asks=("header",),
    ),
    Found(
        "sensor_log_with_comments",
        "# station: 17\n# units: degC\n# firmware 1.2, build 3\ntimestamp,temp,hum\n"
        "2025-01-01T00:00:00Z,1.5,80\n2025-01-01T00:10:00Z,1.25,81\n",
        {"skip_lines": 3},
        types={"timestamp": "timestamp", "temp": "float"},
    ),
    Found(
        "sensor_log_epoch_seconds",
        "ts;value;state\n1735689600;1.5;ON\n1735689660;2.25;OFF\n",
        {"delimiter": ";"},
        types={"ts": "bigint"},
        asks=("true_words",),
    ),
    Found(
        "stata_export",
        "id\tsex\tincome\tmarried\n1\tmale\t1200.50\t0\n2\tfemale\t.\t1\n3\tfemale\t800.25\t.\n",
        {"delimiter": "\t"},
        types={"id": "integer"},
    ),
    Found(
        "sas_export",
        "SUBJID,VISITDT,DOSE\n001,12MAR2024,10.5\n002,14APR2024,11.25\n",
        {"date_format": "%d%b%Y"},
        types={"SUBJID": "string", "VISITDT": "date"},
    ),
    Found(
        "tab_with_comment_header",
        "##gff-version 3\n#seqid\tsource\ttype\tstart\tend\nchr1\thavana\tgene\t11869\t14409\n"
        "chr1\thavana\texon\t11870\t12227\n",
        {"delimiter": "\t", "skip_lines": 1},
        types={"start": "integer"},
    ),
    Found(
        "pipes_with_trailing_pipe",
        "ID|NAME|BALANCE|\n1|Smith|10.50|\n2|Jones|20.75|\n",
        {"delimiter": "|", "ignored_columns": "(column 4)"},
        types={"BALANCE": "decimal(18,2)"},
    ),
    Found(
        "pipes_trailing_only_in_records",
        "ID|NAME|BALANCE\n1|Smith|10.50|\n2|Jones|20.75|\n",
        {"delimiter": "|"},
        types={"BALANCE": "decimal(18,2)"},
    ),
    Found(
        "polish",
        "Imię;Nazwisko;Miasto;Kwota\nŁukasz;Świątek;Łódź;1 234,50\nMałgorzata;Żółkiewska;Gdańsk;99,00\n"
        "Grażyna;Kołodziej;Poznań;15,20\n",
        {"delimiter": ";", "encoding": "windows-1250", "decimal_separator": ",", "thousands_separator": " "},
        "cp1250",
    ),
    Found(
        "russian",
        "Дата;Контрагент;Сумма\n31.12.2024;ООО «Ромашка»;1 234,50\n15.01.2025;ИП Иванов;99,00\n",
        {"delimiter": ";", "encoding": "windows-1251", "decimal_separator": ",", "thousands_separator": " ",
         "date_format": "%d.%m.%Y"},
        "cp1251",
    ),
    Found(
        "greek",
        "Κωδικός;Όνομα;Πόλη\n1;Γιώργος Παπαδόπουλος;Αθήνα\n2;Μαρία Νικολάου;Θεσσαλονίκη\n",
        {"delimiter": ";", "encoding": "windows-1253"},
        "cp1253",
    ),
    Found(
        "turkish",
        "Sıra;Adı;Şehir;Tutar\n1;Çağrı Yılmaz;İstanbul;1.234,50\n2;Güneş Öztürk;Muğla;99,00\n",
        {"delimiter": ";", "encoding": "windows-1254", "decimal_separator": ",", "thousands_separator": "."},
        "cp1254",
    ),
    Found(
        "japanese",
        "番号,氏名,都道府県,金額\n1,田中さくら,東京都,1200\n2,鈴木ひろし,大阪府,900\n",
        {"encoding": "Shift_JIS"},
        "shift_jis",
        {"金額": "integer"},
    ),
    Found(
        "chinese",
        "编号,姓名,城市,日期\n1,王伟,北京市,2024/01/31\n2,李娜,上海市浦东新区,2024/02/01\n",
        {"encoding": "GB18030", "date_format": "%Y/%m/%d"},
        "gb18030",
    ),
    Found("utf16_with_mark", "id\tName\n1\tÄpfel\n2\tBirnen\n", {"encoding": "UTF-16", "delimiter": "\t"}, "utf-16"),
    Found("utf16_without_mark", "id\tName\n1\tÄpfel\n2\tBirnen\n", {"encoding": "UTF-16LE", "delimiter": "\t"},
          "utf-16-le"),
    Found(
        "utf16_cyrillic_without_mark",
        "имя\tгород\nИван\tМосква\nОльга\tТверь\n",
        {"encoding": "UTF-16LE", "delimiter": "\t"},
        "utf-16-le",
        asks=("header",),
    ),
    Found(
        "no_break_spaces",
        "Ville;Habitants\nParis;2\u00a0145\u00a0906\nLyon;522\u00a0250\nNice;348\u00a0085\n",
        {"delimiter": ";", "thousands_separator": " "},
        types={"Habitants": "integer"},
    ),
    Found(
        "narrow_no_break_spaces",
        "Commune;Surface;Prix\nA;1\u202f200,5;10,0\nB;950,0;20,5\n",
        {"delimiter": ";", "thousands_separator": " ", "decimal_separator": ","},
    ),
    Found(
        "swiss_apostrophes",
        "Gemeinde;Einwohner;Fläche\nZürich;421'878;91.88\nGenf;203'856;15.93\n",
        {"delimiter": ";", "thousands_separator": "'"},
        types={"Einwohner": "integer"},
    ),
    Found(
        "negative_in_parentheses",
        "Account,Q1,Q2\nSales,\"1,200.50\",\"1,300.75\"\nCosts,\"(900.10)\",\"(850.20)\"\n",
        {"thousands_separator": ",", "negative_numbers": "brackets"},
        types={"Q1": "decimal(18,2)"},
        asks=("negative_numbers",),
    ),
    Found(
        "trailing_minus",
        "Konto;Saldo\n1000;12,50-\n1001;15,00\n",
        {"delimiter": ";", "decimal_separator": ",", "negative_numbers": "trailing"},
        types={"Saldo": "decimal(18,2)"},
        asks=("negative_numbers",),
    ),
    Found(
        "minus_with_a_blank",
        "Datum;Zweck;Betrag;Saldo\n31.01.2024;Miete;- 650,00;1.200,00\n30.01.2024;Lohn;2.500,00;1.850,00\n"
        "28.01.2024;Kaffee;- 5,00;- 650,00\n",
        {"delimiter": ";", "decimal_separator": ",", "thousands_separator": ".", "negative_numbers": "spaced",
         "date_format": "%d.%m.%Y"},
        types={"Betrag": "decimal(18,2)", "Saldo": "decimal(18,2)"},
        asks=("negative_numbers",),
    ),
    Found("currency_and_percent", "Item,Price,Rate\nA,$1.50,5%\nB,$2.75,7%\n", {}, types={"Price": "string"}),
    Found(
        "short_dates",
        "Tag;Wert\n1.2.24;5\n13.11.24;6\n",
        {"delimiter": ";"},
        types={"Tag": "string"},
        asks=("date_format", "first_year"),
    ),
    Found(
        "compact_dates",
        "DATE;AMT\n20240131;5\n20240201;6\n",
        {"delimiter": ";", "date_format": "%Y%m%d"},
        types={"DATE": "date"},
        asks=("date_format",),
    ),
    Found(
        "compact_dates_day_first",
        "Belegdatum;Konto\n31012024;1200\n28022024;1400\n",
        {"delimiter": ";", "date_format": "%d%m%Y"},
        asks=("date_format",),
    ),
    Found(
        "month_names",
        "Date,Close\n\"Jan 31, 2024\",10.5\n\"Feb 01, 2024\",11.25\n",
        {"date_format": "%b %d, %Y"},
        types={"Date": "date"},
    ),
    Found(
        "may_is_a_short_and_a_long_name",
        "when,v\n12-May-2024,1\n13-May-2024,2\n",
        {"date_format": "%d-%b-%Y"},
        asks=("date_format",),
    ),
    Found("iso_weeks", "week;sales\n2024-W01;10\n2024-W02;12\n", {"delimiter": ";"}, types={"week": "string"}),
    Found(
        "times_with_am_pm",
        "when,v\n1/31/2024 1:05 PM,1\n2/1/2024 11:30 AM,2\n",
        {"timestamp_format": "%-m/%-d/%Y %-I:%M %p"},
        types={"when": "timestamp"},
    ),
    Found(
        "quoted_line_breaks",
        'id,address,n\n1,"Main Street 1\nBerlin",5\n2,"Side Street 2\r\nHamburg\n",6\n3,"x",7\n',
        types={"n": "integer"},
    ),
    Found(
        "units_below_names",
        "Zeit;Temperatur;Druck\n;°C;hPa\n2024-01-01;1,5;1013\n2024-01-02;2,5;1012\n",
        {"delimiter": ";", "header_lines": 2, "decimal_separator": ","},
    ),
    Found(
        "first_record_without_numbers",
        "name,city,amount,paid\nHans,Berlin,,\nFranz,Wien,3,2024-01-01\nAnna,Rom,4,2024-01-02\n",
        types={"amount": "integer", "paid": "date"},
    ),
    Found(
        "first_records_without_the_only_date",
        "name,city,left\nHans,Berlin,\nFranz,Wien,\nAnna,Rom,\nIda,Oslo,\nEva,Genf,\nUte,Ulm,\nPaul,Bonn,2024-01-01\n"
        "Kai,Köln,2024-01-02\n",
        types={"left": "date"},
    ),
    Found(
        "first_record_with_a_name_only",
        "name;a;b;c\nHans;;;\nFranz;1;2;3\nAnna;4;5;6\n",
        {"delimiter": ";"},
        types={"a": "integer"},
    ),
    Found(
        "no_header_first_record_with_a_name_only",
        "Hans;;;\nFranz;1;2;3\nAnna;4;5;6\n",
        {"delimiter": ";", "header": False},
        asks=("header",),
    ),
    Found(
        "total_as_a_name",
        "company;country;revenue\nShell;GB;100\nBP;GB;90\nTotal;FR;95\n",
        {"delimiter": ";"},
        asks=("footer_lines",),
    ),
    Found(
        "last_record_with_a_name_only",
        "name;a;b;c\nFranz;1;2;3\nAnna;4;5;6\nHans;;;\n",
        {"delimiter": ";"},
        asks=("footer_lines",),
    ),
    Found(
        "sum_at_the_end",
        "Nr;Name;Betrag\n1;A;10,50\n2;B;20,25\nSumme;;30,75\n",
        {"delimiter": ";", "decimal_separator": ",", "footer_lines": 1},
    ),
    Found("count_at_the_end", "id|v\n1|10\n2|20\n(2 rows)\n", {"delimiter": "|", "footer_lines": 1}),
    Found(
        "pandas_index",
        ",name,city\n0,Hans,Berlin\n1,Franz,Wien\n2,Anna,Rom\n",
        types={"(column 1)": "integer"},
    ),
    Found(
        "pandas_without_names",
        "0,1,2,3\n5.1,3.5,1.4,0.2\n4.9,3.0,1.4,0.2\n",
        {},
        asks=("header",),
    ),
    Found("numbers_only_without_header", "5.1,3.5,1.4,0.2\n4.9,3.0,1.4,0.2\n4.7,3.2,1.3,0.2\n", {"header": False}),
    Found(
        "years_and_a_sum_as_names",
        "ID;2021;2022;2023;Total\n1;10;20;30;60\n2;11;21;31;63\n",
        {"delimiter": ";"},
    ),
    Found(
        "numbers_like_1.234",
        "Stadt;Einwohner\nUlm;126.790\nHof;45.173\nJena;111.343\n",
        {"delimiter": ";", "thousands_separator": ".", "decimal_separator": ","},
        asks=("thousands_separator", "decimal_separator"),
    ),
    Found(
        "numbers_like_1.234_beside_coordinates",
        "Stadt;Breite;Einwohner\nUlm;48.4;126.790\nHof;50.31;45.173\n",
        {"delimiter": ";"},
        asks=("thousands_separator",),
    ),
    Found(
        "north_and_south",
        "station,hemisphere,v\n1,N,5\n2,S,6\n3,N,7\n",
        {},
        asks=("true_words",),
    ),
    Found("yes_letters", "id,active\n1,Y\n2,N\n", {}, asks=("true_words",)),
    Found("magic_word", "ORCHESTRA,CITY,N\nA,Berlin,5\nB,Wien,6\n", types={"N": "integer"}),
    Found("finance_with_angles", "<TICKER>,<DATE>,<CLOSE>\nABC,20240131,10.5\nABC,20240201,11.25\n",
          {"date_format": "%Y%m%d"}),
    Found(
        "names_of_three_lines",
        "Jahr;Einnahmen;;Ausgaben;\n;Bund;Land;Bund;Land\n;Mio;Mio;Mio;Mio\n2021;1,5;2,5;3,5;4,5\n2022;1,6;2,6;3,6;4,6\n",
        {"delimiter": ";", "header_lines": 3, "decimal_separator": ","},
    ),
    Found(
        "repeated_header",
        "city;country\nWien;AT\nRom;IT\ncity;country\nUlm;DE\n",
        {"delimiter": ";"},
        asks=("header",),
    ),
    Found(
        "texts_without_header",
        "Kansas City;Bob\nOslo;Ann\nRom;Kim\n",
        {"delimiter": ";", "header": False},
        asks=("header",),
    ),
    Found("one_column", "email\na@example.org\nb@example.org\n", {}),
    Found("header_only", "id;name;amount\n", {"delimiter": ";"}),
    Found(
        "ragged_last_record",
        "id;name;amount\n1;A;10\n2;B;20\n3;C\n",
        {"delimiter": ";"},
    ),
    Found(
        "metadata_line_of_full_width",
        "ACME;17;2024\nNr;Name;Betrag\n1;A;10,5\n2;B;20,5\n",
        {"delimiter": ";", "skip_lines": 1, "decimal_separator": ","},
        asks=("skip_lines",),
    ),
    Found(
        "datev",
        '"EXTF";700;21;"Buchungsstapel";12;20240131103000;;"RE";"";"";1001;1;20240101;4;20240101;20240131;"";"";1\n'
        "Umsatz;Soll/Haben-Kennzeichen;WKZ;Kurs;Konto;Gegenkonto;Belegdatum;Belegfeld\n"
        '100,50;"S";"EUR";;1200;8400;3101;"R1"\n200,75;"H";"EUR";;1200;8400;3001;"R2"\n99,00;"S";"EUR";;1200;8400;2901;"R3"\n',
        {"delimiter": ";", "skip_lines": 1, "decimal_separator": ","},
    ),
    Found(
        "remarks_that_are_short_records",
        "Bezirk;Quote;Stand\nMitte;5,5;2024\nPankow;6,5;2024\nReinickendorf;7,25;2024\n\nQuelle: Amt für Statistik\n",
        {"delimiter": ";", "decimal_separator": ",", "footer_lines": 2},
    ),
    Found(
        "header_with_a_column_without_name",
        "id;name;;status;amount\n1;A;x;neu;10\n2;B;y;alt;20\n3;C;z;neu;30\n",
        {"delimiter": ";"},
        types={"amount": "integer", "(column 3)": "string"},
    ),
    Found(
        "record_with_an_unknown_number_below_a_header_with_a_gap",
        "code;name;;amount\nx1;Hans;note;keine Angabe\nx2;Franz;;12\nx3;Anna;;13\n",
        {"delimiter": ";"},
        asks=("header_lines",),
    ),
    Found(
        "columns_of_months",
        "Station;1;2;3;4;5;6;7;8;9;10;11;12\nA;10,5;11,5;12;13;14;15;16;17;18;19;20;21\nB;9,5;8;7;6;5;4;3;2;1;0;1,5;2\n",
        {"delimiter": ";", "decimal_separator": ","},
    ),
    Found(
        "eurostat_tsv",
        "freq,geo\\TIME_PERIOD\t2021 \t2022 \t2023 \nA,DE\t83155031 \t83237124 \t84358845 p\n"
        "A,FR\t67656682 \t67871925 \t: \n",
        {"delimiter": "\t"},
    ),
    Found(
        "oecd_quoted",
        '"LOCATION","INDICATOR","TIME","Value","Flag Codes"\n"AUS","GDP","2019",1.25,\n"AUT","GDP","2019",2.5,"E"\n',
        types={"Value": "float", "TIME": "integer"},
    ),
    Found(
        "gtfs_stop_times",
        "trip_id,arrival_time,stop_id,stop_sequence\n1,08:05:00,100,1\n1,25:10:00,101,2\n",
        types={"arrival_time": "string", "stop_sequence": "integer"},
    ),
    Found(
        "web_log",
        "10.0.0.1 - - [31/Jan/2024:10:00:00 +0000] GET / 200\n10.0.0.2 - - [31/Jan/2024:10:00:01 +0000] GET /a 404\n",
        {"delimiter": " ", "header": False},
        asks=("delimiter",),
    ),
    Found(
        "iso_timestamps_with_zone",
        "id;created\n1;2024-01-31T10:00:00+01:00\n2;2024-01-31T10:00:01+01:00\n",
        {"delimiter": ";"},
        types={"created": "timestamp"},
    ),
    Found(
        "timestamps_with_fractions",
        "id;created\n1;31.01.2024 10:00:00,123\n2;31.01.2024 10:00:01,456\n",
        {"delimiter": ";", "timestamp_format": "%d.%m.%Y %H:%M:%S,%f"},
        types={"created": "timestamp"},
    ),
    Found(
        "dates_of_two_orders",
        "a;b\n13.01.2024;01/31/2024\n14.01.2024;02/28/2024\n",
        {"delimiter": ";", "date_format": "%d.%m.%Y"},
        asks=("date_format",),
    ),
    Found(
        "leading_zeros",
        "plz;vorwahl;nummer\n01067;0351;1\n10115;030;2\n",
        {"delimiter": ";"},
        types={"plz": "string", "vorwahl": "string"},
    ),
    Found(
        "codes_like_decimals",
        "nace;name;umsatz\n01.11;Getreide;1.234\n62.01;Software;5.678\n",
        {"delimiter": ";", "thousands_separator": ".", "decimal_separator": ","},
        asks=("thousands_separator",),
    ),
    Found(
        "spaces_after_delimiters",
        'name, city, n\n"Hans", "Berlin", 1\n"Franz", "Wien", 2\n',
        {"quotes_inside": "keep"},
        asks=("quotes_inside",),
    ),
    Found(
        "semicolons_within_values",
        "id,tags,n\n1,a;b;c,5\n2,d;e;f,6\n3,g;h;i,7\n",
        types={"n": "integer"},
    ),
    Found(
        "decimal_comma_between_commas",
        'id,amount,name\n1,"1,50",A\n2,"2,75",B\n',
        {"decimal_separator": ","},
        types={"amount": "decimal(18,2)"},
    ),
    Found(
        "tilde",
        "id~name~v\n1~A~5\n2~B~6\n",
        {"delimiter": "~"},
    ),
    Found(
        "old_mac_line_ends",
        "id;name;v\r1;A;5\r2;B;6\r",
        {"delimiter": ";"},
        types={"v": "integer"},
    ),
    Found(
        "carriage_return_within_a_field",
        "id;name;v\n1;\"A\rB\";5\n2;C;6\n",
        {"delimiter": ";"},
        types={"v": "integer"},
    ),
    Found(
        "tabs_and_blank_lines_at_the_end",
        "id\tname\tv\n1\tA\t5\n2\tB\t6\n\t\t\n   \n\n",
        {"delimiter": "\t"},
        types={"v": "integer"},
    ),
    Found(
        "apostrophe_quotes",
        "id,name,v\n1,'A, B',5\n2,'C, D',6\n",
        {"quote": "'"},
    ),
    Found(
        "salesforce_export",
        '"Account Name","Billing City","Amount","Close Date"\n"Acme","Paris","1500.00","1/31/2024"\n'
        '"Globex","Rome","200.50","2/15/2024"\n"Grand Totals (2 records)","","1700.50",""\n'
        '"Confidential Information - Do Not Distribute"\n"Copyright (c) 2000-2024 salesforce.com, inc."\n',
        {"footer_lines": 2, "date_format": "%-m/%-d/%Y"},
        asks=("footer_lines",),
    ),
    Found(
        "sql_plus",
        "ID|NAME|V\n--|----|-\n1|A|5\n2|B|6\n\n2 rows selected.\n",
        {"delimiter": "|", "footer_lines": 2, "header_lines": 1},
        asks=("header_lines",),
    ),
    Found(
        "temperatures_with_three_decimals",
        "time,temp\n2024-01-01,21.125\n2024-01-02,20.875\n2024-01-03,0.5\n",
        types={"temp": "float"},
    ),
    Found(
        "danish",
        "Navn;By;Beløb;Dato\nSøren Ærø;København;1.234,50;31-12-2024\nÅse;Århus;99,00;15-01-2025\n",
        {"delimiter": ";", "encoding": "windows-1252", "decimal_separator": ",", "thousands_separator": ".",
         "date_format": "%d-%m-%Y"},
        "cp1252",
    ),
    Found(
        "czech",
        "Jméno;Město;Částka\nJiří Dvořák;Plzeň;1\u00a0234,50\nŠárka Žáčková;České Budějovice;99,00\n",
        {"delimiter": ";", "encoding": "windows-1250", "decimal_separator": ",", "thousands_separator": " "},
        "cp1250",
    ),
    Found(
        "one_umlaut",
        "id;ort\n1;Köln\n2;Bonn\n",
        {"delimiter": ";", "encoding": "windows-1252"},
        "cp1252",
        asks=("encoding",),
    ),
    Found(
        "korean",
        "번호,이름,도시\n1,김철수,서울\n2,이영희,부산광역시\n",
        {"encoding": "EUC-KR"},
        "euc_kr",
    ),
    Found(
        "big5",
        "編號,姓名,城市\n1,王小明,台北市\n2,李小華,高雄市\n",
        {"encoding": "Big5"},
        "big5",
    ),
    Found("japanese_shifts", "番号,氏名\n1,田中\n2,鈴木\n", {"encoding": "ISO-2022-JP"}, "iso2022_jp"),
    Found("utf32_with_mark", "id,name\n1,A\n2,B\n", {"encoding": "UTF-32"}, "utf-32"),
    Found(
        "percent_and_plain",
        "Partei;Stimmen;Anteil\nA;12345;45,5 %\nB;6789;20,1 %\n",
        {"delimiter": ";"},
        types={"Stimmen": "integer", "Anteil": "string"},
    ),
    Found(
        "scientific",
        "x,y\n1.5e-3,2E+05\n2.5e-3,3E+05\n",
        types={"x": "float"},
    ),
    Found(
        "hours_as_names",
        "Datum;00:00;01:00;02:00\n01.01.2024;1,5;2,5;3,5\n31.01.2024;1,6;2,6;3,6\n",
        {"delimiter": ";", "decimal_separator": ",", "date_format": "%d.%m.%Y"},
    ),
    Found(
        "dates_as_names",
        "Land;01.01.2024;01.02.2024\nDE;5;6\nFR;7;8\n",
        {"delimiter": ";"},
    ),
    Found(
        "jhu_covid",
        "Province/State,Country/Region,Lat,Long,1/22/20,1/23/20\n,Afghanistan,33.93911,67.709953,0,0\n"
        ",Albania,41.1533,20.1683,0,1\nVictoria,Australia,-37.8136,144.9631,2,3\n",
        types={"1/23/20": "integer"},
    ),
    Found(
        "section_rows",
        "Konto;Text;Betrag\nAktiva;;\n1000;Kasse;10,50\n1200;Bank;20,25\nPassiva;;\n1700;Darlehen;30,75\n",
        {"delimiter": ";", "decimal_separator": ","},
    ),
    Found(
        "two_tables",
        "id;name;v\n1;A;5\n2;B;6\n\nkey;text;w\nx;C;7\ny;D;8\n",
        {"delimiter": ";"},
    ),
    Found("status_at_the_end_of_a_trailer", "H;20240131;ACME\nD;1;10.50\nD;2;20.75\nT;2;31.25\n", {"delimiter": ";"},
          asks=("header",)),
    Found("null_words", "id,v,w\n1,NULL,\\N\n2,5,x\n3,6,y\n", types={"w": "string"}),
    Found(
        "r_with_missing_values",
        '"","mpg","cyl","name"\n"1",21,6,"Mazda RX4"\n"2",22.8,4,"Datsun 710"\n"3",NA,8,"Hornet"\n',
        {"null_string": "NA"},
        types={"mpg": "float"},
    ),
    Found(
        "mysql_outfile",
        "1\tAnn\t2024-01-31\t\\N\n2\tBob\t2024-02-01\t3.50\n3\tCid\t\\N\t4.25\n",
        {"delimiter": "\t", "header": False, "null_string": "\\N"},
        types={"column_3": "date"},
    ),
    Found(
        "fred",
        "observation_date,UNRATE,GDPC1\n2023-01-01,3.4,20282.432\n2023-02-01,3.6,.\n2023-03-01,3.5,.\n",
        {"null_string": "."},
        types={"GDPC1": "decimal(18,3)"},
        asks=("null_string",),
    ),
    Found(
        "garmin",
        'Activity Type,Date,Favorite,Title,Distance,Calories,Avg HR,Avg Pace\n'
        'Running,2024-01-31 07:00:12,false,"Berlin","10.02","650","150","5:31"\n'
        'Running,2024-01-28 09:10:12,false,"Long run","21.10","1,402","148","5:46"\n'
        'Cycling,2024-01-27 10:00:00,false,"Ride","40.50","980","--","--"\n',
        {"thousands_separator": ",", "null_string": "--"},
        types={"Avg HR": "integer", "Calories": "integer"},
    ),
    Found(
        "world_health_with_namibia",
        "Date_reported,Country_code,Country,New_cases\n2020-01-03,AF,Afghanistan,0\n2020-01-04,AL,Albania,\n"
        "2020-01-05,NA,Namibia,3\n",
        types={"Country_code": "string", "New_cases": "integer"},
    ),
    Found(
        "bank_with_more_account_lines_than_records",
        "Umsatzanzeige;Datei erstellt am: 31.01.2024 10:12\n\nIBAN;DE02 5001 0517 5407 3249 31\nKontoname;Girokonto\n"
        "Bank;ING\nKunde;Meier\nZeitraum;01.01.2024 - 31.01.2024\nSaldo;1.234,56;EUR\n\nSortierung;Datum absteigend\n\n"
        "Buchung;Valuta;Auftraggeber;Buchungstext;Saldo;Währung;Betrag;Währung\n"
        "30.01.2024;30.01.2024;REWE;Lastschrift;1.234,56;EUR;-45,67;EUR\n"
        "29.01.2024;29.01.2024;ACME;Gehalt;1.280,23;EUR;2.500,00;EUR\n",
        {"delimiter": ";", "skip_lines": 11, "decimal_separator": ",", "thousands_separator": ".",
         "date_format": "%d.%m.%Y", "repeated_names": "number"},
        types={"Betrag": "decimal(18,2)"},
    ),
    Found(
        "bundesbank_series_with_lines_about_them",
        '"";BBEX3.D.USD;BBEX3.D.USD_FLAGS\n"";"Reference rate";\nunit;USD;\nunit multiplier;one;\n'
        "last update;2024-01-31 15:58:02;\n2024-01-29;1,0823;\n2024-01-30;1,0846;\n2024-01-31;1,0837;\n"
        '2024-02-01;.;"No value available"\n',
        {"delimiter": ";", "header_lines": 5, "decimal_separator": ",", "null_string": "."},
        asks=("header_lines", "skip_lines", "null_string"),
    ),
    Found(
        "un_data_with_footnotes",
        '"Country or Area","Year(s)","Variant","Value"\n"Afghanistan","2020","Medium","38928.34"\n'
        '"Fiji","2021","Medium","902.91"\n"footnoteSeqID","Footnote"\n"1","The designations are no opinion."\n',
        {"footer_lines": 2},
        types={"Year(s)": "integer"},
        asks=("footer_lines",),
    ),
    Found(
        "prices_with_three_decimals_beside_others",
        "Date,Open,Adj Close\n2024-01-29,192.009995,190.936\n2024-01-30,190.940002,187.262\n",
        types={"Adj Close": "decimal(18,3)"},
    ),
    Found(
        "thousands_beside_percentages",
        'Page,Pageviews,Bounce Rate\n/home,"1,234",45.5%\n/about,321,60.1%\n/shop,"12,001",33.0%\n',
        {"thousands_separator": ","},
        types={"Pageviews": "integer"},
    ),
    Found(
        "swiss_bank_with_quoted_semicolons",
        "Kontonummer:;0230 00123456.01;\nIBAN:;CH93 0076 2011;\nVon:;2024-01-01;\nBis:;2024-01-31;\n"
        "Anfangssaldo:;1000.00;\nSchlusssaldo:;2451.20;\nBewertet in:;CHF;\n\n"
        "Abschlussdatum;Abschlusszeit;Währung;Belastung;Gutschrift;Saldo;Beschreibung\n"
        '2024-01-31;23:05:12;CHF;-48.80;;2451.20;"COOP-1234"\n'
        '2024-01-25;08:00:00;CHF;;1500.00;2500.00;"ACME AG; Lohn"\n',
        {"delimiter": ";", "skip_lines": 8},
        types={"Belastung": "decimal(18,2)"},
    ),
    Found(
        "hobo_logger_with_commas_in_names",
        '"Plot Title: Garden"\n"#","Date Time, GMT+01:00","Temp, °C"\n'
        "1,01/31/24 10:00:00 AM,21.5\n2,01/31/24 10:10:00 AM,21.6\n",
        {"skip_lines": 1},
        types={"Temp, °C": "float"},
        asks=("timestamp_format", "first_year"),
    ),
    Found(
        "years_that_span_columns",
        "Region;2022;;2023;\n;Umsatz;Gewinn;Umsatz;Gewinn\nNord;1200,5;100,25;1300,0;120,5\n"
        "Süd;900,0;80,5;950,75;90,0\n",
        {"delimiter": ";", "header_lines": 2, "decimal_separator": ","},
    ),
    Found(
        "nasa_with_stars",
        "Land-Ocean: Global Means\nYear,Jan,Feb,J-D\n1880,-.20,-.26,-.18\n1881,-.16,.02,-.09\n2024,1.24,1.43,***\n",
        {"skip_lines": 1, "null_string": "***"},
    ),
    Found(
        "first_record_with_a_field_too_few",
        "a1;Ann;2024-01-31;Fix\nb2;Bob;2024-02-01;Add test; refactor\nc3;Bob;2024-02-02;Do; undo\n",
        {"delimiter": ";", "header": False},
        asks=("skip_lines",),
    ),
    Found(
        "remarks_with_commas_in_one_column",
        "comment\nGood, but late\nFine\nNone\nSlow\n",
        asks=("delimiter",),
    ),
    Found(
        "page_number_at_the_end",
        "Kunde;Umsatz\nA;10,50\nB;20,25\nSeite 1 von 1\n",
        {"delimiter": ";", "decimal_separator": ",", "footer_lines": 1},
    ),
    Found(
        "table_of_markdown",
        "| id | name | amount |\n|----|:----:|-------:|\n| 1 | Ann | 10.50 |\n| 2 | Bob | 7.25 |\n",
        {"delimiter": "|", "header_lines": 2, "ignored_columns": "(column 1), (column 5)"},
        types={"id": "integer", "amount": "decimal(18,2)"},
        asks=("ignored_columns",),
    ),
)  # fmt: skip
