// A live log: <section data-live-log> with a scrolling box of lines whose last one asks for more (htmx).
// It follows the newest line until somebody scrolls up or pauses; paused, nothing is asked for.
(function () {
  "use strict";

  function parts(log) {
    return {
      box: log.querySelector(".log-box"),
      more: log.querySelector(".log-more"),
      button: log.querySelector("[data-log-pause]"),
      help: log.querySelector("[data-log-help]"),
      state: log.querySelector("[data-log-state]"),
    };
  }

  function atEnd(box) {
    return box.scrollHeight - box.scrollTop - box.clientHeight < 12;
  }

  function toEnd(box) {
    box.scrollTop = box.scrollHeight;
  }

  function say(log) {
    var found = parts(log);
    if (!found.button) return;
    var over = !found.more;
    var paused = log.hasAttribute("data-paused");
    found.button.hidden = over;
    found.help.hidden = false;
    found.button.setAttribute("aria-pressed", paused ? "true" : "false");
    var said = over
      ? "Complete: the execution has ended."
      : paused
        ? "Paused: nothing is asked for until you go on."
        : log.hasAttribute("data-loose")
          ? "New lines come below; you have scrolled up."
          : "Following: new lines come at most two seconds late.";
    if (found.state.textContent !== said) found.state.textContent = said;
    if (found.more) found.more.hidden = paused;
  }

  function pause(log, wanted) {
    log.toggleAttribute("data-paused", wanted);
    if (!wanted) {
      log.removeAttribute("data-loose");
      toEnd(parts(log).box);
    }
    say(log);
  }

  document.addEventListener("click", function (event) {
    var button = event.target.closest("[data-log-pause]");
    if (!button) return;
    var log = button.closest("[data-live-log]");
    pause(log, !log.hasAttribute("data-paused"));
  });

  document.addEventListener("keydown", function (event) {
    var box = event.target.closest && event.target.closest(".log-box");
    if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
    var log = box.closest("[data-live-log]");
    if (event.key === "p" && parts(log).more) {
      event.preventDefault();
      pause(log, !log.hasAttribute("data-paused"));
    } else if (event.key === "End") {
      event.preventDefault();
      toEnd(box);
    }
  });

  // Capturing, because scroll events do not bubble.
  document.addEventListener(
    "scroll",
    function (event) {
      if (!event.target.classList || !event.target.classList.contains("log-box")) return;
      var log = event.target.closest("[data-live-log]");
      log.toggleAttribute("data-loose", !atEnd(event.target));
      say(log);
    },
    true
  );

  document.addEventListener("htmx:beforeRequest", function (event) {
    var log = event.target.closest && event.target.closest("[data-live-log][data-paused]");
    if (log && event.target.classList.contains("log-more")) event.preventDefault();
  });

  document.addEventListener("htmx:afterSettle", function () {
    document.querySelectorAll("[data-live-log]").forEach(function (log) {
      var box = parts(log).box;
      if (box && !log.hasAttribute("data-paused") && !log.hasAttribute("data-loose")) toEnd(box);
      say(log);
    });
  });

  document.querySelectorAll("[data-live-log]").forEach(function (log) {
    var box = parts(log).box;
    if (box) toEnd(box);
    say(log);
  });
})();
