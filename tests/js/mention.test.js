// The user name that is being typed in a comment, and the text with the whole name.

import assert from "node:assert/strict";
import { test } from "node:test";

import { completed, mentionAt } from "../../static/js/page/mention.js";

test("a name begins with @ at the beginning of a word", () => {
  assert.deepEqual(mentionAt("ask @bo", 7), { start: 4, typed: "bo" });
  assert.deepEqual(mentionAt("(@", 2), { start: 1, typed: "" });
  assert.deepEqual(mentionAt("@ada.l", 6), { start: 0, typed: "ada.l" });
});

test("an address is no mention", () => {
  assert.equal(mentionAt("mail ada@example", 16), null);
});

test("behind a whole word there is nothing to complete", () => {
  assert.equal(mentionAt("@bob and", 8), null);
});

test("the name replaces what was typed, with one space behind it", () => {
  assert.deepEqual(completed("ask @bo why", 7, "bob"), { text: "ask @bob why", caret: 9 });
  assert.deepEqual(completed("ask @bo", 7, "bob"), { text: "ask @bob ", caret: 9 });
});
