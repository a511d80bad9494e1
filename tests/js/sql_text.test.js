import assert from "node:assert/strict";
import { test } from "node:test";

import { shortened, statements, tablesNamed } from "../../static/js/page/sql_text.js";

test("statements end at semicolons outside of texts, names and comments", () => {
  const text = "SELECT ';' AS a; -- one; two\nSELECT `;` FROM s.t /* ; */";
  assert.deepEqual(
    statements(text).map((own) => own.trim()),
    ["SELECT ';' AS a", "-- one; two\nSELECT `;` FROM s.t /* ; */"],
  );
});

test("a statement keeps its line and column", () => {
  const [, second] = statements("SELECT 1;\n  SELECT 2;");
  assert.equal(second, "\n  SELECT 2");
});

test("a part of a text has its own statements, at their places", () => {
  const text = "SELECT 1;\nSELECT 2, 3";
  const from = text.indexOf("SELECT 2");
  assert.deepEqual(statements(text, from, from + 8), ["\nSELECT 2"]);
});

test("a part without a word is no statement", () => {
  assert.deepEqual(statements(";; -- nothing\n;"), []);
});

test("the label of a statement is one line of limited length", () => {
  assert.equal(shortened("\n\n SELECT a,\n  b -- c\nFROM s.t"), "SELECT a, b FROM s.t");
  assert.equal(shortened("SELECT icao, name FROM rawcore.rc_air_airport", 10), "SELECT ic…");
});

test("tables after FROM and JOIN have their aliases", () => {
  const text = "SELECT * FROM a.b AS x JOIN `c`.`d e` y ON 1 = 1 LEFT JOIN f.g WHERE -- FROM h.i\n 1 = 1";
  assert.deepEqual(tablesNamed(text), [
    { name: "a.b", alias: "x" },
    { name: "c.d e", alias: "y" },
    { name: "f.g", alias: "" },
  ]);
});
