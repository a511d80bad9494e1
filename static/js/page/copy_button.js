// Copy buttons: <button data-copy="id of the element with the text">.

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  const label = button.querySelector("[data-copy-label]");
  try {
    await navigator.clipboard.writeText(source.textContent);
    show(label, "Copied");
  } catch {
    // Without a clipboard, or without the right to it, the text is selected.
    window.getSelection().selectAllChildren(source);
    show(label, "Press Ctrl+C");
  }
});

function show(label, message) {
  label.dataset.before ||= label.textContent;
  label.textContent = message;
  setTimeout(() => {
    label.textContent = label.dataset.before;
  }, 1600);
}
