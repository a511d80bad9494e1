// Times of schedules: choices as cron expressions, and back.

import assert from "node:assert/strict";
import { test } from "node:test";

import { choicesOf, cronOf } from "../../static/js/page/cron_times.js";

const CHOSEN = [
  ["0 * * * *", { repeat: "hour" }],
  ["30 6 * * *", { repeat: "week", at: "06:30", days: [0, 1, 2, 3, 4, 5, 6] }],
  ["30 6 * * 1-5", { repeat: "week", at: "06:30", days: [1, 2, 3, 4, 5] }],
  ["5 22 * * 0,3", { repeat: "week", at: "22:05", days: [3, 0] }],
  ["0 6 1 * *", { repeat: "month", at: "06:00", day: "1" }],
  ["0 22 L * *", { repeat: "month", at: "22:00", day: "L" }],
];

for (const [cron, choices] of CHOSEN) {
  test(`choices become the expression ${cron} and are read from it`, () => {
    assert.equal(cronOf(choices), cron);
    const read = choicesOf(cron);
    assert.equal(cronOf(read), cron);
    assert.equal(read.repeat, choices.repeat);
  });
}

test("Sunday may be written 7", () => {
  assert.deepEqual(choicesOf("0 6 * * 6,7").days, [6, 0]);
});

test("no day of the week means every day", () => {
  assert.equal(cronOf({ repeat: "week", at: "06:30", days: [] }), "30 6 * * *");
});

const WRITTEN = ["*/15 8-18 * * 1-5", "0 6 * * 1#1", "0 6 1 1 *", "0 6 1 * 1", "0 6 * * MON", "0 6 * *", "0 6 40 * *"];

for (const cron of WRITTEN) {
  test(`the expression "${cron}" is left as cron`, () => {
    assert.equal(choicesOf(cron), null);
  });
}
