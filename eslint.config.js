import js from "@eslint/js";

const BROWSER = [
  "Blob", "CustomEvent", "Event", "FormData", "MutationObserver", "Option", "ResizeObserver", "URL",
  "URLSearchParams", "Worker", "XMLSerializer", "clearTimeout", "console", "document", "fetch", "getComputedStyle",
  "navigator", "performance", "setInterval", "setTimeout", "window",
];

export default [
  { ignores: ["static/vendor/", "staticfiles/", "build/", ".venv/"] },
  js.configs.recommended,
  {
    languageOptions: {
      ecmaVersion: 2022,
      globals: Object.fromEntries(BROWSER.map((name) => [name, "readonly"])),
    },
    rules: {
      "arrow-body-style": "error",
      complexity: ["error", 15],
      eqeqeq: "error",
      "max-len": ["error", { code: 120 }],
      "no-shadow": "error",
      "no-use-before-define": ["error", { functions: false, variables: false }],
      "no-var": "error",
      "object-shorthand": "error",
      "one-var": ["error", "never"],
      "prefer-arrow-callback": "error",
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },
  // Pure modules run without a browser, in the page and under node.
  {
    files: [
      "static/js/grid/{cells,clipboard}.js", "static/js/graph/{layout,paths}.js", "static/js/chart/values.js",
      "static/js/page/duration.js",
    ],
    rules: { "no-restricted-globals": ["error", "document", "window", "navigator"] },
  },
  { files: ["static/js/theme.js"], languageOptions: { sourceType: "script" } },
];
