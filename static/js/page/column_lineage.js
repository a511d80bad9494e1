// Lineage by column: a column that is chosen in the picture has its path listed below.

document.addEventListener("graph:choose", ({ detail }) => {
  const path = document.getElementById("lineage-path");
  if (!path) return;
  const url = detail.id === null ? path.dataset.all : detail.url;
  window.htmx.ajax("GET", url, { target: "#lineage-path", select: "#lineage-path", swap: "outerHTML" });
});
