// The import of metadata by files: limits are checked before anything is sent, and a file that was changed on
// disk after it was chosen, which a browser refuses to send, is named.

import { showRefused } from "./connection.js";

const MEGABYTE = 2 ** 20;

function tooMuch(files, { mostFiles, mostBytes }) {
  const bytes = files.reduce((sum, file) => sum + file.size, 0);
  if (files.length > mostFiles) return `At most ${mostFiles} files are imported at once, not ${files.length}.`;
  if (bytes <= mostBytes) return "";
  const size = Math.ceil(bytes / MEGABYTE);
  return `These files have ${size} MB; at most ${mostBytes / MEGABYTE} MB are imported at once. Choose fewer, ` +
    "or import them by command.";
}

// What is shown there is about other files.
const clearResult = () => document.getElementById("import-result").replaceChildren();

document.addEventListener("change", ({ target }) => {
  if (!target.matches("[data-import] input[type=file]")) return;
  clearResult();
  target.setCustomValidity(tooMuch([...target.files], target.dataset));
  target.reportValidity();
});

async function isReadable(file) {
  try {
    await file.slice(0, 1).arrayBuffer();
    return true;
  } catch {
    return false;
  }
}

document.addEventListener("htmx:sendError", async ({ detail }) => {
  if (!detail.elt.matches("[data-import]")) return;
  const input = detail.elt.querySelector("input[type=file]");
  const readable = await Promise.all([...input.files].map(isReadable));
  const changed = [...input.files].find((file, place) => !readable[place]);
  if (!changed) return;
  showRefused(`${changed.name} changed since you chose it. Choose the files again, then check them.`);
  clearResult();
  input.value = "";
  input.focus();
});
