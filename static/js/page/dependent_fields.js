// Fields of a form that only some values of another field need: [data-needs] names that field, [data-needs-one-of] its
// values. The others are hidden.

function fit(form) {
  form.querySelectorAll("[data-needs]").forEach((input) => {
    const values = input.dataset.needsOneOf.split(" ");
    input.closest(".field").hidden = !values.includes(form.elements[input.dataset.needs].value);
  });
}

document.querySelectorAll("form:has([data-needs])").forEach(fit);
document.addEventListener("change", (event) => {
  if (event.target.form?.querySelector(`[data-needs="${event.target.name}"]`)) fit(event.target.form);
});
