// Draws a graph that is laid out: boxes with links, lines with tips, texts that fit. See graph.js.
//
// A graph here is {id, host, data, way}; draw() adds svg, full (its size), boxes (places by id),
// nodes (links by id), ports (links by id), places (boxes and the rows of ports) and edges (paths, in the order of the
// data).

import { endOf, fitted, isOnPath, pathOf, PAD, portBoxes, portsOf, startOf, widthsOf } from "./layout.js";
import { MARGIN, pathsOf } from "./paths.js";

const SVG = "http://www.w3.org/2000/svg";
const HEAD = 24;

// --- texts -----------------------------------------------------------------------------------
const pens = new Map(); // by font: setting the font of a context takes longer than measuring

function measureIn(weight, size, family) {
  const font = `${weight} ${size}px ${getComputedStyle(document.documentElement).getPropertyValue(family)}`;
  if (!pens.has(font)) {
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = font;
    pens.set(font, pen);
  }
  return (text) => pens.get(font).measureText(text).width;
}

const titleWidth = () => measureIn(500, 12, "--tblr-font-monospace");
const subtitleWidth = () => measureIn(400, 11, "--tblr-font-sans-serif");

export const boxWidths = (nodes, down) => widthsOf(nodes, down, titleWidth());

// --- drawing ---------------------------------------------------------------------------------
function make(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  parent?.append(element);
  return element;
}

export function draw(graph, laid) {
  const { data, way } = graph;
  const heads = way === "RIGHT" && data.heads;
  const top = MARGIN + (heads ? HEAD : 0);
  graph.boxes = new Map(
    laid.children.map(({ x, y, width, height }, place) => [
      data.nodes[place].id,
      { x: x + MARGIN, y: y + top, width, height },
    ])
  );
  graph.places = new Map([...graph.boxes, ...portBoxes(data.nodes, graph.boxes)]);
  const sections = new Map(laid.edges.map((edge) => [edge.id, edge.sections || []]));
  const { paths, reach, wide } = pathsOf(data.edges, sections, graph.places, { down: way === "DOWN", top });
  graph.full = {
    width: Math.ceil(Math.max(laid.width + 2 * MARGIN, way === "RIGHT" ? reach : 0, wide)),
    height: Math.ceil(Math.max(laid.height + top + MARGIN, way === "DOWN" ? reach : 0)),
  };
  const svg = make("svg", { viewBox: `0 0 ${graph.full.width} ${graph.full.height}`, role: "group" });
  svg.setAttribute("aria-label", graph.host.dataset.graphLabel || "Datasets and how they hang together");
  drawTips(graph, svg);
  if (heads) drawHeads(graph, svg);
  graph.edges = data.edges.map((edge, place) => {
    const path = make("path", { d: paths[place], "data-start": startOf(edge), "data-end": endOf(edge) }, svg);
    if (edge.label) make("title", {}, path).textContent = edge.label;
    return path;
  });
  graph.nodes = new Map(data.nodes.map((node) => [node.id, drawBox(node, graph.boxes.get(node.id), svg)]));
  graph.ports = new Map(
    data.nodes.flatMap(portsOf).map((port) => [port.id, drawPort(port, graph.places.get(port.id), svg)])
  );
  graph.svg = svg;
  paint(graph);
}

