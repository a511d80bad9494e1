// Clocks of pages: relative words, zones, and the exact time on hover.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ago, axisTimes, exact, minute, userZone } from "../../static/js/page/times.js";

const NOW = Date.parse("2026-11-26T12:00:00Z");
const back = (seconds) => ago(NOW - seconds * 1000, NOW, "UTC");

test("a time is told in the largest whole unit", () => {
  assert.equal(back(59), "just now");
  assert.equal(back(60), "1 minute ago");
  assert.equal(back(3599), "59 minutes ago");
  assert.equal(back(7200), "2 hours ago");
  assert.equal(back(86400 * 3 + 5), "3 days ago");
});

test("a time to come is told, too", () => {
  assert.equal(back(-30), "in a moment");
  assert.equal(back(-120), "in 2 minutes");
});

test("a time of more than 30 days ago is told as a date", () => {
  assert.equal(back(86400 * 30), "30 days ago");
  assert.equal(back(86400 * 31), "26 Oct 2026, 12:00:00 UTC");
});

test("a time is shown in the zone with summer and winter time", () => {
  assert.match(exact(Date.parse("2026-07-01T12:00:00Z"), "Europe/Berlin"), /1 Jul 2026, 14:00:00/);
  assert.match(exact(Date.parse("2026-12-01T12:00:00Z"), "Europe/Berlin"), /1 Dec 2026, 13:00:00/);
  assert.equal(minute(Date.parse("2026-11-01T23:30:00Z"), "Asia/Kolkata"), "2026-11-02 05:00");
});

test("the zone of the account counts, else the browser's", () => {
  const own = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  assert.equal(userZone({ dataset: { zone: "Asia/Tokyo" } }), "Asia/Tokyo");
  assert.equal(userZone({ dataset: { zone: "" } }), own);
  assert.equal(userZone({ dataset: { zone: "Mars/Olympus" } }), own);
});

test("the page shows relative words, lines of logs and times on hover in the user's zone", async (context) => {
  context.mock.timers.enable({ apis: ["Date", "setInterval"], now: NOW });
  const time = { dateTime: "2026-11-26T10:00:00Z", title: "", textContent: "" };
  const since = { dataset: { since: "2026-11-26T11:58:30Z" }, textContent: "" };
  const unread = { dateTime: "soon", title: "", textContent: "soon" };
  const line = { dateTime: "2026-11-26T10:00:05Z", title: "", textContent: "10:00:05", removeAttribute() {} };
  const zone = { textContent: "UTC" };
  const found = {
    "[data-since]": [since],
    "time[data-ago]": [time, unread],
    "time[data-clock]": [line, unread],
    "[data-zone-name]": [zone],
  };
  globalThis.document = {
    body: { dataset: { zone: "Asia/Tokyo" } },
    addEventListener() {},
    querySelectorAll: (selector) => found[selector],
  };
  await import("../../static/js/page/clock.js");
  assert.equal(time.textContent, "2 hours ago");
  assert.match(time.title, /26 Nov 2026, 19:00:00/);
  assert.equal(since.textContent, "1 min 30 s");
  assert.equal(unread.textContent, "soon");
  assert.equal(line.textContent, "19:00:05");
  assert.match(line.title, /26 Nov 2026, 19:00:05/);
  assert.equal(zone.textContent, "Asia/Tokyo");
  context.mock.timers.tick(3_600_000);
  assert.equal(time.textContent, "3 hours ago");
});

test("an axis has minutes with the date where a day begins, or dates, or months", () => {
  const at = (text) => Date.parse(text) / 1000;
  const ticks = [at("2026-11-26T22:00Z"), at("2026-11-26T22:30Z"), at("2026-11-26T23:00Z")];
  const inBerlin = ["23:00\n2026-11-26", "23:30", "00:00\n2026-11-27"];
  assert.deepEqual(axisTimes(ticks, 1800, "Europe/Berlin"), inBerlin);
  assert.deepEqual(axisTimes([at("2026-11-26T00:00Z")], 86400, "UTC"), ["2026-11-26"]);
  assert.deepEqual(axisTimes([at("2026-11-01T00:00Z")], 30 * 86400, "UTC"), ["2026-11"]);
});
