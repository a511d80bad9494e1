// The history policy's form: a field that has no say beside the other choices is switched off, with the reason.
// Which ones stands in the part that shows what the policy does. Nothing that is typed is touched.
(function () {
  "use strict";

  document.addEventListener("htmx:afterSwap", function () {
    var told = document.getElementById("policy-unused");
    if (!told) return;
    var unused = JSON.parse(told.textContent);
    document.querySelectorAll("[data-policy-field]").forEach(function (field) {
      var why = unused[field.dataset.policyField] || "";
      var said = field.querySelector("[data-why]");
      field.querySelector("fieldset").disabled = why !== "";
      said.textContent = why;
      said.parentElement.hidden = why === "";
    });
  });
})();
