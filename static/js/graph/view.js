// The box a graph scrolls in: zoom, pointer and keyboard.
//
// mount() adds to a graph: stage, view, scale, byHand (zoomed by a person) and seenWidth.
// Graphs with ports also have a search and a file of the picture. A chosen port is announced by the event
// "graph:choose" of the host, with its id and url.

import { highlight, highlightPath } from "./drawing.js";
import { svgFile } from "./export.js";
import { bounded, matchesOf, neighbour, portsOf, readableScale, scrolledInto, wholeScale } from "./layout.js";

export function mount(graph) {
  const stage = document.createElement("div");
  const view = document.createElement("div");
  stage.className = "graph-stage";
  view.className = "graph-view";
  view.tabIndex = 0;
  view.setAttribute("role", "region");
  const label = graph.host.dataset.graphLabel || "Picture";
  const stops = graph.ports.size ? "dataset to dataset and column to column" : "dataset to dataset";
  view.setAttribute("aria-label", `${label}; arrow keys go from ${stops}`);
  view.append(graph.svg);
  stage.append(view, tools(graph));
  Object.assign(graph, { stage, view, byHand: false });
  graph.host.replaceChildren(stage);
  listen(graph);
  new ResizeObserver(() => {
    if (view.clientWidth !== graph.seenWidth && !graph.byHand) settle(graph);
  }).observe(view);
  settle(graph);
  const here = graph.data.nodes.flatMap(portsOf).find((port) => port.here);
  if (here) choose(graph, here.id, { announce: false });
}

function tools(graph) {
  const bar = document.createElement("div");
  bar.className = "graph-tools";
  if (graph.ports.size) bar.append(searchField(graph));
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Zoom");
  [
    { text: "−", title: "Smaller", label: "Smaller", action: () => zoom(graph, graph.scale / 1.25) },
    { text: "+", title: "Larger", label: "Larger", action: () => zoom(graph, graph.scale * 1.25) },
    { text: "Fit", title: "Fit all into view", action: () => zoom(graph, whole(graph)) },
    ...(graph.ports.size ? [{ text: "SVG", title: "Download the picture", action: () => download(graph) }] : []),
  ].forEach(({ text, title, label, action }) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "btn btn-sm";
    button.textContent = text;
    button.title = title;
    if (label) button.setAttribute("aria-label", label);
    button.addEventListener("click", action);
    bar.append(button);
  });
  return bar;
}

// Enter goes from match to match.
function searchField(graph) {
  const field = document.createElement("input");
  field.type = "search";
  field.className = "form-control form-control-sm";
  field.placeholder = "Find column";
  field.setAttribute("aria-label", "Find a column or dataset in the picture");
  let place = 0;
  const show = () => {
    const ids = matchesOf(graph.data.nodes, field.value);
    [...graph.nodes, ...graph.ports].forEach(([id, link]) => {
      link.classList.toggle("found", ids.length > 0 && id === ids[place % ids.length]);
    });
    if (ids.length) center(graph, ids[place % ids.length]);
  };
  field.addEventListener("input", () => {
    place = 0;
    show();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    place += 1;
    show();
  });
  return field;
}

function download(graph) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(svgFile(graph.svg));
  link.download = `${graph.id}.svg`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// The path of a column stands out until the column is chosen again.
function choose(graph, id, { announce }) {
  graph.chosen = graph.chosen === id ? null : id;
  highlightPath(graph, graph.chosen);
  if (!announce) return;
  const url = graph.ports.get(id).getAttribute("href");
  const detail = { id: graph.chosen, url };
  graph.host.dispatchEvent(new CustomEvent("graph:choose", { bubbles: true, detail }));
}

// --- zoom and place --------------------------------------------------------------------------
function settle(graph) {
  const room = graph.view.clientWidth - 24;
  graph.seenWidth = graph.view.clientWidth;
  if (room <= 0) return;
  setScale(graph, readableScale(graph.full, room));
  const here = graph.data.nodes.find((node) => node.here);
  if (here) center(graph, here.id);
}

