// Clocks: <span data-since="ISO time"> shows how long ago that is.

import { spell } from "./duration.js";

function tick() {
  document.querySelectorAll("[data-since]").forEach((element) => {
    const since = Date.parse(element.dataset.since);
    if (!isNaN(since)) element.textContent = spell(Math.max(0, (Date.now() - since) / 1000));
  });
}

tick();
setInterval(tick, 1000);
document.addEventListener("htmx:afterSwap", tick);