function drawTips(graph, svg) {
  const defs = make("defs", {}, svg);
  ["input", "history", "reference", "marked", "near"].forEach((kind) => {
    const place = { viewBox: "0 0 8 8", refX: 8, refY: 4, orient: "auto" };
    const size = { markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse" };
    const tip = make("marker", { id: `${graph.id}-tip-${kind}`, ...place, ...size }, defs);
    make("path", { class: `tip tip-${kind}`, d: "M0 0.5L8 4L0 7.5z" }, tip);
  });
}

function drawHeads(graph, svg) {
  graph.data.heads.forEach((head, rank) => {
    const first = graph.data.nodes.find((node) => node.rank === rank);
    if (!head || !first) return;
    make("text", { class: "head", x: graph.boxes.get(first.id).x, y: 14 }, svg).textContent = head;
  });
}

function drawBox(node, { x, y, width, height }, svg) {
  const link = make("a", { "data-node": node.id }, svg);
  // The title is the link's name: what is written in the box may be cut short.
  make("title", {}, link);
  const group = make("g", {}, link);
  make("rect", { class: "box", x, y, width, height, rx: 6 }, group);
  make("rect", { class: "bar", x, y, width: 5, height, rx: 2.5 }, group);
  make("text", { class: "title", x: x + PAD, y: y + 20 }, group);
  make("text", { class: "sub", x: x + PAD, y: y + 36 }, group);
  make("text", { class: "state-label", x: x + width - 9, y: y + 36, "text-anchor": "end" }, group);
  return link;
}

// Columns are reached from their box by the arrow keys, not by the tab key: there may be thousands.
function drawPort(port, { x, y, width, height }, svg) {
  const link = make("a", { "data-port": port.id, tabindex: -1 }, svg);
  make("title", {}, link);
  const group = make("g", {}, link);
  make("rect", { class: "row", x: x + 6, y, width: width - 8, height, rx: 3 }, group);
  make("text", { class: "name", x: x + PAD, y: y + 14 }, group);
  make("text", { class: "note", x: x + width - 9, y: y + 14, "text-anchor": "end" }, group);
  return link;
}

// Everything that may change without a new layout.
export function paint(graph) {
  const measures = [titleWidth(), subtitleWidth()];
  graph.data.nodes.flatMap(portsOf).forEach((port) => paintPort(graph, port, measures));
  graph.data.nodes.forEach((node) => paintNode(graph, graph.nodes.get(node.id), node));
  graph.data.edges.forEach((edge, place) => {
    const path = graph.edges[place];
    path.setAttribute("class", `edge edge-${edge.kind || "input"}${edge.marked ? " marked" : ""}`);
    setTip(graph, path, tipOf(edge));
  });
}

const tipOf = (edge) => (edge.marked ? "marked" : edge.kind || "input");

// The tip of a line: one for each colour, because not every browser takes it over from the line.
const setTip = (graph, path, tip) => path.setAttribute("marker-end", `url(#${graph.id}-tip-${tip})`);

// The lines of the dataset that is pointed at stand out.
export function highlight(graph, id) {
  graph.svg.classList.toggle("picking", id !== null);
  graph.data.edges.forEach((edge, place) => {
    const path = graph.edges[place];
    const touches = edge.start === id || edge.end === id;
    path.classList.toggle("near", touches);
    setTip(graph, path, touches ? "near" : tipOf(edge));
  });
}

// The whole path of a column stands out; without one, everything is as before.
export function highlightPath(graph, id) {
  const path = id === null ? null : pathOf(graph.data.edges, id);
  const isOn = (other) => Boolean(path && (path.up.has(other) || path.down.has(other)));
  graph.svg.classList.toggle("choosing", path !== null);
  graph.data.edges.forEach((edge, place) => {
    const near = Boolean(path && isOnPath(path, edge));
    graph.edges[place].classList.toggle("near", near);
    setTip(graph, graph.edges[place], near ? "near" : tipOf(edge));
  });
  graph.ports.forEach((link, port) => {
    link.classList.toggle("near", isOn(port));
    if (port === id) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
  graph.data.nodes.forEach((node) => {
    const near = isOn(node.id) || portsOf(node).some((port) => isOn(port.id));
    graph.nodes.get(node.id).classList.toggle("near", near);
  });
}

function paintPort(graph, { id, title, note = "", tip = "", url, here, muted }, [measureTitle, measureNote]) {
  const link = graph.ports.get(id);
  const room = graph.places.get(id).width - PAD - 14 - measureNote(note);
  link.setAttribute("href", url);
  link.setAttribute("class", ["port", here && "here", muted && "muted"].filter(Boolean).join(" "));
  write(link, "title", [title, note, tip].filter(Boolean).join(", "));
  write(link, ".name", fitted(title, room, measureTitle));
  write(link, ".note", note);
}

function paintNode(graph, link, node) {
  const { title, sub = "", state_label: label = "", layer, state, url, here, marked, muted } = node;
  const room = graph.boxes.get(node.id).width - PAD - 9;
  const measure = subtitleWidth();
  const classes = [
    "node",
    layer && `layer-${layer}`,
    state && `is-${state}`,
    here && "here",
    marked && "marked",
    muted && "muted",
  ];
  if (url) link.setAttribute("href", url);
  else link.removeAttribute("href");
  if (here) link.setAttribute("aria-current", "true");
  else link.removeAttribute("aria-current");
  link.querySelector("g").setAttribute("class", classes.filter(Boolean).join(" "));
  write(link, "title", [title, sub, label].filter(Boolean).join(", "));
  write(link, ".title", fitted(title, room, titleWidth()));
  write(link, ".state-label", label);
  write(link, ".sub", fitted(sub, label ? room - measure(label) - 10 : room, measure));
}

function write(link, selector, text) {
  const element = link.querySelector(selector);
  if (element.textContent !== text) element.textContent = text;
}
