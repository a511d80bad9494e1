// Keyboard and focus on every page: tabs, questions beside their button, search fields of lists.

// --- after a boosted tab change the panel has the focus, so that the keyboard goes on there ---
// With the swap itself, not after it settled: a key pressed in between has moved the focus on.
document.addEventListener("htmx:afterSwap", (event) => {
  const panel = event.target.querySelector?.("[data-focus-after-swap]");
  if (panel && event.detail.requestConfig?.boosted) panel.focus({ preventScroll: true });
});

// --- tabs that do not fit: the one that is open is in sight ---
function scrollTabs() {
  document.querySelectorAll(".tabs [aria-current]").forEach((open) => {
    const tabs = open.closest(".tabs");
    const over = open.getBoundingClientRect().right - tabs.getBoundingClientRect().right;
    if (over > 0) tabs.scrollLeft += over;
  });
}

scrollTabs();
document.addEventListener("htmx:afterSettle", scrollTabs);

// --- a question beside its button: Esc, wherever the focus is, and a click elsewhere close it ---
document.addEventListener("keydown", (event) => {
  const question = event.key === "Escape" && document.querySelector("details.sure[open]");
  if (!question) return;
  question.open = false;
  question.querySelector("summary").focus();
});

document.addEventListener("click", (event) => {
  document.querySelectorAll("details.sure[open]").forEach((question) => {
    if (!question.contains(event.target)) question.open = false;
  });
});

// --- leaving a search field does not search again: the rows would be replaced under the focus ---
document.addEventListener(
  "change",
  (event) => {
    if (event.target.matches("[data-search]")) event.stopPropagation();
  },
  true,
);
