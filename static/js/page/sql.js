// Pages with SQL editors: each textarea becomes an editor, chosen names are inserted at the cursor, and saving takes
// the editor's text. On the SQL page each statement has a result of its own, in a tab.

import { editorOf, enhance, goTo, insert } from "./code_editor.js";
import { shortened, statements } from "./sql_text.js";

const MOST_RESULTS = 10;

const results = document.querySelector("[data-results]");
const runButton = document.querySelector("[data-run]");

// --- results, each in a tab ---------------------------------------------------------------------

let started = 0;

function tabs() {
  let list = results.querySelector("[role=tablist]");
  if (list) return list;
  results.replaceChildren();
  list = document.createElement("div");
  list.className = "result-tabs";
  list.setAttribute("role", "tablist");
  list.setAttribute("aria-label", "Results");
  list.addEventListener("keydown", moveTab);
  results.append(list);
  return list;
}

const panelOf = (tab) => document.getElementById(tab.getAttribute("aria-controls"));

function open(tab) {
  for (const each of tabs().children) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", String(chosen));
    each.tabIndex = chosen ? 0 : -1;
    panelOf(each).hidden = !chosen;
  }
}

function moveTab(event) {
  const all = Array.from(tabs().children);
  const place = all.indexOf(event.target);
  const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: all.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  const tab = all.at(next % all.length);
  open(tab);
  tab.focus();
}

function close(tab) {
  const all = Array.from(tabs().children);
  const next = all[all.indexOf(tab) + 1] ?? all[all.indexOf(tab) - 1];
  panelOf(tab).remove();
  tab.remove();
  if (next) {
    open(next);
    next.focus();
  } else {
    tabs().remove();
  }
}

function newResult(statement) {
  const list = tabs();
  started += 1;
  const tab = document.createElement("button");
  tab.type = "button";
  tab.id = `result-tab-${started}`;
  tab.setAttribute("role", "tab");
  tab.setAttribute("aria-controls", `result-${started}`);
  tab.textContent = `${started}: ${shortened(statement)}`;
  tab.title = statement.trim();
  tab.addEventListener("click", () => open(tab));
  const panel = document.createElement("div");
  panel.id = `result-${started}`;
  panel.setAttribute("role", "tabpanel");
  panel.setAttribute("aria-labelledby", tab.id);
  const answer = document.createElement("div");
  const closing = document.createElement("button");
  closing.type = "button";
  closing.className = "btn btn-sm result-close";
  closing.textContent = "Close result";
  closing.addEventListener("click", () => close(tab));
  panel.append(closing, answer);
  list.append(tab);
  results.append(panel);
  if (list.children.length > MOST_RESULTS) {
    panelOf(list.firstElementChild).remove();
    list.firstElementChild.remove();
  }
  return { tab, answer };
}

// --- running ------------------------------------------------------------------------------------

function run(textarea) {
  const { state } = editorOf(textarea);
  const chosen = state.selection.main;
  const text = state.doc.toString();
  const wanted = chosen.empty ? statements(text) : statements(text, chosen.from, chosen.to);
  const form = textarea.form;
  let first = null;
  for (const statement of wanted.length ? wanted : [""]) {
    const { tab, answer } = newResult(statement);
    first ??= tab;
    const values = Object.fromEntries(new FormData(form));
    window.htmx.ajax("POST", form.action, {
      source: answer,
      target: answer,
      swap: "innerHTML",
      values: { ...values, text: statement },
    });
  }
  open(first);
}

for (const textarea of document.querySelectorAll("textarea[data-code]")) {
  const form = textarea.form;
  if (!results) {
    enhance(textarea, { run: () => (document.getElementById("trial-form") ?? form).requestSubmit() });
    continue;
  }
  const shown = results.querySelector(".read");
  if (shown) {
    const { tab, answer } = newResult(textarea.value);
    answer.append(shown);
    open(tab);
  }
  const label = runButton?.querySelector("[data-run-label]");
  enhance(textarea, {
    run: () => run(textarea),
    selected: (some) => {
      if (label) label.textContent = some ? "Run selection" : "Run query";
    },
  });
  form.addEventListener("htmx:confirm", (event) => {
    if (event.target !== form) return;
    event.preventDefault();
    run(textarea);
  });
}

// --- the place of an error ------------------------------------------------------------------------

document.addEventListener("htmx:afterSwap", (event) => {
  const problem = results?.contains(event.target) && event.target.querySelector?.(".note-error");
  const place = problem && /line (\d+), column (\d+)/i.exec(problem.textContent);
  if (!place || problem.querySelector("[data-go-to]")) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn btn-sm";
  button.dataset.goTo = "";
  button.textContent = "Go to error";
  const textarea = document.querySelector("textarea[data-code]");
  button.addEventListener("click", () => goTo(textarea, Number(place[1]), Number(place[2])));
  problem.lastElementChild.append(button);
});

// --- names at the cursor, and saving ----------------------------------------------------------------

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-insert]");
  if (button) insert(document.querySelector("textarea[data-code]"), button.dataset.insert);
});

function insertName(input) {
  const textarea = document.getElementById(input.dataset.insertInto);
  if (!input.value || !textarea) return;
  insert(textarea, input.value);
  input.value = "";
}

for (const input of document.querySelectorAll("input[data-insert-into]")) {
  input.addEventListener("change", () => insertName(input));
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    insertName(input);
  });
}

for (const form of document.querySelectorAll("form[data-text-from]")) {
  form.addEventListener("submit", () => {
    form.elements.text.value = document.getElementById(form.dataset.textFrom).value;
  });
}

const tree = document.querySelector("details[data-open-wide]");
if (tree && window.matchMedia("(min-width: 62rem)").matches) tree.open = true;
