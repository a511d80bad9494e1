// Completes user names after "@" in a text area with data-mentions: arrows choose, Enter or Tab takes, Esc closes.

import { completed, mentionAt } from "./mention.js";

const LIST = "mention-options";
let latest = 0;

const list = () => document.getElementById(LIST);
const options = () => Array.from(list()?.children ?? []);
const chosen = () => options().find((option) => option.getAttribute("aria-selected") === "true");

function choose(field, option) {
  options().forEach((other) => other.setAttribute("aria-selected", String(other === option)));
  field.setAttribute("aria-activedescendant", option.id);
}

function close(field) {
  latest += 1; // an answer that is still under way comes too late
  list()?.remove();
  field.removeAttribute("aria-activedescendant");
  field.removeAttribute("aria-controls");
}

function take(field, name) {
  const { text, caret } = completed(field.value, field.selectionStart, name);
  field.value = text;
  field.setSelectionRange(caret, caret);
  close(field);
  field.focus();
}

function show(field, names) {
  close(field);
  if (!names.length) return;
  const box = document.createElement("div");
  box.id = LIST;
  box.className = "mention-options";
  box.setAttribute("role", "listbox");
  box.setAttribute("aria-label", "Users");
  names.forEach((name, number) => {
    const option = document.createElement("div");
    option.id = `${LIST}-${number}`;
    option.setAttribute("role", "option");
    option.textContent = name;
    // Before the field loses the focus.
    option.addEventListener("mousedown", (event) => {
      event.preventDefault();
      take(field, name);
    });
    box.append(option);
  });
  field.after(box);
  field.setAttribute("aria-controls", LIST);
  choose(field, box.firstElementChild);
}

async function suggest(field) {
  const mention = mentionAt(field.value, field.selectionStart);
  if (!mention) return close(field);
  const asked = (latest += 1);
  try {
    const answer = await fetch(`${field.dataset.mentions}?${new URLSearchParams({ q: mention.typed })}`);
    if (!answer.ok) return close(field);
    const { users } = await answer.json();
    if (asked === latest && document.activeElement === field) show(field, users);
  } catch {
    close(field); // without suggestions the name is typed
  }
}

function onKey(event) {
  const field = event.target;
  const all = options();
  if (!all.length || event.isComposing) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const step = event.key === "ArrowDown" ? 1 : -1;
    choose(field, all[(all.indexOf(chosen()) + step + all.length) % all.length]);
  } else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey && !event.ctrlKey && !event.metaKey) {
    take(field, chosen().textContent);
  } else if (event.key === "Escape") {
    close(field);
  } else return;
  event.preventDefault();
}

const isField = (target) => target.matches?.("textarea[data-mentions]");

document.addEventListener("input", (event) => isField(event.target) && suggest(event.target));
document.addEventListener("keydown", (event) => isField(event.target) && onKey(event));
document.addEventListener("focusout", (event) => isField(event.target) && close(event.target));
