// Times and days of a schedule to choose. They are written into the field of the cron expression, which is sent.

import { choicesOf, cronOf } from "./cron_times.js";
import { userZone } from "./times.js";

const part = (box, name) => box.querySelector(`[data-times=${name}]`);
const dayBoxes = (box) => Array.from(box.querySelectorAll("[data-times=days] input"));

function show(box, cron) {
  const repeat = part(box, "repeat").value;
  part(box, "at").closest(".field").hidden = !["week", "month"].includes(repeat);
  part(box, "days").hidden = repeat !== "week";
  part(box, "day").closest(".field").hidden = repeat !== "month";
  cron.closest(".field").hidden = repeat !== "cron";
  document.getElementById("cron-help").hidden = repeat !== "cron";
}

function write(box, cron) {
  const repeat = part(box, "repeat").value;
  if (repeat === "cron" || !part(box, "at").value) return;
  const days = dayBoxes(box).filter((day) => day.checked).map((day) => Number(day.value));
  cron.value = cronOf({ repeat, at: part(box, "at").value, days, day: part(box, "day").value });
  cron.dispatchEvent(new Event("input", { bubbles: true }));
}

function read(box, cron) {
  const refused = cron.getAttribute("aria-invalid") === "true";
  const choices = refused ? null : choicesOf(cron.value || part(box, "repeat").dataset.first);
  part(box, "repeat").value = choices ? choices.repeat : "cron";
  if (!choices) return;
  part(box, "at").value = choices.at;
  part(box, "day").value = choices.day;
  dayBoxes(box).forEach((day) => {
    day.checked = choices.days.includes(Number(day.value));
  });
}

// A new schedule begins in the zone of its author.
function chooseZone(input) {
  if (!input?.hasAttribute("data-own-zone")) return;
  input.value = userZone();
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

function start(box) {
  const cron = document.getElementById(box.dataset.timesOf);
  box.hidden = false;
  read(box, cron);
  show(box, cron);
  if (!cron.value) write(box, cron);
  chooseZone(document.getElementById("id_time_zone"));
  box.addEventListener("input", () => {
    show(box, cron);
    write(box, cron);
  });
}

// Once htmx listens, so that the next times are shown.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-times-of]").forEach(start);
});
