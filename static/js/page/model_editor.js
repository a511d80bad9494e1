// Model editor: the place of an error, the SELECT of the builder, and fields of the chosen increment.

import { goTo } from "./code_editor.js";

const text = document.getElementById("id_select");

const showPlace = () => {
  const button = document.querySelector("#model-preview [data-go-to]");
  const place = /line (\d+), column (\d+)/i.exec(document.querySelector("#model-preview [data-problem]")?.textContent);
  if (!button || !place) return;
  button.hidden = false;
  button.addEventListener("click", () => goTo(text, Number(place[1]), Number(place[2])));
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

fitIncrement(text.form);
text.form.elements.increment_by.addEventListener("change", () => fitIncrement(text.form));
document.addEventListener("htmx:afterSwap", () => {
  showPlace();
  takeWritten();
});
