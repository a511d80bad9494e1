// Replaces parts of the grid by what the server sends. What is open or under way in a part stays so in the new one.

import { edit, editorOf, refuse, showTyped } from "./editor.js";
import { cellAt, cellOf, columnOf, go, lineOf, named, prepare } from "./table.js";

function snapshot(part) {
  const state = { editors: [], typed: [], focus: null };
  part.querySelectorAll("[data-kind]").forEach((cell) => {
    const place = { key: cell.parentElement.dataset.key, name: cell.dataset.cell };
    const editor = editorOf(cell);
    const busy = cell.getAttribute("aria-busy");
    if (editor) {
      cell.classList.remove("editing"); // what is taken away with its part is not left by the person
      state.editors.push({ ...place, text: editor.value, from: editor.selectionStart, to: editor.selectionEnd });
    } else if (busy || cell.hasAttribute("aria-invalid")) {
      state.typed.push({ ...place, value: cell.dataset.typed, busy });
    }
  });
  const cell = cellOf(document.activeElement);
  if (cell && part.contains(cell)) state.focus = { key: cell.parentElement.dataset.key, column: columnOf(cell) };
  return state;
}

function restore(state, except) {
  state.typed.forEach(({ key, name, value, busy }) => {
    const cell = named(lineOf(key), name);
    if (!cell || key + name === except || cell.hasAttribute("aria-invalid")) return;
    showTyped(cell, value);
    if (busy) cell.setAttribute("aria-busy", "true");
    else refuse(key, name, value, "Not saved yet.");
  });
  const line = state.focus?.key && lineOf(state.focus.key);
  if (line) go(cellAt(line, state.focus.column));
  state.editors.forEach(({ key, name, text, from, to }) => {
    const cell = named(lineOf(key), name);
    if (!cell) return;
    edit(cell, text);
    const editor = editorOf(cell);
    if (editor?.setSelectionRange && typeof from === "number") editor.setSelectionRange(from, to);
  });
  prepare();
}

function parsed(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html.trim();
  return holder.content;
}

export function replaceLine(key, name, html) {
  const line = lineOf(key);
  if (!line) return;
  const state = snapshot(line);
  line.replaceWith(parsed(html).querySelector("tr"));
  restore(state, key + name);
}

export function replacePanel(html, except) {
  const panel = document.getElementById("columns");
  const state = snapshot(panel);
  const fresh = parsed(html).firstElementChild;
  panel.replaceWith(fresh);
  window.htmx?.process(fresh);
  restore(state, except);
}

export function showAnswer(html) {
  const box = document.querySelector("[data-grid-answer]");
  box.innerHTML = html;
  window.htmx?.process(box);
  focusAnswer();
}

export function focusAnswer() {
  document.querySelector("[data-grid-answer] > section")?.focus();
}
