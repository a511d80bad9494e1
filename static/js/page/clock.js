// Clocks: <span data-since="ISO time"> shows how long ago that is, <time data-ago> the same in words, with the time in
// the user's zone on hover.

import { spell } from "./duration.js";
import { ago, exact, userZone } from "./times.js";

function show(element, instant) {
  const zone = userZone();
  const title = exact(instant, zone);
  const text = ago(instant, Date.now(), zone);
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
