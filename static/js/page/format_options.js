// Options of a source or system: an empty field is hidden if the chosen format or kind lacks its option.

function isEmpty(input) {
  if (input.type === "checkbox") return !input.checked;
  return input.tagName === "SELECT" ? input.selectedIndex <= 0 : input.value === "";
}

function fit(form) {
  const format = (form.elements.format ?? form.elements.kind)?.value;
  form.querySelectorAll("[data-formats]").forEach((input) => {
    const isOption = input.dataset.formats.split(" ").includes(format);
    input.closest(".field").hidden = !isOption && isEmpty(input);
  });
}

const fitAll = () => document.querySelectorAll("form:has([data-formats])").forEach(fit);

fitAll();
document.addEventListener("htmx:afterSwap", fitAll);
document.addEventListener("change", (event) => {
  if (["format", "kind"].includes(event.target.name) && event.target.form) fit(event.target.form);
});
