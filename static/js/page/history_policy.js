// Form of the history policy: a field that has no effect with the other choices is disabled, with the reason.
// The answer to each choice lists these fields. Typed values are kept.

document.addEventListener("htmx:afterSwap", () => {
  const element = document.getElementById("policy-unused");
  if (!element) return;
  const unused = JSON.parse(element.textContent);
  document.querySelectorAll("[data-policy-field]").forEach((field) => {
    const why = unused[field.dataset.policyField] || "";
    const reason = field.querySelector("[data-why]");
    field.querySelector("fieldset").disabled = why !== "";
    reason.textContent = why;
    reason.parentElement.hidden = why === "";
  });
});
