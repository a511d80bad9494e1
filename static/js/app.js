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
  document.addEventListener("htmx:sendError", function () { connection(true); });
  document.addEventListener("htmx:timeout", function () { connection(true); });
  document.addEventListener("htmx:responseError", function (event) {
    if (event.detail.xhr.status >= 500) connection(true);
  });
  document.addEventListener("htmx:beforeOnLoad", function (event) {
    if (event.detail.xhr.status < 500) connection(false);
  });

  // --- after a boosted tab change the panel has the focus, so that the keyboard goes on there ---
  document.addEventListener("htmx:afterSettle", function (event) {
    var chosen = event.target.querySelector && event.target.querySelector("[data-focus-after-swap]");
    if (chosen && event.detail.requestConfig && event.detail.requestConfig.boosted) {
      chosen.focus({ preventScroll: true });
    }
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
