// SQL page: names are inserted at the cursor, Ctrl+Enter runs the query, and saving takes the editor's text.

const text = document.getElementById("id_text");
const name = document.getElementById("sql-name");

const runOnCtrlEnter = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    text.form.requestSubmit();
  }
};

const insertName = () => {
  if (!name.value) return;
  text.setRangeText(name.value, text.selectionStart, text.selectionEnd, "end");
  name.value = "";
  text.focus();
};

const insertOnEnter = (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  insertName();
};

if (text) {
  text.addEventListener("keydown", runOnCtrlEnter);
  name?.addEventListener("change", insertName);
  name?.addEventListener("keydown", insertOnEnter);
  for (const form of document.querySelectorAll("form[data-text-from]")) {
    form.addEventListener("submit", () => {
      form.elements.text.value = text.value;
    });
  }
}
