// Where keys lead in the grid, what editors begin with and what a paste does.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
  chosenOption,
  columnOf,
  editorRows,
  indexAt,
  PAGE,
  problem,
  target,
  toggled,
} from "../../static/js/grid/cells.js";
import { isBlock, pasteAction, withoutLastBreak } from "../../static/js/grid/clipboard.js";

const PLAIN = [1, 1, 1, 1];
const COMPUTED = [1, 2, 1]; // its second cell covers columns 1 and 2

describe("columns", () => {
  test("cells after one that covers two columns are counted by column", () => {
    assert.equal(columnOf(COMPUTED, 2), 3);
    assert.equal(columnOf(PLAIN, 2), 2);
  });

  test("a column is found within a cell that covers it", () => {
    assert.deepEqual([0, 1, 2, 3].map((column) => indexAt(COMPUTED, column)), [0, 1, 1, 2]);
  });

  test("past the end it is the last cell", () => {
    assert.equal(indexAt(PLAIN, 99), 3);
  });
});

describe("keys", () => {
  const rows = [PLAIN, COMPUTED, PLAIN];
  const press = (row, index, key, command = false) =>
    target({ row, index }, key, command, rows.length, (number) => rows[number]);

  test("arrows keep the column over a line with wide cells", () => {
    assert.deepEqual(press(0, 2, "ArrowDown"), { row: 1, index: 1 });
    assert.deepEqual(press(0, 3, "ArrowDown"), { row: 1, index: 2 });
    assert.deepEqual(press(2, 3, "ArrowUp"), { row: 1, index: 2 });
  });

  test("the edges hold", () => {
    assert.deepEqual(press(0, 0, "ArrowUp"), { row: 0, index: 0 });
    assert.deepEqual(press(0, 0, "ArrowLeft"), { row: 0, index: 0 });
    assert.deepEqual(press(1, 2, "ArrowRight"), { row: 1, index: 2 });
    assert.deepEqual(press(2, 3, "ArrowDown"), { row: 2, index: 3 });
  });

  test("Home and End stay in the line, with Ctrl they go to the corners", () => {
    assert.deepEqual(press(1, 1, "Home"), { row: 1, index: 0 });
    assert.deepEqual(press(1, 1, "End"), { row: 1, index: 2 });
    assert.deepEqual(press(1, 1, "Home", true), { row: 0, index: 0 });
    assert.deepEqual(press(1, 1, "End", true), { row: 2, index: 3 });
  });

  test("Ctrl with an arrow goes to the end of the line or column", () => {
    assert.deepEqual(press(0, 1, "ArrowDown", true), { row: 2, index: 1 });
    assert.deepEqual(press(2, 1, "ArrowUp", true), { row: 0, index: 1 });
    assert.deepEqual(press(0, 1, "ArrowRight", true), { row: 0, index: 3 });
    assert.deepEqual(press(0, 1, "ArrowLeft", true), { row: 0, index: 0 });
  });

  test("a page is a fixed number of lines", () => {
    const page = (row, key) => target({ row, index: 0 }, key, false, 40, () => PLAIN).row;
    assert.equal(page(0, "PageDown"), PAGE);
    assert.equal(page(35, "PageDown"), 39);
    assert.equal(page(5, "PageUp"), 0);
  });

  test("other keys lead nowhere", () => {
    assert.equal(press(0, 0, "a"), null);
    assert.equal(press(0, 0, "Enter"), null);
  });
});

describe("editors", () => {
  const roles = ["attribute", "business key", "reference"];

  test("an option itself is taken", () => {
    assert.equal(chosenOption(roles, "reference", "attribute"), "reference");
  });

  test("a letter takes the first option that begins with it, in any case", () => {
    assert.equal(chosenOption(roles, "B", "attribute"), "business key");
  });

  test("anything else leaves the stored value, even if it is no option any more", () => {
    assert.equal(chosenOption(roles, "x", "attribute"), "attribute");
    assert.equal(chosenOption(roles, "", "former"), "former");
  });

  test("a text editor grows with lines and length up to twelve lines", () => {
    assert.equal(editorRows(""), 1);
    assert.equal(editorRows("a\nb\nc"), 3);
    assert.equal(editorRows("x".repeat(57)), 3);
    assert.equal(editorRows("\n".repeat(50)), 12);
  });

  test("Space switches yes and no", () => {
    assert.equal(toggled("yes"), "no");
    assert.equal(toggled("no"), "yes");
  });
});

test("a refused save says why, an unknown status its number", () => {
  assert.match(problem(404), /the column is gone/);
  assert.match(problem(500), /\(500\)/);
});

describe("clipboard", () => {
  const cell = { editable: "text", field: "description" };

  test("the line break at the end of a spreadsheet's cell is no second line", () => {
    assert.equal(withoutLastBreak("Kim\r\n"), "Kim");
    assert.equal(isBlock("Kim\n"), false);
    assert.equal(pasteAction("Kim\n", cell), "edit");
  });

  test("tabs and lines are a block", () => {
    assert.equal(pasteAction("a\tb", cell), "block");
    assert.equal(pasteAction("a\nb\n", cell), "block");
  });

  test("a name is not edited by a paste, so its text is a block", () => {
    assert.equal(pasteAction("icao", { editable: undefined, field: "name" }), "block");
  });

  test("a computed cell takes nothing", () => {
    assert.equal(pasteAction("icao", { editable: undefined, field: undefined }), "refuse");
  });
});
