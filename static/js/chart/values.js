// Numbers of charts as text.

const STEPS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

// Return a number with its unit, in full.
export function shown(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "bytes") return `${scaled(value, "")}B`;
  const digits = Number.isInteger(value) ? 0 : 2;
  const text = value.toLocaleString("en", { minimumFractionDigits: 0, maximumFractionDigits: digits });
  return unit ? `${text} ${unit}` : text;
}

// Return a number for an axis: in thousands, millions, … with at most two digits behind the point.
export function scaled(value, unit) {
  const [size, letter] = STEPS.find(([step]) => Math.abs(value) >= step) ?? [1, ""];
  const text = `${Number((value / size).toFixed(2))}${letter ? ` ${letter}` : ""}`;
  if (unit === "bytes") return `${text}${letter ? "" : " "}B`;
  return unit ? `${text} ${unit}` : text;
}
