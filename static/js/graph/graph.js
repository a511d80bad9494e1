// Graphs of datasets: laid out by elkjs in a worker, drawn as SVG with links.
//
//   <div class="graph" data-graph="ID" data-graph-label="What it shows">shown until it is drawn</div>
//   <script type="application/json" id="ID">{"nodes": […], "edges": […], "heads": […]}</script>
//
// templates/parts/graph.html writes both from a elevata.web.graph.Graph, with the key below.
//   node   id, title; and, where it has them: sub (second line), layer (colour of the bar), state (CSS class
//          is-STATE) with state_label (the state in words), url, here, marked, muted, rank (its column), ports
//   port   a column in the box: id, title, url; and: note (its type), tip (its expression), here, muted
//   edge   start, end; and: kind (input, history, reference), label, marked, start_port, end_port
//   heads  what stands above each column
//
// After every swap of htmx all graphs are looked at again. One whose nodes (id, title, rank) and edges are the
// same as before is not laid out anew: only classes, texts and links change, and place, zoom and focus stay,
// also when the <div> itself was replaced. So a live part sends its whole graph every time.
//
// Lines of the kind "reference" have no say in the layout: they are drawn when all is in place, below the boxes.
// At narrow widths a graph runs from top to bottom.

import { boxWidths, draw, paint } from "./drawing.js";
import { layOut } from "./engine.js";
import { layoutRequest, shapeOf } from "./layout.js";
import { mount } from "./view.js";

const narrow = window.matchMedia("(max-width: 767.98px)");
const graphs = new Map(); // id of the data -> {host, text, data, shape, way, stage, …}

function refresh() {
  document.querySelectorAll("[data-graph]").forEach(show);
  graphs.forEach((graph, id) => {
    if (!graph.host.isConnected) graphs.delete(id);
  });
}

function show(host) {
  const id = host.dataset.graph;
  const text = document.getElementById(id)?.textContent;
  if (text === undefined) return;
  const way = narrow.matches ? "DOWN" : "RIGHT";
  const known = graphs.get(id) || {};
  if (known.host === host && known.text === text && known.way === way) return;
  const data = JSON.parse(text);
  const shape = shapeOf(data);
  if (known.way === way && known.shape === shape) {
    Object.assign(known, { text, data });
    if (known.host !== host) move(known, host);
    if (known.nodes) paint(known);
    return;
  }
  if (known.stage && known.host !== host) host.replaceChildren(known.stage); // until the new one is there
  const graph = { id, host, text, data, shape, way };
  graphs.set(id, graph);
  if (data.nodes.length) drawGraph(graph);
  else host.replaceChildren(note("Nothing to draw."));
}

async function drawGraph(graph) {
  const { id, data, way } = graph;
  const isCurrent = () => graphs.get(id) === graph;
  try {
    const start = performance.now();
    const laid = await layOut(layoutRequest(data, way, boxWidths(data.nodes, way === "DOWN")));
    performance.measure("graph-layout", { start });
    if (!isCurrent()) return;
    draw(graph, laid);
    mount(graph);
  } catch (problem) {
    if (isCurrent()) graph.host.replaceChildren(note("The picture could not be drawn; the same is listed."));
    console.error("graph", id, problem);
  }
}

function note(text) {
  const element = document.createElement("p");
  element.className = "graph-wait soft";
  element.textContent = text;
  return element;
}

// --- swaps -----------------------------------------------------------------------------------
// A part that goes takes its place and focus along; both are given back to what comes.
function hold() {
  graphs.forEach((graph) => {
    if (!graph.view?.isConnected) return;
    const focus = graph.stage.contains(document.activeElement) ? document.activeElement : null;
    graph.held = { left: graph.view.scrollLeft, top: graph.view.scrollTop, focus };
  });
}

function move(graph, host) {
  graph.host = host;
  if (!graph.stage) return;
  host.replaceChildren(graph.stage);
  if (!graph.held) return;
  graph.view.scrollLeft = graph.held.left;
  graph.view.scrollTop = graph.held.top;
  graph.held.focus?.focus({ preventScroll: true });
}

["htmx:beforeSwap", "htmx:oobBeforeSwap"].forEach((name) => document.addEventListener(name, hold));
["htmx:afterSwap", "htmx:oobAfterSwap"].forEach((name) => document.addEventListener(name, refresh));
narrow.addEventListener("change", refresh);
refresh();
