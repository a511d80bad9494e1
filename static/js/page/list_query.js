// Filters change a list without a new page: what saves them takes the address of that moment.

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-list-query]");
  if (!form) return;
  const { pathname, search } = window.location;
  form.elements.back.value = pathname + search;
  if (form.elements.query) form.elements.query.value = search.slice(1);
});
