// Moving lines: at once for the eye, after a moment for the server.

import { problem } from "./cells.js";
import { replacePanel } from "./panel.js";
import { enqueue, post } from "./requests.js";
import { cellAt, cellOf, columnOf, go, lineOf, say } from "./table.js";

const MOVE_AFTER = 350; // milliseconds
const UP = { next: "previousElementSibling", place: "before", own: "data-first", other: "data-last", word: "up" };
const DOWN = { next: "nextElementSibling", place: "after", own: "data-last", other: "data-first", word: "down" };
let moving = null; // {key, by, timer}

export const isMoving = () => moving !== null;

export function move(line, by) {
  const way = by < 0 ? UP : DOWN;
  const other = line[way.next];
  if (!line.dataset.key || !other || line.hasAttribute(way.own)) {
    say(`${line.dataset.name || "It"} cannot move further ${way.word}.`);
    return;
  }
  if (moving && moving.key !== line.dataset.key) flushMove();
  const column = columnOf(cellOf(document.activeElement) || line.cells[0]);
  other[way.place](line);
  passMark(other, line, way.own);
  passMark(line, other, way.other);
  go(cellAt(line, column));
  say(`${line.dataset.name} moved ${way.word}.`);
  if (moving) clearTimeout(moving.timer);
  moving = { key: line.dataset.key, by: (moving?.by || 0) + by, timer: setTimeout(flushMove, MOVE_AFTER) };
}

// The first and the last line that can move are marked; a mark stays at its place.
function passMark(from, to, mark) {
  if (!from.hasAttribute(mark)) return;
  from.removeAttribute(mark);
  to.setAttribute(mark, "");
}

export function flushMove() {
  if (!moving) return;
  const { key, by, timer } = moving;
  moving = null;
  clearTimeout(timer);
  if (by) enqueue(() => sendMove(key, by));
}

async function sendMove(key, by) {
  const line = lineOf(key);
  if (!line) return;
  let answer;
  try {
    answer = await post(line.dataset.move, { by });
  } catch {
    say("Not moved: no answer from the server. Load the page again.");
    return;
  }
  if (answer.headers.get("HX-Redirect")) {
    say("Not moved: your session has ended. Sign in and load the page again.");
  } else if (answer.status === 200 || answer.status === 409) {
    replacePanel(await answer.text(), "");
  } else {
    say(`Not moved. ${problem(answer.status)}`);
  }
}
