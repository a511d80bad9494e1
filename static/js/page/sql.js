// SQL editors: a chosen name is inserted at the cursor, Ctrl+Enter sends the form, and saving takes the editor's text.

const insertInto = (name) => {
  const text = document.getElementById(name.dataset.insertInto);
  if (!name.value || !text) return;
  text.setRangeText(name.value, text.selectionStart, text.selectionEnd, "end");
  text.dispatchEvent(new Event("input", { bubbles: true }));
  name.value = "";
  text.focus();
};

for (const text of document.querySelectorAll("textarea[data-code]")) {
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      text.form.requestSubmit();
    }
  });
}

for (const name of document.querySelectorAll("input[data-insert-into]")) {
  name.addEventListener("change", () => insertInto(name));
  name.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    insertInto(name);
  });
}

for (const form of document.querySelectorAll("form[data-text-from]")) {
  form.addEventListener("submit", () => {
    form.elements.text.value = document.getElementById(form.dataset.textFrom).value;
  });
}
