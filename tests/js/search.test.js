// The search dialog by keyboard. The focus after it is the browser's: tests/e2e/test_search_dialog.py.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

class Element {
  constructor(tagName, attributes = {}) {
    Object.assign(this, { tagName, attributes, listeners: {}, value: "", open: false });
    Object.assign(this, { clicks: 0, isContentEditable: false });
  }
  addEventListener(kind, listener) {
    this.listeners[kind] = listener;
  }
  getAttribute(name) {
    return this.attributes[name];
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  removeAttribute(name) {
    delete this.attributes[name];
  }
  showModal() {
    this.open = true;
  }
  close() {
    this.open = false;
  }
  click() {
    this.clicks += 1;
  }
  focus() {
    this.focused = true;
  }
  select() {}
  scrollIntoView() {}
}

const dialog = new Element("DIALOG");
const field = new Element("INPUT");
const page = new Element("DOCUMENT");
let results = [];
dialog.querySelectorAll = () => results;
dialog.querySelector = () => results.find((option) => option.getAttribute("aria-selected") === "true") ?? null;
field.form = { submitted: 0, submit() { this.submitted += 1; } };
page.getElementById = (id) => ({ "search-dialog": dialog, "search-text": field })[id];
globalThis.document = page;
await import("../../static/js/page/search.js");

function press(on, key, more = {}) {
  const event = {
    key,
    target: new Element("BODY"),
    prevented: false,
    preventDefault() {
      this.prevented = true;
    },
    composedPath() {
      return [this.inside ?? this.target];
    },
    ...more,
  };
  on.listeners.keydown(event);
  return event;
}

const selected = () => results.map((option) => option.getAttribute("aria-selected") === "true");

beforeEach(() => {
  Object.assign(dialog, { open: false });
  Object.assign(field, { value: "", focused: false });
  field.form.submitted = 0;
  results = ["a", "b", "c"].map((name) => new Element("A", { "aria-selected": "false", name }));
});

test("Ctrl-K, Cmd-K and / open the dialog with the focus in its field", () => {
  const opening = [
    ["k", { ctrlKey: true }],
    ["K", { metaKey: true }],
    ["/", {}],
    ["/", { shiftKey: true }],
  ];
  for (const [key, more] of opening) {
    dialog.open = false;
    assert.equal(press(page, key, more).prevented, true);
    assert.equal(dialog.open && field.focused, true);
  }
});

test("/ typed in a field is a character, and Ctrl-K opens the dialog there, too", () => {
  const editor = Object.assign(new Element("DIV"), { isContentEditable: true });
  for (const target of [new Element("INPUT"), new Element("TEXTAREA"), editor]) {
    assert.equal(press(page, "/", { target }).prevented, false);
    assert.equal(dialog.open, false);
  }
  press(page, "k", { ctrlKey: true, target: new Element("INPUT") });
  assert.equal(dialog.open, true);
});

test("/ typed in an editor inside of a shadow root is a character", () => {
  const inside = Object.assign(new Element("DIV"), { isContentEditable: true });
  assert.equal(press(page, "/", { target: new Element("DIV"), inside }).prevented, false);
  assert.equal(dialog.open, false);
});

test("other keys do not open it", () => {
  const others = [
    ["k", {}],
    ["/", { altKey: true }],
    ["k", { ctrlKey: true, altKey: true }],
    ["/", { ctrlKey: true }],
  ];
  for (const [key, more] of others) {
    assert.equal(press(page, key, more).prevented, false);
    assert.equal(dialog.open, false);
  }
});

test("results that arrive have the first chosen; arrows move, round the ends", () => {
  dialog.listeners["htmx:afterSwap"]();
  assert.deepEqual(selected(), [true, false, false]);
  press(field, "ArrowUp");
  assert.deepEqual(selected(), [false, false, true]);
  press(field, "ArrowDown");
  press(field, "ArrowDown");
  assert.deepEqual(selected(), [false, true, false]);
  assert.equal(field.getAttribute("aria-expanded"), "true");
});

test("Enter follows the chosen result and closes the dialog", () => {
  dialog.open = true;
  dialog.listeners["htmx:afterSwap"]();
  press(field, "ArrowDown");
  press(field, "Enter");
  assert.deepEqual(results.map((option) => option.clicks), [0, 1, 0]);
  assert.equal(dialog.open, false);
});

test("Esc closes the dialog, also with a text in the field", () => {
  dialog.open = true;
  field.value = "air";
  assert.equal(press(field, "Escape").prevented, true);
  assert.equal(dialog.open, false);
});

test("Ctrl-Enter, and Enter without a result, open the page of results", () => {
  field.value = "air";
  dialog.listeners["htmx:afterSwap"]();
  press(field, "Enter", { ctrlKey: true });
  results = [];
  press(field, "Enter");
  assert.equal(field.form.submitted, 2);
});

test("results of a former text are not chosen for a new one", () => {
  dialog.listeners["htmx:afterSwap"]();
  field.listeners.input();
  assert.deepEqual(selected(), [false, false, false]);
});
