// A cell's editor and its states: open, typed but not saved, refused.

import { chosenOption, editorRows } from "./cells.js";
import { lineOf, named } from "./table.js";

const TEMPLATES = {
  type: "edit-type",
  role: "edit-role",
  "yes-no": "edit-yes-no",
  sensitivity: "edit-sensitivity",
  long: "edit-long",
};
const htmlBefore = new WeakMap(); // cell -> what stood in it before something was typed

export const editorOf = (cell) => cell.querySelector(".cell-editor");

export function edit(cell, text) {
  if (!cell?.dataset.kind || editorOf(cell)) return;
  const template = document.getElementById(TEMPLATES[cell.dataset.kind] || "edit-text");
  const editor = template.content.firstElementChild.cloneNode(true);
  const stored = cell.dataset.typed ?? cell.dataset.value;
  editor.setAttribute("aria-label", `${cell.dataset.label} of ${cell.parentElement.dataset.name}`);
  if (cell.hasAttribute("aria-describedby")) {
    editor.setAttribute("aria-describedby", cell.getAttribute("aria-describedby"));
    editor.setAttribute("aria-invalid", "true");
  }
  const value = editor.tagName === "SELECT" ? choose(editor, text ?? stored, stored) : (text ?? stored);
  cell.classList.add("editing");
  cell.prepend(editor);
  editor.value = value;
  grow(editor);
  editor.focus();
  if (text === undefined && editor.select) editor.select();
}

function choose(editor, typed, stored) {
  const options = Array.from(editor.options, (option) => option.value);
  const value = chosenOption(options, typed, stored);
  if (!options.includes(value)) editor.add(new Option(value, value));
  return value;
}

export function grow(editor) {
  if (editor.tagName === "TEXTAREA") editor.rows = editorRows(editor.value);
}

export function close(cell) {
  const editor = editorOf(cell);
  if (!editor) return "";
  cell.classList.remove("editing"); // first: taking the editor away makes it lose the focus
  editor.remove();
  return editor.value;
}

export function discard(cell) {
  close(cell);
  settle(cell);
  if (htmlBefore.has(cell)) cell.querySelector(".cell-text").innerHTML = htmlBefore.get(cell);
  htmlBefore.delete(cell);
  delete cell.dataset.typed;
}

// What was typed stands in the cell until the server has answered; what stood there is kept.
export function showTyped(cell, value) {
  const text = cell.querySelector(".cell-text");
  if (!htmlBefore.has(cell)) htmlBefore.set(cell, text.innerHTML);
  text.textContent = value;
  cell.dataset.typed = value;
}

export function settle(cell) {
  cell.removeAttribute("aria-invalid");
  cell.removeAttribute("aria-describedby");
  cell.querySelectorAll(".field-error").forEach((error) => error.remove());
}

export function refuse(key, name, value, why) {
  const cell = named(lineOf(key), name);
  if (!cell) return;
  cell.removeAttribute("aria-busy");
  settle(cell);
  cell.dataset.typed = value;
  const error = document.createElement("p");
  error.className = "field-error";
  error.id = `problem-${key}`;
  error.setAttribute("role", "alert");
  error.textContent = why;
  cell.append(error);
  cell.setAttribute("aria-invalid", "true");
  cell.setAttribute("aria-describedby", error.id);
}
