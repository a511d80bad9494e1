"""Detected character sets of names and places of many languages: correct, or asked."""

import random

import pytest

from loader.domain.sources.file_detection.character_sets import detect_character_set

_WORDS = {
    "Müller Größe Straße Köln Österreich Übung Bäcker Zürich Äpfel": ("cp1252", "iso-8859-15", "cp850", "mac-roman"),
    "Hélène François Noël Évry Île Besançon Mâcon Théâtre Cœur Où": ("cp1252", "iso-8859-15"),
    "Muñoz Málaga Cádiz España José Ángel Córdoba Año": ("cp1252", "iso-8859-15", "cp850"),
    "São Conceição Março Coração Brasília Évora Guimarães": ("cp1252", "iso-8859-15"),
    "Malmö Göteborg Åsa Växjö Örebro Källa Ångström": ("cp1252", "iso-8859-15"),
    "Łódź Gdańsk Świętokrzyska Żółć Wałęsa Częstochowa": ("cp1250", "iso-8859-2", "cp852"),
    "Dvořák Plzeň Budějovice Šárka Žižka Říčany Ústí": ("cp1250", "iso-8859-2", "cp852"),
    "Győr Pécs Szőke Árpád Kovács Örs Tűz Üllő": ("cp1250", "iso-8859-2"),
    "Čakovec Šibenik Đurđica Ćosić Požega": ("cp1250", "iso-8859-2"),
    "Москва Иван Петров Тверь Щукин Юлия": ("cp1251", "koi8-r", "cp866", "iso-8859-5"),
    "Αθήνα Γιώργος Παπαδόπουλος Μαρία Νίκος": ("cp1253",),
    "Çağrı İstanbul Güneş Muğla Şahin Işık": ("cp1254",),
    "Šiauliai Žemaitė Panevėžys Ąžuolas Ūla Kęstutis": ("cp1257",),
    "القاهرة محمد أحمد الرياض": ("cp1256",),
    "ירושלים דוד משה": ("cp1255",),
    "กรุงเทพ สมชาย เชียงใหม่": ("tis-620",),
    "東京 大阪 田中さくら 鈴木ひろし カタカナ": ("shift_jis", "euc_jp"),
    "北京 上海市浦东新区 王伟 广州 深圳市": ("gb18030",),
    "台北市 高雄市 王小明 李小華 臺灣": ("big5",),
    "서울 부산광역시 김철수 이영희": ("euc_kr",),
}


def test_words_of_letters_beyond_ascii_do_not_hide_the_character_sets_of_the_others():
    text = "nr;miasto\n1;Żółć\n2;Kraków\n3;Łukasz\n4;Żółć\n"
    result = detect_character_set(text.encode("cp1250"))
    assert result.question is not None
    assert "windows-1250" in result.question.candidates


def test_sets_of_central_europe_are_asked_if_the_letters_of_the_language_differ_in_them():
    polish = "nr;miasto\n" + "1;Kraków\n2;Gdańsk\n3;Małgorzata\n4;Chęć\n5;Łódź Główna\n".replace("ź", "z") * 4
    result = detect_character_set(polish.encode("cp1250"))
    assert result.question is not None
    assert result.question.candidates[:2] == ("windows-1250", "ISO-8859-2")


@pytest.mark.parametrize("text", ["Probe;Wert µg/m³\nA;1,5\n", "Zeit;Temp °C\n1;2\n", "n;m²\n1;2\n"])
def test_signs_of_units_are_likely_western(text: str):
    result = detect_character_set(text.encode("cp1252"))
    assert result.name == "windows-1252"
    assert result.question is not None
    assert len(set(result.question.candidates)) == len(result.question.candidates)


@pytest.mark.parametrize(
    ("text", "codec"), [("id;s\n1;男\n2;女\n3;男\n", "GB18030"), ("id;t\n1;品\n2;数\n", "Shift_JIS")]
)
def test_characters_of_east_asia_that_are_alone_in_their_fields_are_offered(text: str, codec: str):
    result = detect_character_set(text.encode(codec))
    assert result.question is not None
    assert codec in result.question.candidates


def test_no_character_set_is_offered_twice():
    result = detect_character_set("jméno;město\n1;Šárka Žáčková\n".encode("iso8859-2"))
    assert result.question is not None
    assert len(set(result.question.candidates)) == len(result.question.candidates)


@pytest.mark.parametrize("count", [4, 40])
@pytest.mark.parametrize("words", _WORDS, ids=lambda words: words.split()[0])
def test_text_is_read_rightly_in_the_character_set_or_in_one_that_is_asked(words: str, count: int):
    chance = random.Random(count)
    places = [chance.choice(words.split()) for _ in range(count)]
    text = "id;name\n" + "".join(f"{number};{place}\n" for number, place in enumerate(places))
    for codec in _WORDS[words]:
        content = text.encode(codec)
        result = detect_character_set(content)
        candidates = (result.name, *(result.question.candidates if result.question else ()))
        assert text in [content.decode(name, "replace") for name in candidates], codec


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
