// The history policy's form: a field that has no say beside the other choices is switched off, with the reason.
// Which ones stands in the part that shows what the policy does. Nothing that is typed is touched.

document.addEventListener("htmx:afterSwap", () => {
  const told = document.getElementById("policy-unused");
  if (!told) return;
  const unused = JSON.parse(told.textContent);
  document.querySelectorAll("[data-policy-field]").forEach((field) => {
    const why = unused[field.dataset.policyField] || "";
    const said = field.querySelector("[data-why]");
    field.querySelector("fieldset").disabled = why !== "";
    said.textContent = why;
    said.parentElement.hidden = why === "";
  });
});
