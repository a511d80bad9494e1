// Sets light or dark before anything is painted. "auto" follows the system.
(function () {
  "use strict";
  var KEY = "elevata-theme";
  var dark = window.matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      var stored = window.localStorage.getItem(KEY);
      return stored === "light" || stored === "dark" ? stored : "auto";
    } catch (error) {
      return "auto";
    }
  }

  function apply() {
    var theme = chosen();
    document.documentElement.setAttribute(
      "data-bs-theme",
      theme === "auto" ? (dark.matches ? "dark" : "light") : theme
    );
    document.querySelectorAll("[data-theme-choice]").forEach(function (button) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === theme));
    });
  }

  apply();
  dark.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", apply);
  document.addEventListener("click", function (event) {
    var button = event.target.closest("[data-theme-choice]");
    if (!button) return;
    try {
      window.localStorage.setItem(KEY, button.dataset.themeChoice);
    } catch (error) {
      // Without storage the choice lasts for this page only.
    }
    apply();
  });
})();
