// Lists with a checkbox in each row: a box above them selects all on the page, and the number of selected rows is
// shown.

function boxes(form) {
  return [...form.querySelectorAll('input[type="checkbox"][name="key"]')];
}

function show(form) {
  const rows = boxes(form);
  const selected = rows.filter((box) => box.checked).length;
  const all = form.querySelector("[data-select-all]");
  all.closest("label").hidden = false;
  all.checked = selected > 0 && selected === rows.length;
  all.indeterminate = selected > 0 && selected < rows.length;
  const count = selected ? `${selected} selected` : "None selected";
  const output = form.querySelector("[data-selection-count]");
  if (output.textContent !== count) output.textContent = count;
}

function showAll() {
  document.querySelectorAll("[data-selection]").forEach(show);
}

document.addEventListener("change", (event) => {
  const form = event.target.closest("[data-selection]");
  if (!form || event.target.type !== "checkbox") return;
  if (event.target.matches("[data-select-all]")) {
    boxes(form).forEach((box) => {
      box.checked = event.target.checked;
    });
  }
  show(form);
});

showAll();
document.addEventListener("htmx:afterSettle", showAll);
// After "back", a browser restores the boxes.
window.addEventListener("pageshow", showAll);
