// Small helps for pages: copying, clocks that tick, live parts that keep what is open.
(function () {
  "use strict";

  // --- copy buttons: <button data-copy="id of the element with the text"> -------------------
  document.addEventListener("click", function (event) {
    var button = event.target.closest("[data-copy]");
    if (!button) return;
    var text = document.getElementById(button.dataset.copy).textContent;
    var label = button.querySelector("[data-copy-label]");
    function say(message) {
      var before = label.dataset.before || label.textContent;
      label.dataset.before = before;
      label.textContent = message;
      window.setTimeout(function () {
        label.textContent = before;
      }, 1600);
    }
    if (navigator.clipboard) {
      navigator.clipboard.writeText(text).then(
        function () { say("Copied"); },
        function () { select(); }
      );
    } else {
      select();
    }
    function select() {
      window.getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
      say("Press Ctrl+C");
    }
  });

  // --- clocks: <span data-since="ISO time"> shows how long ago that is ------------------------
  function spell(seconds) {
    if (seconds < 60) return Math.floor(seconds) + " s";
    var minutes = Math.floor(seconds / 60);
    if (minutes < 60) return minutes + " min " + String(Math.floor(seconds % 60)).padStart(2, "0") + " s";
    return Math.floor(minutes / 60) + " h " + String(minutes % 60).padStart(2, "0") + " min";
  }
  function tick() {
    document.querySelectorAll("[data-since]").forEach(function (element) {
      var since = Date.parse(element.dataset.since);
      if (!isNaN(since)) element.textContent = spell(Math.max(0, (Date.now() - since) / 1000));
    });
  }
  tick();
  window.setInterval(tick, 1000);

  // --- live parts: what a person opened stays open when the part is replaced ------------------
  // A click, with the keyboard too, and not "toggle": that also fires for parts that arrive open.
  var toggled = new Map();
  document.addEventListener("click", function (event) {
    var summary = event.target.closest("summary");
    var details = summary && summary.parentElement;
    if (details && details.id) toggled.set(details.id, !details.open);
  });
  document.addEventListener("htmx:afterSwap", function () {
    toggled.forEach(function (open, id) {
      var details = document.getElementById(id);
      if (details && details.open !== open) details.open = open;
    });
    tick();
  });
  document.addEventListener("htmx:beforeSwap", function (event) {
    var log = event.detail.target.querySelector && event.detail.target.querySelector("[data-follow]");
    if (log) followed = log.scrollHeight - log.scrollTop - log.clientHeight < 8 ? null : log.scrollTop;
  });
  document.addEventListener("htmx:afterSettle", follow);
  var followed = null;
  function follow() {
    document.querySelectorAll("[data-follow]").forEach(function (log) {
      log.scrollTop = followed === null ? log.scrollHeight : followed;
    });
  }
  follow();

  // --- live parts: what has the focus keeps it, also without an id that htmx would find it by ----
  var USABLE = "a[href], button, summary, input, select, textarea, [tabindex]", held = null;
  function signed(one) { return [one.tagName, one.getAttribute("href"), one.name, one.textContent].join(" "); }
  function same(part, sign) {
    return Array.from(part.querySelectorAll(USABLE)).filter(function (one) { return signed(one) === sign; });
  }
  document.addEventListener("htmx:beforeSwap", function (event) {
    var part = event.detail.target, active = document.activeElement;
    held = null;
    if (!part || !part.id || !part.contains || !part.contains(active) || part === active) return;
    held = { part: part.id, sign: signed(active), place: same(part, signed(active)).indexOf(active) };
  });
  document.addEventListener("htmx:afterSettle", function () {
    var part = held && document.getElementById(held.part);
    if (!part || (document.activeElement && document.activeElement !== document.body)) return;
    var again = same(part, held.sign)[held.place];
    if (again) again.focus({ preventScroll: true });
    held = null;
  });

  // --- a form that only says "go on" is sent as soon as it arrives -----------------------------
  function goOn() {
    var form = document.querySelector("form[data-go-on]:not([data-sent])");
    if (!form) return;
    form.dataset.sent = "yes";
    form.requestSubmit();
  }
  document.addEventListener("htmx:afterSettle", goOn);

  // --- lost connection: said once, taken back with the next answer ----------------------------
  function connection(lost) {
    var note = document.getElementById("connection-lost");
    if (note) note.hidden = !lost;
  }
  document.addEventListener("htmx:sendError", function (event) { unanswered(event.detail); });
  document.addEventListener("htmx:timeout", function (event) { unanswered(event.detail); });
  document.addEventListener("htmx:responseError", function (event) {
    if (event.detail.xhr.status >= 500) unanswered(event.detail);
    else denied(event.detail);
  });
  document.addEventListener("htmx:beforeOnLoad", function (event) {
    if (event.detail.xhr.status < 500) connection(false);
  });
  function isLive(part) { return /every/.test(part.getAttribute("hx-trigger") || ""); }
  function unanswered(detail) {
    if (isLive(detail.elt)) connection(true);
    else refused("No answer from the server. What you typed is still here: try again in a moment.");
  }

  // --- refused: said in words. A live part of something that is gone asks no more --------------
  var WHY = {
    403: "You may not do this, or not any more. What you typed is still here; load the page again to see what you may do.",
    404: "What this is about is gone. Load the page again to see what became of it."
  };
  function refused(said) {
    var note = document.getElementById("request-refused");
    if (!note) return;
    note.hidden = !said;
    note.textContent = said;
  }
  function denied(detail) {
    var status = detail.xhr.status, part = detail.elt;
    refused(WHY[status] || "The server did not take this (" + status + "). Load the page again.");
    if (!isLive(part)) return;
    var still = part.cloneNode(true);
    still.removeAttribute("hx-trigger");
    still.removeAttribute("hx-get");
    part.replaceWith(still);
  }
  document.addEventListener("htmx:beforeRequest", function (event) {
    if (!isLive(event.detail.elt)) refused("");
  });

  // --- after a boosted tab change the panel has the focus, so that the keyboard goes on there ---
  // With the swap itself, not after it settled: a key pressed in between has moved the focus on.
  document.addEventListener("htmx:afterSwap", function (event) {
    var chosen = event.target.querySelector && event.target.querySelector("[data-focus-after-swap]");
    if (chosen && event.detail.requestConfig && event.detail.requestConfig.boosted) {
      chosen.focus({ preventScroll: true });
    }
  });

  // --- tabs that do not fit: the one that is open is in sight --------------------------------------
  function inSight() {
    document.querySelectorAll(".tabs [aria-current]").forEach(function (open) {
      var tabs = open.closest(".tabs"), over = open.getBoundingClientRect().right - tabs.getBoundingClientRect().right;
      if (over > 0) tabs.scrollLeft += over;
    });
  }
  inSight();
  document.addEventListener("htmx:afterSettle", inSight);

  // --- a question beside its button: Esc, and a click elsewhere, take it back --------------------
  function takeBack(question, focus) {
    question.open = false;
    if (focus) question.querySelector("summary").focus();
  }
  document.addEventListener("keydown", function (event) {
    var question = event.key === "Escape" && event.target.closest && event.target.closest("details.sure[open]");
    if (question) takeBack(question, true);
  });
  document.addEventListener("click", function (event) {
    document.querySelectorAll("details.sure[open]").forEach(function (question) {
      if (!question.contains(event.target)) takeBack(question, false);
    });
  });

  // --- "/" goes to the page's search field ----------------------------------------------------
  document.addEventListener("keydown", function (event) {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(input|textarea|select)$/i.test(event.target.tagName) || event.target.isContentEditable) return;
    var field = document.querySelector("[data-search]");
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  });
})();
