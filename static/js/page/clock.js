// Clocks: <span data-since="ISO time"> shows how long ago that is, <time data-ago> the same in words, with the time in
// the user's zone on hover. <time data-clock>, of a line of a log, has the time of day in that zone, and
// <span data-zone-name> the zone's name.

import { spell } from "./duration.js";
import { ago, exact, second, userZone } from "./times.js";

function show(element, instant) {
  const zone = userZone();
  const title = exact(instant, zone);
  const text = ago(instant, Date.now(), zone);
  if (element.title !== title) element.title = title;
  if (element.textContent !== text) element.textContent = text;
}

// Times of lines do not change, so each is written once.
function showClocks() {
  const zone = userZone();
  document.querySelectorAll("[data-zone-name]").forEach((element) => {
    if (element.textContent !== zone) element.textContent = zone;
  });
  document.querySelectorAll("time[data-clock]").forEach((element) => {
    const instant = Date.parse(element.dateTime);
    if (isNaN(instant)) return;
    element.textContent = second(instant, zone);
    element.title = exact(instant, zone);
    element.removeAttribute("data-clock");
  });
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
  showClocks();
}

tick();
setInterval(tick, 1000);
document.addEventListener("htmx:afterSwap", tick);
