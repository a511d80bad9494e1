// The grid: a table [data-grid] whose cells have the keyboard of a spreadsheet (docs/understand/web.md, "The grid").
// Cells that can be edited have data-cell, data-kind and data-value; a line (tr) has data-key,
// data-version and the addresses data-save and data-move. What is typed is never lost: a refused or
// unsent text stays in its cell.

import { toggled } from "./cells.js";
import { pasteAction, withoutLastBreak } from "./clipboard.js";
import { discard, edit, editorOf, grow } from "./editor.js";
import { isMoving, move } from "./moving.js";
import { focusAnswer } from "./panel.js";
import { isWaiting } from "./requests.js";
import { commit, save } from "./saving.js";
import { cellByKey, cellOf, go, grid, nextEditable, prepare, say, undo } from "./table.js";

// --- keys ----------------------------------------------------------------------------------
document.addEventListener("keydown", (event) => {
  const menu = event.target.closest(".row-menu");
  const cell = cellOf(event.target);
  if (menu) keyInMenu(event, menu);
  else if (!cell || event.isComposing) return;
  else if (event.target.classList.contains("cell-editor")) keyInEditor(event, cell);
  else if (event.target !== cell) keyInWidget(event, cell);
  else keyInGrid(event, cell);
});

function keyInGrid(event, cell) {
  const command = event.ctrlKey || event.metaKey;
  const action = event.altKey ? altAction(event, cell) : cellAction(event, cell, command);
  if (!action) return;
  event.preventDefault();
  action();
}

function altAction({ key }, cell) {
  const by = { ArrowUp: -1, ArrowDown: 1 }[key];
  return by && (() => move(cell.parentElement, by));
}

function cellAction({ key }, cell, command) {
  const to = cellByKey(cell, key, command);
  const { kind, typed, value } = cell.dataset;
  if (to) return () => go(to);
  if (key === "Enter" || key === "F2") return () => open(cell);
  if (key === "z" && command) return undo;
  if (key === " " && kind === "yes-no") return () => save(cell, toggled(typed || value));
  if (kind && (key === "Delete" || key === "Backspace")) return () => edit(cell, "");
  if (kind && key.length === 1 && !command) return () => edit(cell, key);
  return null;
}

// What Enter does: edit, go to the rename, or into the links and buttons of a cell.
function open(cell) {
  const inner = cell.querySelector("a, button");
  if (cell.dataset.kind) edit(cell);
  else if (cell.dataset.cell === "name") cell.parentElement.querySelector("[data-rename]").click();
  else if (!inner) say("This is computed and cannot be edited.");
  else if (inner.tagName === "A") inner.focus();
  else inner.click();
}

function keyInWidget(event, cell) {
  if (event.key === "Escape") {
    go(cell);
    return;
  }
  const all = Array.from(cell.querySelectorAll("a, button"));
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const next = by && all[all.indexOf(event.target) + by];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function keyInEditor(event, cell) {
  const editor = event.target;
  if (event.key === "Escape") {
    event.preventDefault();
    discard(cell);
    go(cell);
  } else if (event.key === "Enter" && editor.tagName === "TEXTAREA" && (event.shiftKey || event.altKey)) {
    if (event.altKey) editor.setRangeText("\n", editor.selectionStart, editor.selectionEnd, "end");
    setTimeout(() => grow(editor));
  } else if (event.key === "Enter" || event.key === "Tab") {
    event.preventDefault();
    const next = event.key === "Tab"
      ? nextEditable(cell, event.shiftKey ? -1 : 1)
      : cellByKey(cell, event.shiftKey ? "ArrowUp" : "ArrowDown");
    commit(cell);
    go(next);
  }
}

function keyInMenu(event, menu) {
  const all = Array.from(menu.querySelectorAll("a, button:not(:disabled)"));
  const at = all.indexOf(event.target);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (to !== undefined) {
    event.preventDefault();
    all[(to + all.length) % all.length].focus();
  } else if (event.key === "Tab" || event.key === "Escape") {
    event.preventDefault();
    menu.hidePopover();
    go(cellOf(menu));
  }
}

// --- mouse, touch, focus ---------------------------------------------------------------------
let focusedBefore = null;

document.addEventListener("pointerdown", (event) => {
  const cell = cellOf(event.target);
  focusedBefore = cell && document.activeElement === cell ? cell : null;
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-move-by]");
  if (button?.closest("[data-grid]")) {
    event.preventDefault();
    const line = button.closest("tr");
    button.closest(".row-menu").hidePopover();
    move(line, Number(button.dataset.moveBy));
    return;
  }
  const cell = cellOf(event.target);
  if (!cell || event.target.closest("a, button, .cell-editor, .row-menu")) return;
  if (focusedBefore === cell) edit(cell);
  else if (!editorOf(cell)) go(cell);
});

