// Live parts: what is open, followed or focused in a part stays so when htmx replaces the part.

// --- details: a click, with the keyboard too, and not "toggle": that also fires for parts that arrive open ---
const toggled = new Map();

document.addEventListener("click", (event) => {
  const details = event.target.closest("summary")?.parentElement;
  if (details?.id) toggled.set(details.id, !details.open);
});

document.addEventListener("htmx:afterSwap", () => {
  toggled.forEach((open, id) => {
    const details = document.getElementById(id);
    if (details && details.open !== open) details.open = open;
  });
});

// --- scrolling boxes [data-follow]: at the end, or where somebody scrolled to ---
let scrolledTo = null;

function follow() {
  document.querySelectorAll("[data-follow]").forEach((log) => {
    log.scrollTop = scrolledTo ?? log.scrollHeight;
  });
}

document.addEventListener("htmx:beforeSwap", (event) => {
  const log = event.detail.target.querySelector?.("[data-follow]");
  if (log) scrolledTo = log.scrollHeight - log.scrollTop - log.clientHeight < 8 ? null : log.scrollTop;
});
document.addEventListener("htmx:afterSettle", follow);
follow();

// --- focus, also of an element without an id that htmx would find it by ---
const USABLE = "a[href], button, summary, input, select, textarea, [tabindex]";
let focused = null;

const signature = (element) =>
  [element.tagName, element.getAttribute("href"), element.name, element.textContent].join(" ");
const alike = (part, sign) =>
  Array.from(part.querySelectorAll(USABLE)).filter((element) => signature(element) === sign);

document.addEventListener("htmx:beforeSwap", (event) => {
  const part = event.detail.target;
  const active = document.activeElement;
  focused = null;
  if (!part?.id || !part.contains?.(active) || part === active) return;
  const sign = signature(active);
  focused = { part: part.id, sign, place: alike(part, sign).indexOf(active) };
});

document.addEventListener("htmx:afterSettle", () => {
  const part = focused && document.getElementById(focused.part);
  if (!part || (document.activeElement && document.activeElement !== document.body)) return;
  alike(part, focused.sign)[focused.place]?.focus({ preventScroll: true });
  focused = null;
});
