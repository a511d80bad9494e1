// Model editor: line numbers, the place of an error, the SELECT of the builder, and fields of the chosen increment.

const text = document.getElementById("id_select");

const numbers = document.createElement("pre");
numbers.className = "line-numbers";
numbers.setAttribute("aria-hidden", "true");

const number = () => {
  const count = text.value.split("\n").length;
  numbers.textContent = Array.from({ length: count }, (_, line) => line + 1).join("\n");
  numbers.scrollTop = text.scrollTop;
};

const goTo = (line, column) => {
  const lines = text.value.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  text.focus();
  text.setSelectionRange(before + column - 1, before + column);
};

const showPlace = () => {
  const button = document.querySelector("#model-preview [data-go-to]");
  const place = /line (\d+), column (\d+)/i.exec(document.querySelector("#model-preview [data-problem]")?.textContent);
  if (!button || !place) return;
  button.hidden = false;
  button.addEventListener("click", () => goTo(Number(place[1]), Number(place[2])));
};

const takeWritten = () => {
  const written = document.querySelector("#model-builder [data-written]");
  if (!written) return;
  text.value = written.value;
  written.remove();
  text.dispatchEvent(new Event("input", { bubbles: true }));
};

const fitIncrement = (form) => {
  for (const input of form.querySelectorAll("[data-increment]")) {
    input.closest(".field").hidden = input.dataset.increment !== form.elements.increment_by.value;
  }
};

text.parentElement.classList.add("numbered");
text.before(numbers);
number();
text.addEventListener("input", number);
text.addEventListener("scroll", number);
fitIncrement(text.form);
text.form.elements.increment_by.addEventListener("change", () => fitIncrement(text.form));
document.addEventListener("htmx:afterSwap", () => {
  showPlace();
  takeWritten();
});
