// Pure rules of the grid: where a key leads, what an editor begins with, what a refused save says.

export const PAGE = 10;

// Computed lines have cells over several columns, so a cell's column is counted, not its number.
export const columnOf = (spans, index) => spans.slice(0, index).reduce((sum, span) => sum + span, 0);

export function indexAt(spans, column) {
  let start = 0;
  let index = 0;
  spans.forEach((span, place) => {
    if (start <= column) index = place;
    start += span;
  });
  return index;
}

const VERTICAL = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE };

// The cell a key leads to, as {row, index}; null if the key leads nowhere. `spansOf(row)` are the column
// spans of the cells of a row.
export function target({ row, index }, key, command, rows, spansOf) {
  const last = rows - 1;
  if (key in VERTICAL) {
    const by = command && key.startsWith("Arrow") ? VERTICAL[key] * rows : VERTICAL[key];
    const to = Math.min(Math.max(row + by, 0), last);
    return { row: to, index: indexAt(spansOf(to), columnOf(spansOf(row), index)) };
  }
  const end = spansOf(row).length - 1;
  if (key === "ArrowRight") return { row, index: command ? end : Math.min(index + 1, end) };
  if (key === "ArrowLeft") return { row, index: command ? 0 : Math.max(index - 1, 0) };
  if (key === "Home") return { row: command ? 0 : row, index: 0 };
  if (key === "End") return command ? { row: last, index: spansOf(last).length - 1 } : { row, index: end };
  return null;
}

// A letter that is typed into a choice takes the first that begins with it; otherwise the stored value stays,
// also if it is no option any more.
export function chosenOption(options, typed, stored) {
  if (options.includes(typed)) return typed;
  return (typed && options.find((option) => option.startsWith(typed.toLowerCase()))) || stored;
}

// Lines of a text editor: as many as the text needs at the width of a cell, at most twelve.
export const editorRows = (text) =>
  Math.min(Math.max(text.split("\n").length, Math.ceil(text.length / 28), 1), 12);

export const toggled = (value) => (value === "yes" ? "no" : "yes");

const PROBLEMS = {
  403: "Not saved: you may not change columns any more, or you signed in anew. Load the page again.",
  404: "Not saved: the column is gone. Load the page again.",
  503: "Not saved: the control database does not answer. Save it again in a moment.",
};

export const problem = (status) =>
  PROBLEMS[status] || `Not saved: the server could not do it (${status}). What you typed is kept.`;
