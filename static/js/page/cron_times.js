// Times that a schedule's form offers to choose, as cron expressions and back.

const WORKDAYS = "1-5";

// Return the numbers of a list like 1-5 or 0,3; null if it is written otherwise.
function numbers(text, most) {
  const found = new Set();
  for (const part of text.split(",")) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (!match || Number(match[2] ?? match[1]) > most) return null;
    for (let number = Number(match[1]); number <= Number(match[2] ?? match[1]); number += 1) found.add(number);
  }
  return found;
}

function dayList(days) {
  const sorted = [...new Set(days)].sort();
  if (!sorted.length || sorted.length === 7) return "*";
  return sorted.join(",") === "1,2,3,4,5" ? WORKDAYS : sorted.join(",");
}

// Return the cron expression of chosen times: {repeat: hour | week | month, at: "06:30", days: [1, 5], day: "1" | "L"}.
export function cronOf({ repeat, at, days, day }) {
  if (repeat === "hour") return "0 * * * *";
  const [hour, minute] = at.split(":").map(Number);
  const time = `${minute} ${hour}`;
  return repeat === "month" ? `${time} ${day} * *` : `${time} * * ${dayList(days)}`;
}

// Return the choices that an expression stands for; null if it needs to be written as cron.
export function choicesOf(cron) {
  const [minute, hour, day, month, week, more] = cron.trim().split(/\s+/);
  if (!week || more || month !== "*") return null;
  if (cron.trim() === "0 * * * *") return { repeat: "hour", at: "06:00", days: [1, 2, 3, 4, 5, 6, 0], day: "1" };
  if (!/^\d{1,2}$/.test(minute) || !/^\d{1,2}$/.test(hour)) return null;
  const at = `${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;
  if (day === "*") {
    const days = week === "*" ? new Set([0, 1, 2, 3, 4, 5, 6]) : numbers(week, 7);
    return days && { repeat: "week", at, days: [...new Set([...days].map((number) => number % 7))], day: "1" };
  }
  if (week !== "*" || !/^(L|[1-9]|[12]\d|3[01])$/.test(day)) return null;
  return { repeat: "month", at, days: [], day };
}
