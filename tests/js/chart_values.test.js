import assert from "node:assert/strict";
import { test } from "node:test";

import { scaled, shown } from "../../static/js/chart/values.js";

test("a number is shown in full, with its unit", () => {
  assert.equal(shown(28130, ""), "28,130");
  assert.equal(shown(6.417, "s"), "6.42 s");
  assert.equal(shown(null, "s"), "–");
});

test("an axis is scaled to thousands and millions", () => {
  assert.equal(scaled(0, ""), "0");
  assert.equal(scaled(2_500_000, ""), "2.5 M");
  assert.equal(scaled(1500, "bytes"), "1.5 kB");
  assert.equal(scaled(12, "h"), "12 h");
});
