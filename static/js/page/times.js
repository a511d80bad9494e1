// Times of pages as text, in the user's zone.

const DAYS_IN_WORDS = 30;
const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
];
const words = new Intl.RelativeTimeFormat("en", { numeric: "always" });

// Return the zone of the account (data-zone of the body), else the browser's; also if the browser does not know it.
export function userZone(body = document.body) {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: body.dataset.zone || undefined }).resolvedOptions().timeZone;
  } catch {
    return new Intl.DateTimeFormat().resolvedOptions().timeZone;
  }
}

// Return date and time in full, with the zone's name.
export function exact(instant, timeZone) {
  const parts = { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" };
  return new Intl.DateTimeFormat("en-GB", { ...parts, timeZone }).format(instant);
}

// Return date and minute as 2026-11-01 06:30.
export function minute(instant, timeZone) {
  const parts = { dateStyle: "short", timeStyle: "short", hourCycle: "h23" };
  return new Intl.DateTimeFormat("sv-SE", { ...parts, timeZone }).format(instant);
}

// Return the time of day as 06:30:05.
export function second(instant, timeZone) {
  return new Intl.DateTimeFormat("sv-SE", { timeStyle: "medium", hourCycle: "h23", timeZone }).format(instant);
}

// Return how long ago a time is, in words; of an old one, date and time.
export function ago(instant, now, timeZone) {
  const seconds = Math.round((instant - now) / 1000);
  if (Math.abs(seconds) > DAYS_IN_WORDS * 86400) return exact(instant, timeZone);
  const unit = UNITS.find(([, length]) => Math.abs(seconds) >= length);
  if (!unit) return seconds > 0 ? "in a moment" : "just now";
  return words.format(Math.trunc(seconds / unit[1]), unit[0]);
}

// Return the ticks of a time axis, in seconds: minutes with the date below where a day begins, else dates or months.
export function axisTimes(ticks, step, timeZone) {
  const day = (seconds) => minute(seconds * 1000, timeZone).slice(0, 10);
  if (step >= 28 * 86400) return ticks.map((seconds) => day(seconds).slice(0, 7));
  if (step >= 86400) return ticks.map(day);
  return ticks.map((seconds, place) => {
    const time = minute(seconds * 1000, timeZone).slice(11);
    return place && day(ticks[place - 1]) === day(seconds) ? time : `${time}\n${day(seconds)}`;
  });
}
