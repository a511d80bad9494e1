// The search dialog: Ctrl-K and "/" open it, arrows choose a result, Enter opens it, Esc closes the dialog.

const dialog = document.getElementById("search-dialog");
const field = document.getElementById("search-text");

const options = () => [...dialog.querySelectorAll("[role=option]")];

function choose(option) {
  options().forEach((other) => other.setAttribute("aria-selected", String(other === option)));
  field.setAttribute("aria-expanded", String(Boolean(option)));
  if (option) {
    field.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  } else {
    field.removeAttribute("aria-activedescendant");
  }
}

function chosen() {
  return dialog.querySelector("[role=option][aria-selected=true]");
}

function move(step) {
  const list = options();
  if (list.length) choose(list[(list.indexOf(chosen()) + step + list.length) % list.length]);
}

function open() {
  if (!dialog.open) dialog.showModal();
  field.focus();
  field.select();
}

// The target of an event in a shadow root, such as that of an SQL editor, is the first of its path.
function isTyping(event) {
  const [target] = event.composedPath();
  return /^(input|textarea|select)$/i.test(target.tagName) || target.isContentEditable;
}

function opensDialog(event) {
  if (event.altKey || event.shiftKey) return event.key === "/" && !event.altKey && !isTyping(event);
  if (event.ctrlKey || event.metaKey) return event.key.toLowerCase() === "k";
  return event.key === "/" && !isTyping(event);
}

function onKey(event) {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Escape") {
    // A browser would only clear a search field with a text.
    event.preventDefault();
    dialog.close();
  } else if (event.key === "Enter") {
    event.preventDefault();
    const option = event.ctrlKey || event.metaKey ? null : chosen();
    if (option) {
      // A link to a part of this page leaves the page as it is.
      dialog.close();
      option.click();
    } else if (field.value.trim()) field.form.submit();
  }
}

if (dialog) {
  document.addEventListener("keydown", (event) => {
    if (!opensDialog(event)) return;
    event.preventDefault();
    open();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-open-search]") && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      open();
    } else if (event.target === dialog) dialog.close();
  });
  field.addEventListener("keydown", onKey);
  // Results of a former text are not chosen for a new one.
  field.addEventListener("input", () => choose(null));
  dialog.addEventListener("htmx:afterSwap", () => choose(options()[0]));
}
