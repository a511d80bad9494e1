// What was typed into a form is not lost when sending it comes to nothing: the session has ended, the
// server answers with an error, the thing is gone. It is kept in this tab alone until a page arrives
// that has dealt with it, and comes back in the same form, for the same person. Forms with a password
// are never kept.

const KEY = "elevata-kept";
const ANSWERED_WITHIN = 120000; // milliseconds

function stored() {
  try {
    return JSON.parse(window.sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
}

function store(draft) {
  try {
    window.sessionStorage.setItem(KEY, JSON.stringify(draft));
  } catch {
    // Without storage the form is sent as ever.
  }
}

function drop() {
  try {
    window.sessionStorage.removeItem(KEY);
  } catch {
    // Then nothing was stored.
  }
}

// --- a form is sent ------------------------------------------------------------------------
const here = () => window.location.pathname + window.location.search;
const path = (form) => new URL(form.getAttribute("action") || "", window.location.href).pathname;
const formsTo = (action) =>
  Array.from(document.forms).filter((form) => form.method === "post" && path(form) === action);
const isVisible = (control) =>
  control.name && !/^(hidden|submit|button|reset|file|image|password)$/.test(control.type);

function label(control) {
  const group = control.type === "radio" && control.closest("fieldset");
  const element = group ? group.querySelector("legend") : control.labels?.[0];
  return element ? element.textContent.trim().replace(/\s+/g, " ") : control.name;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  // Who signs in has nothing to keep, and gets back what is kept.
  if (form.method !== "post" || !document.body.dataset.person) return;
  drop();
  if (form.querySelector("input[type=password]")) return;
  const typed = Array.from(form.elements).filter(isVisible);
  if (!typed.length) return;
  const labels = {};
  typed.forEach((control) => {
    labels[control.name] ||= label(control);
  });
  const fields = Array.from(new FormData(form)).filter(
    ([name, value]) => typeof value === "string" && name !== "csrfmiddlewaretoken"
  );
  const action = path(form);
  store({
    person: document.body.dataset.person,
    page: here(),
    action,
    place: formsTo(action).indexOf(form),
    at: Date.now(),
    lost: false,
    fields,
    labels,
  });
}, true);

// htmx answers in place: what was typed still stands there, unless it leads to sign-in.
document.addEventListener("htmx:afterRequest", (event) => {
  const answer = event.detail.xhr;
  if (event.target.tagName === "FORM" && !answer?.getResponseHeader("HX-Redirect")) drop();
});

// --- a page arrives ------------------------------------------------------------------------
function append(parent, name, text = "") {
  const element = document.createElement(name);
  element.textContent = text;
  parent.append(element);
  return element;
}

function listFields(draft, parent) {
  const list = append(parent, "dl");
  list.className = "kept-fields";
  draft.fields.forEach(([name, value]) => {
    if (!draft.labels[name] || !value.trim()) return;
    append(list, "dt", draft.labels[name]);
    append(list, "dd", value);
  });
}

function note(title, text, before) {
  const box = document.createElement("div");
  box.className = "note note-warning kept-note";
  box.tabIndex = -1;
  const inner = append(box, "div");
  append(inner, "strong", title);
  append(inner, "p", text);
  before.before(box);
  box.setAttribute("role", "status");
  box.focus();
  return inner;
}

// Sign-in and pages of errors have a place for it.
function interrupted(place, draft) {
  if (!draft.lost && Date.now() - draft.at > ANSWERED_WITHIN) {
    drop();
    return;
  }
  draft.lost = true;
  store(draft);
  place.hidden = false;
  const back = place.querySelector("[data-kept-back]");
  if (back) back.href = draft.page;
  const fields = place.querySelector("[data-kept-fields]");
  if (fields) listFields(draft, fields);
}

function fill(form, draft) {
  const values = {};
  draft.fields.forEach(([name, value]) => (values[name] ||= []).push(value));
  const changed = Array.from(form.elements).filter((control) => fillControl(control, values[control.name] || []));
  changed.forEach((control) => {
    ["input", "change"].forEach((kind) => control.dispatchEvent(new Event(kind, { bubbles: true })));
  });
}

// Give a control its value back; true if that is a change that the page should hear of.
function fillControl(control, values) {
  if (!control.name || control.disabled || control.name === "csrfmiddlewaretoken") return false;
  if (control.type === "hidden") {
    // With the version that was seen, so that a conflict is still found.
    if (values.length) control.value = values.shift();
    return false;
  }
  if (!isVisible(control)) return false;
  if (control.type === "checkbox" || control.type === "radio") {
    const before = control.checked;
    control.checked = values.includes(control.value);
    return control.checked !== before;
  }
  if (control.tagName === "SELECT" && control.multiple) {
    Array.from(control.options).forEach((option) => {
      option.selected = values.includes(option.value);
    });
    return false;
  }
  if (!values.length) return false;
  const before = control.value;
  const value = values.shift();
  control.value = value;
  return value !== before;
}

function restore(draft) {
  const form = formsTo(draft.action)[draft.place];
  if (!form) {
    showApart(draft);
    return;
  }
  drop();
  for (let around = form.closest("details"); around; around = around.parentElement.closest("details")) {
    around.open = true;
  }
  fill(form, draft);
  const text = "It could not be sent before, and nothing of it is saved yet: look it over and send it again.";
  note("What you typed is back.", text, form);
}

function showApart(draft) {
  drop();
  const before = document.querySelector("#main .page-body-dense") || document.querySelector("main").lastElementChild;
  const inner = note("What you typed was not saved.", "Its form is not on this page. You typed:", before);
  listFields(draft, inner);
  if (draft.page === here()) return;
  append(append(inner, "p"), "a", "To the page of the form").href = draft.page;
}

const cameBack = () => window.performance.getEntriesByType("navigation")[0]?.type === "back_forward";

function arrive(draft) {
  const place = document.querySelector("[data-kept]");
  if (place) interrupted(place, draft);
  else if (draft.person !== document.body.dataset.person) drop();
  else if (draft.page === here() && (draft.lost || cameBack())) restore(draft);
  else if (draft.lost) showApart(draft);
  else drop();
}

const draft = stored();
if (draft) arrive(draft);
