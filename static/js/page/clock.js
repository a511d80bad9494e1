// Clocks: <span data-since="ISO time"> shows how long ago that is, <time data-ago> the same in words, with the time in
// the user's zone on hover: the zone of the account, else the browser's.

import { spell } from "./duration.js";

const DAYS_IN_WORDS = 30;
const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
];
const words = new Intl.RelativeTimeFormat("en", { numeric: "always" });

function exact(instant) {
  const parts = { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" };
  const timeZone = document.body.dataset.zone || undefined;
  try {
    return new Intl.DateTimeFormat("en-GB", { ...parts, timeZone }).format(instant);
  } catch {
    // A zone that this browser does not know.
    return new Intl.DateTimeFormat("en-GB", parts).format(instant);
  }
}

function relative(instant) {
  const seconds = Math.round((instant - Date.now()) / 1000);
  const unit = UNITS.find(([, length]) => Math.abs(seconds) >= length);
  if (!unit) return seconds > 0 ? "in a moment" : "just now";
  return words.format(Math.trunc(seconds / unit[1]), unit[0]);
}

function show(element, instant) {
  const title = exact(instant);
  const isOld = Math.abs(Date.now() - instant) > DAYS_IN_WORDS * 86400 * 1000;
  const text = isOld ? title : relative(instant);
  if (element.title !== title) element.title = title;
  if (element.textContent !== text) element.textContent = text;
}

function tick() {
  document.querySelectorAll("[data-since]").forEach((element) => {
    const since = Date.parse(element.dataset.since);
    if (!isNaN(since)) element.textContent = spell(Math.max(0, (Date.now() - since) / 1000));
  });
  document.querySelectorAll("time[data-ago]").forEach((element) => {
    const instant = Date.parse(element.dateTime);
    if (!isNaN(instant)) show(element, instant);
  });
}

tick();
setInterval(tick, 1000);
document.addEventListener("htmx:afterSwap", tick);
