// Pure rules of a graph's layout: what elkjs is asked, how large boxes are, where focus, search and zoom go.
//
// `measure` gives the width of a text in pixels; `boxes` is a map of node id -> {x, y, width, height}.
// Ports (columns) are rows inside the box of their node; they have no influence on the layout but its height.

export const HEIGHT = 46;
export const PAD = 13;
export const ROW = 20;

export const portsOf = (node) => node.ports || [];
export const startOf = (edge) => edge.start_port || edge.start;
export const endOf = (edge) => edge.end_port || edge.end;

// What a layout depends on: graphs with the same shape keep theirs.
export const shapeOf = ({ nodes, edges }) =>
  JSON.stringify([
    nodes.map((node) => [node.id, node.title, node.rank, portsOf(node).map((port) => [port.id, port.title])]),
    edges.map((edge) => [startOf(edge), endOf(edge), edge.kind]),
  ]);

// The nodes of a column are equally wide, so that their lines begin and end on the same line.
export function widthsOf(nodes, down, measure) {
  const widest = new Map();
  nodes.forEach((node) => {
    const rows = portsOf(node).map(({ title, note = "" }) => measure(title) + measure(note) + PAD);
    const needed = Math.max(measure(node.title), node.state_label ? 130 : 0, ...rows) + 2 * PAD + 2;
    widest.set(node.rank, Math.max(widest.get(node.rank) || 120, needed));
  });
  return nodes.map((node) => Math.round(Math.min(down ? 180 : 240, widest.get(node.rank))));
}

export const heightOf = (node) => HEIGHT + (node.ports ? node.ports.length * ROW + 6 : 0);

// The rows of the ports, by id.
export function portBoxes(nodes, boxes) {
  const rows = new Map();
  nodes.forEach((node) => {
    const { x, y, width } = boxes.get(node.id);
    portsOf(node).forEach((port, place) => {
      rows.set(port.id, { x, y: y + HEIGHT + place * ROW, width, height: ROW });
    });
  });
  return rows;
}

// All ports and nodes that a port's values come from (up) and go to (down), over any number of edges; cycles end.
export function pathOf(edges, from) {
  const walk = (begin, end) => {
    const next = new Map();
    edges.forEach((edge) => {
      if (!next.has(begin(edge))) next.set(begin(edge), []);
      next.get(begin(edge)).push(end(edge));
    });
    const seen = new Set([from]);
    const queue = [from];
    while (queue.length) {
      (next.get(queue.pop()) || []).forEach((to) => {
        if (!seen.has(to)) queue.push(to);
        seen.add(to);
      });
    }
    return seen;
  };
  return { up: walk(endOf, startOf), down: walk(startOf, endOf) };
}

export const isOnPath = ({ up, down }, edge) =>
  [up, down].some((side) => side.has(startOf(edge)) && side.has(endOf(edge)));

// The ports, and then the nodes, whose names contain a text.
export function matchesOf(nodes, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  return [...nodes.flatMap(portsOf), ...nodes]
    .filter(({ title }) => title.toLowerCase().includes(wanted))
    .map(({ id }) => id);
}

export function fitted(text, room, measure) {
  if (measure(text) <= room) return text;
  let { length } = text;
  while (length > 1 && measure(`${text.slice(0, length)}…`) > room) length -= 1;
  return `${text.slice(0, length)}…`;
}

// Edges of the kind "reference" have no say in the layout. Edges of ports count once for two nodes.
export function layoutRequest({ nodes, edges }, way, widths) {
  const down = way === "DOWN";
  const ranked = nodes.every((node) => node.rank !== undefined);
  const layoutOptions = {
    "elk.algorithm": "layered",
    "elk.direction": way,
    "elk.edgeRouting": "ORTHOGONAL",
    "elk.separateConnectedComponents": "false",
    "elk.padding": "[top=0,left=0,bottom=0,right=0]",
    "elk.spacing.nodeNode": down ? "12" : "16",
    "elk.layered.spacing.nodeNodeBetweenLayers": down ? "30" : "38",
    "elk.layered.nodePlacement.bk.fixedAlignment": "BALANCED",
  };
  if (ranked) {
    layoutOptions["elk.layered.layering.strategy"] = "INTERACTIVE";
    layoutOptions["elk.layered.cycleBreaking.strategy"] = "INTERACTIVE";
  }
  // Where a node stands already says its column: "interactive" keeps to that.
  const column = ({ rank }) => (down ? { x: 0, y: rank * 1000 } : { x: rank * 1000, y: 0 });
  const places = new Map(nodes.map((node, place) => [node.id, `n${place}`]));
  const pairs = new Set();
  const isFirst = ({ start, end, start_port: port }) => {
    const pair = JSON.stringify([start, end]);
    const first = !port || !pairs.has(pair);
    pairs.add(pair);
    return first;
  };
  return {
    id: "root",
    layoutOptions,
    children: nodes.map((node, place) => ({
      id: `n${place}`,
      width: widths[place],
      height: heightOf(node),
      ...(ranked ? column(node) : {}),
    })),
    edges: edges
      .map((edge, place) => ({ edge, id: `e${place}` }))
      .filter(({ edge }) => edge.kind !== "reference" && isFirst(edge))
      .map(({ edge, id }) => ({ id, sources: [places.get(edge.start)], targets: [places.get(edge.end)] })),
  };
}

// The nearest node in that direction, of those that can have the focus; what lies aside counts three times.
export function neighbour(boxes, id, [right, down], focusable) {
  const from = boxes.get(id);
  let nearest = null;
  let least = Infinity;
  boxes.forEach((place, other) => {
    const x = place.x - from.x;
    const y = place.y - from.y;
    const ahead = x * right + y * down;
    const distance = ahead + 3 * Math.abs(right ? y : x);
    if (ahead < 4 || distance >= least || !focusable(other)) return;
    least = distance;
    nearest = other;
  });
  return nearest;
}

// The scroll offset that brings begin…end into a view of this size.
export function scrolledInto(scroll, size, begin, end) {
  if (begin < scroll) return begin - 20;
  return end > scroll + size ? end - size + 20 : scroll;
}

export const bounded = (scale) => Math.min(2, Math.max(0.1, scale));

// As wide as there is room, unless it could not be read any more.
export function readableScale(full, room) {
  const fit = Math.min(1, room / full.width);
  return fit >= 0.75 ? fit : 0.9;
}

export const wholeScale = (full, width, height) => Math.min(1, width / full.width, height / full.height);