function whole({ view, full }) {
  const tall = parseFloat(getComputedStyle(view).maxHeight) || view.clientHeight;
  return wholeScale(full, view.clientWidth - 24, tall - 24);
}

function zoom(graph, scale) {
  const { view } = graph;
  const across = (view.scrollLeft + view.clientWidth / 2) / graph.scale;
  const along = (view.scrollTop + view.clientHeight / 2) / graph.scale;
  graph.byHand = true;
  setScale(graph, scale);
  view.scrollLeft = across * graph.scale - view.clientWidth / 2;
  view.scrollTop = along * graph.scale - view.clientHeight / 2;
}

function setScale(graph, scale) {
  graph.scale = bounded(scale);
  graph.svg.setAttribute("width", Math.round(graph.full.width * graph.scale));
  graph.svg.setAttribute("height", Math.round(graph.full.height * graph.scale));
}

function center({ places, view, scale }, id) {
  const box = places.get(id);
  view.scrollLeft = (box.x + box.width / 2) * scale - view.clientWidth / 2;
  view.scrollTop = (box.y + box.height / 2) * scale - view.clientHeight / 2;
}

// Scrolls the graph's own box only.
function reveal({ places, view, scale }, id) {
  const { x, y, width, height } = places.get(id);
  view.scrollLeft = scrolledInto(view.scrollLeft, view.clientWidth, x * scale, (x + width) * scale);
  view.scrollTop = scrolledInto(view.scrollTop, view.clientHeight, y * scale, (y + height) * scale);
}

// --- pointer and keyboard --------------------------------------------------------------------
const nodeAt = (event) => event.target.closest?.("[data-node]");
const stopAt = (event) => event.target.closest?.("[data-node], [data-port]");
const idOf = (link) => link.dataset.node ?? link.dataset.port;

function listen(graph) {
  const { svg, view } = graph;
  const on = (element, kinds, listener) => kinds.forEach((kind) => element.addEventListener(kind, listener));
  let dragged = null;
  if (!graph.ports.size) {
    on(svg, ["pointerover", "focusin"], (event) => highlight(graph, nodeAt(event)?.dataset.node ?? null));
    on(svg, ["pointerleave", "focusout"], () => highlight(graph, null));
  }
  on(svg, ["focusin"], (event) => {
    const link = stopAt(event);
    if (link) reveal(graph, idOf(link));
  });
  on(svg, ["click"], (event) => {
    const port = event.target.closest?.("[data-port]");
    if (!port || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    choose(graph, port.dataset.port, { announce: true });
  });
  on(view, ["keydown"], (event) => keyInGraph(graph, event));
  on(view, ["pointerdown"], (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0 || stopAt(event)) return;
    dragged = { x: event.clientX + view.scrollLeft, y: event.clientY + view.scrollTop };
    view.setPointerCapture(event.pointerId);
  });
  on(view, ["pointermove"], (event) => {
    if (!dragged) return;
    view.scrollLeft = dragged.x - event.clientX;
    view.scrollTop = dragged.y - event.clientY;
  });
  on(view, ["pointerup", "pointercancel"], () => {
    dragged = null;
  });
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function keyInGraph(graph, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const link = stopAt(event);
  if (event.key === "+" || event.key === "=") zoom(graph, graph.scale * 1.25);
  else if (event.key === "-") zoom(graph, graph.scale / 1.25);
  else if (event.key === "0") zoom(graph, whole(graph));
  else if (link && ARROWS[event.key]) {
    const linkOf = (id) => graph.nodes.get(id) || graph.ports.get(id);
    const next = neighbour(graph.places, idOf(link), ARROWS[event.key], (id) => linkOf(id).hasAttribute("href"));
    if (next) linkOf(next).focus({ preventScroll: true });
  } else return;
  event.preventDefault();
}
