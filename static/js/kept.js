// What was typed into a form is not lost when sending it comes to nothing: the session has ended, the
// server answers with an error, the thing is gone. It is kept in this tab alone until a page arrives
// that has dealt with it, and comes back in the same form, for the same person. Forms with a password,
// or marked data-not-kept, are never kept.
(function () {
  "use strict";
  var KEY = "elevata-kept", ANSWERED_WITHIN = 120000;
  var UNKEPT = "input[type=password], [data-secret]";

  function stored() {
    try {
      return JSON.parse(window.sessionStorage.getItem(KEY));
    } catch (error) {
      return null;
    }
  }
  function store(kept) {
    try {
      window.sessionStorage.setItem(KEY, JSON.stringify(kept));
    } catch (error) {
      // Without storage the form is sent as ever.
    }
  }
  function drop() {
    try {
      window.sessionStorage.removeItem(KEY);
    } catch (error) {
      // Then nothing was stored.
    }
  }

  // --- a form is sent ------------------------------------------------------------------------
  function here() { return window.location.pathname + window.location.search; }
  function path(form) { return new URL(form.getAttribute("action") || "", window.location.href).pathname; }
  function like(action) {
    return Array.from(document.forms).filter(function (form) { return form.method === "post" && path(form) === action; });
  }
  function seen(control) {
    return control.name && !/^(hidden|submit|button|reset|file|image|password)$/.test(control.type);
  }
  function label(control) {
    var group = control.type === "radio" && control.closest("fieldset");
    var found = group ? group.querySelector("legend") : control.labels && control.labels[0];
    return found ? found.textContent.trim().replace(/\s+/g, " ") : control.name;
  }
  document.addEventListener("submit", function (event) {
    var form = event.target;
    // Who signs in has nothing to keep, and gets back what is kept.
    if (form.method !== "post" || !document.body.dataset.person) return;
    drop();
    if (form.matches("[data-not-kept]") || form.querySelector(UNKEPT)) return;
    var typed = Array.from(form.elements).filter(seen);
    if (!typed.length) return;
    var labels = {};
    typed.forEach(function (control) { labels[control.name] = labels[control.name] || label(control); });
    var fields = Array.from(new FormData(form)).filter(function (pair) {
      return typeof pair[1] === "string" && pair[0] !== "csrfmiddlewaretoken";
    });
    var action = path(form);
    store({
      person: document.body.dataset.person, page: here(), action: action, place: like(action).indexOf(form),
      at: Date.now(), lost: false, fields: fields, labels: labels
    });
  }, true);
  // htmx answers in place: what was typed still stands there, unless it leads to sign-in.
  document.addEventListener("htmx:afterRequest", function (event) {
    var answer = event.detail.xhr;
    if (event.target.tagName === "FORM" && !(answer && answer.getResponseHeader("HX-Redirect"))) drop();
  });

  // --- a page arrives ------------------------------------------------------------------------
  function element(name, text, within) {
    var made = document.createElement(name);
    if (text) made.textContent = text;
    if (within) within.append(made);
    return made;
  }
  function list(kept, within) {
    var facts = element("dl", "", within);
    facts.className = "kept-fields";
    kept.fields.forEach(function (pair) {
      if (!kept.labels[pair[0]] || !pair[1].trim()) return;
      element("dt", kept.labels[pair[0]], facts);
      element("dd", pair[1], facts);
    });
  }
  function note(title, said, before) {
    var made = document.createElement("div");
    made.className = "note note-warning kept-note";
    made.tabIndex = -1;
    var inner = element("div", "", made);
    element("strong", title, inner);
    element("p", said, inner);
    before.before(made);
    made.setAttribute("role", "status");
    made.focus();
    return inner;
  }
  // Sign-in and pages of errors have a place for it.
  function interrupted(place, kept) {
    if (!kept.lost && Date.now() - kept.at > ANSWERED_WITHIN) return drop();
    kept.lost = true;
    store(kept);
    place.hidden = false;
    var back = place.querySelector("[data-kept-back]");
    if (back) back.href = kept.page;
    var fields = place.querySelector("[data-kept-fields]");
    if (fields) list(kept, fields);
    return undefined;
  }
  function fill(form, kept) {
    var values = {};
    kept.fields.forEach(function (pair) { (values[pair[0]] = values[pair[0]] || []).push(pair[1]); });
    var moved = [];
    Array.from(form.elements).forEach(function (control) {
      if (!control.name || control.disabled || control.name === "csrfmiddlewaretoken") return;
      if (control.type === "hidden") {
        // With the version that was seen, so that a conflict is still found.
        if (values[control.name]) control.value = values[control.name].shift();
      } else if (!seen(control)) {
        return;
      } else if (control.type === "checkbox" || control.type === "radio") {
        var on = (values[control.name] || []).indexOf(control.value) >= 0;
        if (control.checked !== on) moved.push(control);
        control.checked = on;
      } else if (control.tagName === "SELECT" && control.multiple) {
        Array.from(control.options).forEach(function (option) {
          option.selected = (values[control.name] || []).indexOf(option.value) >= 0;
        });
      } else if (values[control.name] && values[control.name].length) {
        var value = values[control.name].shift();
        if (control.value !== value) moved.push(control);
        control.value = value;
      }
    });
    moved.forEach(function (control) {
      ["input", "change"].forEach(function (kind) { control.dispatchEvent(new Event(kind, { bubbles: true })); });
    });
  }
  function restore(kept) {
    drop();
    var form = like(kept.action)[kept.place];
    if (!form) return tellApart(kept);
    for (var around = form.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
    fill(form, kept);
    note("What you typed is back.", "It could not be sent before, and nothing of it is saved yet: look it over and send it again.", form);
    return undefined;
  }
  function tellApart(kept) {
    drop();
    var before = document.querySelector("#main .page-body-dense") || document.querySelector("main").lastElementChild;
    var inner = note("What you typed was not saved.", "Its form is not on this page. You typed:", before);
    list(kept, inner);
    if (kept.page === here()) return;
    var link = element("a", "To the page of the form", element("p", "", inner));
    link.href = kept.page;
  }
  function cameBack() {
    var entry = window.performance.getEntriesByType("navigation")[0];
    return Boolean(entry) && entry.type === "back_forward";
  }
  var kept = stored(), place = document.querySelector("[data-kept]");
  if (kept && place) interrupted(place, kept);
  else if (kept && kept.person !== document.body.dataset.person) drop();
  else if (kept && kept.page === here() && (kept.lost || cameBack())) restore(kept);
  else if (kept && kept.lost) tellApart(kept);
  else if (kept) drop();
})();
