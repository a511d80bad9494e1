// Sets light or dark before anything is painted. "auto" follows the system. Not a module: a module runs only after
// the page was parsed, and a dark page would flash white.
{
  const KEY = "elevata-theme";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      const stored = window.localStorage.getItem(KEY);
      return stored === "light" || stored === "dark" ? stored : "auto";
    } catch {
      return "auto";
    }
  }

  function apply() {
    const theme = chosen();
    const shown = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
    document.documentElement.setAttribute("data-bs-theme", shown);
    // Swagger's own name for it.
    document.documentElement.classList.toggle("dark-mode", shown === "dark");
    document.querySelectorAll("[data-theme-choice]").forEach((button) => {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === theme));
    });
  }

  apply();
  dark.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", apply);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-theme-choice]");
    if (!button) return;
    try {
      window.localStorage.setItem(KEY, button.dataset.themeChoice);
    } catch {
      // Without storage the choice lasts for this page only.
    }
    apply();
  });
}
