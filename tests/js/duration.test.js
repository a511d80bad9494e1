import assert from "node:assert/strict";
import { test } from "node:test";

import { spell } from "../../static/js/page/duration.js";

test("durations are spelled in their two largest units", () => {
  assert.equal(spell(59.9), "59 s");
  assert.equal(spell(61), "1 min 01 s");
  assert.equal(spell(3720), "1 h 02 min");
});
