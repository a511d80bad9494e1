// A live log: <section data-live-log> with a scrolling box of lines whose last one asks for more (htmx).
// It follows the newest line until somebody scrolls up or pauses; paused, nothing is asked for.

function parts(log) {
  return {
    box: log.querySelector(".log-box"),
    more: log.querySelector(".log-more"),
    button: log.querySelector("[data-log-pause]"),
    help: log.querySelector("[data-log-help]"),
    state: log.querySelector("[data-log-state]"),
  };
}

const isAtEnd = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 12;

function toEnd(box) {
  box.scrollTop = box.scrollHeight;
}

function stateOf(log, over, paused) {
  if (over) return "Complete: the execution has ended.";
  if (paused) return "Paused: nothing is asked for until you go on.";
  if (log.hasAttribute("data-loose")) return "New lines come below; you have scrolled up.";
  return "Following new lines.";
}

function update(log) {
  const { more, button, help, state } = parts(log);
  if (!button) return;
  const paused = log.hasAttribute("data-paused");
  const text = stateOf(log, !more, paused);
  button.hidden = !more;
  help.hidden = false;
  button.setAttribute("aria-pressed", String(paused));
  if (state.textContent !== text) state.textContent = text;
  if (more) more.hidden = paused;
}

function pause(log, wanted) {
  log.toggleAttribute("data-paused", wanted);
  if (!wanted) {
    log.removeAttribute("data-loose");
    toEnd(parts(log).box);
  }
  update(log);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-log-pause]");
  if (!button) return;
  const log = button.closest("[data-live-log]");
  pause(log, !log.hasAttribute("data-paused"));
});

document.addEventListener("keydown", (event) => {
  const box = event.target.closest?.(".log-box");
  if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
  const log = box.closest("[data-live-log]");
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
  (event) => {
    if (!event.target.classList?.contains("log-box")) return;
    const log = event.target.closest("[data-live-log]");
    log.toggleAttribute("data-loose", !isAtEnd(event.target));
    update(log);
  },
  true
);

document.addEventListener("htmx:beforeRequest", (event) => {
  const log = event.target.closest?.("[data-live-log][data-paused]");
  if (log && event.target.classList.contains("log-more")) event.preventDefault();
});

document.addEventListener("htmx:afterSettle", () => {
  document.querySelectorAll("[data-live-log]").forEach((log) => {
    const { box } = parts(log);
    if (box && !log.hasAttribute("data-paused") && !log.hasAttribute("data-loose")) toEnd(box);
    update(log);
  });
});

document.querySelectorAll("[data-live-log]").forEach((log) => {
  const { box } = parts(log);
  if (box) toEnd(box);
  update(log);
});
