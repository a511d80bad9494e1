// The grid's table: finding cells and lines, and its one tab stop.

import { columnOf as columnAt, indexAt, target } from "./cells.js";

const CELLS = '[role="gridcell"], [role="rowheader"]';

export const grid = () => document.querySelector("[data-grid]");

export function cellOf(element) {
  const cell = element?.closest?.(CELLS);
  return cell?.closest("[data-grid]") ? cell : null;
}

export function lineOf(key) {
  const line = document.getElementById(`column-${key}`);
  return line?.closest("[data-grid]") ? line : null;
}

export const named = (line, name) => line?.querySelector(`[data-cell="${name}"]`);

const linesOf = (cell) => cell.closest("table").tBodies[0].rows;
const spansOf = (line) => Array.from(line.cells, (cell) => cell.colSpan);

export const columnOf = (cell) => columnAt(spansOf(cell.parentElement), cell.cellIndex);
export const cellAt = (line, column) => line.cells[indexAt(spansOf(line), column)];

// The cell that a key leads to from this one, or null.
export function cellByKey(cell, key, command = false) {
  const lines = linesOf(cell);
  const from = { row: cell.parentElement.sectionRowIndex, index: cell.cellIndex };
  const to = target(from, key, command, lines.length, (row) => spansOf(lines[row]));
  return to && lines[to.row].cells[to.index];
}

// The next cell that can be edited, over the ends of lines.
export function nextEditable(cell, by) {
  const all = Array.from(cell.closest("[data-grid]").querySelectorAll("[data-kind]"));
  return all[all.indexOf(cell) + by] || cell;
}

export function prepare() {
  const table = grid();
  if (!table) return;
  table.querySelectorAll("tbody a, tbody button").forEach((inner) => {
    inner.tabIndex = -1;
  });
  if (table.querySelector('tbody [tabindex="0"]')) return;
  const first = table.querySelector('tbody [role="rowheader"]');
  if (first) first.tabIndex = 0;
}

export function go(cell) {
  if (!cell) return;
  cell.closest("[data-grid]").querySelectorAll('tbody [tabindex="0"]').forEach((other) => {
    other.tabIndex = -1;
  });
  cell.tabIndex = 0;
  cell.focus();
}

export function say(text) {
  const status = document.getElementById("grid-status");
  if (status) status.textContent = text;
}

// Shows the last save with the page that undoes it.
export function offerUndo(text, address) {
  const line = document.getElementById("grid-saved");
  line.hidden = !address;
  line.querySelector("span").textContent = text;
  if (address) line.querySelector("a").href = address;
}

export const undo = () => document.querySelector("#grid-saved:not([hidden]) a")?.click();
