// Data that a schedule waits for: fields that do not apply to the chosen kind are hidden.

function fit(form) {
  const kind = form.elements.wait_for.value;
  form.querySelectorAll("[data-waits]").forEach((input) => {
    input.closest(".field").hidden = !input.dataset.waits.split(" ").includes(kind);
  });
}

document.querySelectorAll("form:has([data-waits])").forEach(fit);
document.addEventListener("change", (event) => {
  if (event.target.name === "wait_for" && event.target.form) fit(event.target.form);
});
