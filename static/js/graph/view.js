// The box a graph scrolls in: zoom, pointer and keyboard.
//
// mount() adds to a graph: stage, view, scale, byHand (zoomed by a person) and seenWidth.

import { highlight } from "./drawing.js";
import { bounded, neighbour, readableScale, scrolledInto, wholeScale } from "./layout.js";

export function mount(graph) {
  const stage = document.createElement("div");
  const view = document.createElement("div");
  stage.className = "graph-stage";
  view.className = "graph-view";
  view.tabIndex = 0;
  view.setAttribute("role", "region");
  const label = graph.host.dataset.graphLabel || "Picture";
  view.setAttribute("aria-label", `${label}; arrow keys go from dataset to dataset`);
  view.append(graph.svg);
  stage.append(view, tools(graph));
  Object.assign(graph, { stage, view, byHand: false });
  graph.host.replaceChildren(stage);
  listen(graph);
  new ResizeObserver(() => {
    if (view.clientWidth !== graph.seenWidth && !graph.byHand) settle(graph);
  }).observe(view);
  settle(graph);
}

function tools(graph) {
  const bar = document.createElement("div");
  bar.className = "graph-tools";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Zoom");
  [
    { text: "−", title: "Smaller", label: "Smaller", action: () => zoom(graph, graph.scale / 1.25) },
    { text: "+", title: "Larger", label: "Larger", action: () => zoom(graph, graph.scale * 1.25) },
    { text: "Fit", title: "Fit all into view", action: () => zoom(graph, whole(graph)) },
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

function center({ boxes, view, scale }, id) {
  const box = boxes.get(id);
  view.scrollLeft = (box.x + box.width / 2) * scale - view.clientWidth / 2;
  view.scrollTop = (box.y + box.height / 2) * scale - view.clientHeight / 2;
}

// Scrolls the graph's own box only.
function reveal({ boxes, view, scale }, id) {
  const { x, y, width, height } = boxes.get(id);
  view.scrollLeft = scrolledInto(view.scrollLeft, view.clientWidth, x * scale, (x + width) * scale);
  view.scrollTop = scrolledInto(view.scrollTop, view.clientHeight, y * scale, (y + height) * scale);
}

// --- pointer and keyboard --------------------------------------------------------------------
const nodeAt = (event) => event.target.closest?.("[data-node]");

function listen(graph) {
  const { svg, view } = graph;
  const on = (element, kinds, listener) => kinds.forEach((kind) => element.addEventListener(kind, listener));
  let dragged = null;
  on(svg, ["pointerover", "focusin"], (event) => highlight(graph, nodeAt(event)?.dataset.node ?? null));
  on(svg, ["pointerleave", "focusout"], () => highlight(graph, null));
  on(svg, ["focusin"], (event) => {
    const link = nodeAt(event);
    if (link) reveal(graph, link.dataset.node);
  });
  on(view, ["keydown"], (event) => keyInGraph(graph, event));
  on(view, ["pointerdown"], (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0 || nodeAt(event)) return;
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
  const link = nodeAt(event);
  if (event.key === "+" || event.key === "=") zoom(graph, graph.scale * 1.25);
  else if (event.key === "-") zoom(graph, graph.scale / 1.25);
  else if (event.key === "0") zoom(graph, whole(graph));
  else if (link && ARROWS[event.key]) {
    const linked = (id) => graph.nodes.get(id).hasAttribute("href");
    const next = neighbour(graph.boxes, link.dataset.node, ARROWS[event.key], linked);
    if (next) graph.nodes.get(next).focus({ preventScroll: true });
  } else return;
  event.preventDefault();
}