document.addEventListener("dblclick", (event) => {
  const cell = cellOf(event.target);
  if (cell && !event.target.closest("a, button, .cell-editor")) edit(cell);
});

document.addEventListener("focusout", (event) => {
  const cell = cellOf(event.target);
  if (!cell || !event.target.classList.contains("cell-editor") || !cell.classList.contains("editing")) return;
  if (document.hasFocus()) commit(cell);
});

document.addEventListener("input", (event) => {
  if (event.target.classList.contains("cell-editor")) grow(event.target);
});

// Capturing, because toggle events do not bubble.
document.addEventListener("toggle", (event) => {
  const menu = event.target;
  if (!menu.classList?.contains("row-menu") || event.newState !== "open") return;
  const button = cellOf(menu).querySelector(".menu-button").getBoundingClientRect();
  const top = Math.min(button.bottom + 2, window.innerHeight - menu.offsetHeight - 8);
  menu.style.top = `${Math.max(top, 8)}px`;
  menu.style.left = `${Math.max(button.right - menu.offsetWidth, 8)}px`;
  menu.querySelector("a, button:not(:disabled)")?.focus();
}, true);

// --- the clipboard -----------------------------------------------------------------------------
function focusedCell() {
  const cell = cellOf(document.activeElement);
  return cell === document.activeElement ? cell : null;
}

document.addEventListener("copy", (event) => {
  const cell = focusedCell();
  if (!cell || !("value" in cell.dataset) || String(window.getSelection())) return;
  event.preventDefault();
  event.clipboardData.setData("text/plain", cell.dataset.value);
  say("Copied.");
});

document.addEventListener("paste", (event) => {
  const cell = focusedCell();
  const text = event.clipboardData.getData("text/plain");
  if (!cell || !text) return;
  event.preventDefault();
  const action = pasteAction(text, { editable: cell.dataset.kind, field: cell.dataset.cell });
  if (action === "edit") edit(cell, withoutLastBreak(text));
  else if (action === "refuse") say("Paste into a cell that can be edited, or into a name.");
  else sendPaste(text, cell);
});

function sendPaste(text, cell) {
  const form = document.querySelector("[data-paste-form]");
  form.elements.text.value = text;
  form.elements.cell.value = cell.dataset.cell;
  form.elements.column.value = cell.parentElement.dataset.key;
  form.requestSubmit();
}

// --- arriving and leaving ------------------------------------------------------------------------
document.addEventListener("htmx:afterSettle", (event) => {
  prepare();
  if (event.target.closest?.("[data-grid-answer]")) focusAnswer();
});

// A conflict and a paste hold all that was typed: who leaves by them loses nothing.
let leaving = false;
["submit", "click"].forEach((kind) => {
  document.addEventListener(kind, ({ target }) => {
    if (!target.closest("[data-grid-answer] form, [data-grid-answer] a")) return;
    leaving = kind === "submit" || Boolean(target.closest("a"));
  });
});

window.addEventListener("beforeunload", (event) => {
  if (!grid() || leaving) return;
  const unsaved = document.querySelector("[data-grid] .cell-editor, [data-grid] [data-typed]");
  if (isWaiting() || isMoving() || unsaved) event.preventDefault();
});

prepare();
