// Saves of cells, each over the version that the one before it left.

import { problem } from "./cells.js";
import { close, discard, edit, refuse, settle, showTyped } from "./editor.js";
import { flushMove } from "./moving.js";
import { replaceLine, replacePanel, showAnswer } from "./panel.js";
import { enqueue, post } from "./requests.js";
import { lineOf, named, offerUndo, say } from "./table.js";

export function commit(cell) {
  const refusedBefore = "typed" in cell.dataset;
  const value = close(cell);
  if (value !== cell.dataset.value) save(cell, value);
  else if (refusedBefore) discard(cell);
}

export function save(cell, value) {
  const { key } = cell.parentElement.dataset;
  const name = cell.dataset.cell;
  flushMove();
  settle(cell);
  showTyped(cell, value);
  cell.setAttribute("aria-busy", "true");
  enqueue(() => send(key, name, value));
}

async function send(key, name, value) {
  const line = lineOf(key);
  if (!line) return;
  let answer;
  try {
    answer = await post(line.dataset.save, { cell: name, value, version: line.dataset.version });
  } catch {
    refuse(key, name, value, "No answer from the server. What you typed is kept: save it again.");
    return;
  }
  await receive(answer, key, name, value);
}

async function receive(answer, key, name, value) {
  if (answer.headers.get("HX-Redirect")) {
    const why = "Your session has ended. Sign in in another tab, then save again: what you typed is kept.";
    refuse(key, name, value, why);
    return;
  }
  const target = answer.headers.get("HX-Retarget");
  if (target === "#grid-answer") refuse(key, name, value, "Not saved: somebody else changed this column, see above.");
  if (answer.status !== 200 && answer.status !== 422 && !target) {
    refuse(key, name, value, problem(answer.status));
    return;
  }
  const html = await answer.text();
  if (target === "#columns") replacePanel(html, key + name);
  else if (target) showAnswer(html);
  else replaceLine(key, name, html);
  if (answer.status === 200) {
    const text = `Saved: ${name} of ${lineOf(key).dataset.name}.`;
    say(text);
    offerUndo(text, answer.headers.get("Undo-Address"));
    document.body.dispatchEvent(new Event("metadata-saved"));
  }
  if (answer.status === 422 && !document.querySelector(".cell-editor")) edit(named(lineOf(key), name));
}
