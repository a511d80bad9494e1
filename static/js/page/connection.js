// Requests without an answer, and refused ones, are told in words.

const WHY = {
  403:
    "You may not do this, or not any more. What you typed is still here; " +
    "load the page again to see what you may do.",
  404: "What this is about is gone. Load the page again to see what became of it.",
};

const isLive = (part) => /every/.test(part.getAttribute("hx-trigger") || "");

// Shown once, taken back with the next answer.
function showLost(lost) {
  const note = document.getElementById("connection-lost");
  if (note) note.hidden = !lost;
}

export function showRefused(text) {
  const note = document.getElementById("request-refused");
  if (!note) return;
  note.hidden = !text;
  note.textContent = text;
}

function unanswered({ elt }) {
  if (isLive(elt)) showLost(true);
  else showRefused("No answer from the server. What you typed is still here: try again in a moment.");
}

// A live part of something that is gone asks no more.
function refused({ elt, xhr }) {
  showRefused(WHY[xhr.status] || `The server did not take this (${xhr.status}). Load the page again.`);
  if (!isLive(elt)) return;
  const still = elt.cloneNode(true);
  still.removeAttribute("hx-trigger");
  still.removeAttribute("hx-get");
  elt.replaceWith(still);
}

document.addEventListener("htmx:sendError", ({ detail }) => unanswered(detail));
document.addEventListener("htmx:timeout", ({ detail }) => unanswered(detail));
document.addEventListener("htmx:responseError", ({ detail }) => {
  if (detail.xhr.status >= 500) unanswered(detail);
  else refused(detail);
});
document.addEventListener("htmx:beforeOnLoad", ({ detail }) => {
  if (detail.xhr.status < 500) showLost(false);
});
document.addEventListener("htmx:beforeRequest", ({ detail }) => {
  if (!isLive(detail.elt)) showRefused("");
});
