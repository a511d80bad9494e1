// How a graph is drawn once it is laid out: boxes with links, lines with tips, texts that fit. See graph.js.
//
// A graph here is {id, host, data, way}; draw() adds svg, full (its size), boxes (places by id),
// nodes (links by id) and edges (paths, in the order of the data).
(function () {
  "use strict";

  var SVG = "http://www.w3.org/2000/svg";
  var HEIGHT = 46, HEAD = 24, MARGIN = 4, PAD = 13;

  // --- text that fits --------------------------------------------------------------------------

  var pen = document.createElement("canvas").getContext("2d");
  function font(weight, size, family) {
    return weight + " " + size + "px " + getComputedStyle(document.documentElement).getPropertyValue(family);
  }
  function wide(text, face) {
    pen.font = face;
    return pen.measureText(text).width;
  }
  function titleFace() { return font(500, 12, "--tblr-font-monospace"); }
  function subFace() { return font(400, 11, "--tblr-font-sans-serif"); }

  // The nodes of a column are equally wide, so that their lines begin and end on the same line.
  function widthsOf(nodes, down) {
    var face = titleFace(), widest = new Map();
    nodes.forEach(function (node) {
      var needed = Math.max(wide(node.title, face), node.said ? 130 : 0) + 2 * PAD + 2;
      widest.set(node.rank, Math.max(widest.get(node.rank) || 120, needed));
    });
    return nodes.map(function (node) { return Math.round(Math.min(down ? 180 : 240, widest.get(node.rank))); });
  }

  function fitted(text, face, room) {
    if (wide(text, face) <= room) return text;
    var length = text.length;
    while (length > 1 && wide(text.slice(0, length) + "…", face) > room) length -= 1;
    return text.slice(0, length) + "…";
  }

  // --- drawing ---------------------------------------------------------------------------------

  function make(name, attributes, parent) {
    var element = document.createElementNS(SVG, name);
    Object.keys(attributes || {}).forEach(function (key) { element.setAttribute(key, attributes[key]); });
    if (parent) parent.append(element);
    return element;
  }

  function draw(graph, laid) {
    var data = graph.data, heads = graph.way === "RIGHT" && data.heads, top = MARGIN + (heads ? HEAD : 0);
    var boxes = new Map();
    laid.children.forEach(function (child, place) {
      boxes.set(data.nodes[place].id, { x: child.x + MARGIN, y: child.y + top, width: child.width, height: child.height });
    });
    var lines = linesOf(graph, laid, boxes, top);
    graph.boxes = boxes;
    graph.full = {
      width: Math.ceil(Math.max(laid.width + 2 * MARGIN, graph.way === "RIGHT" ? lines.reach : 0)),
      height: Math.ceil(Math.max(laid.height + top + MARGIN, graph.way === "DOWN" ? lines.reach : 0)),
    };
    var svg = make("svg", { viewBox: "0 0 " + graph.full.width + " " + graph.full.height, role: "group" });
    svg.setAttribute("aria-label", graph.host.dataset.graphLabel || "Datasets and how they hang together");
    tips(graph, svg);
    if (heads) writeHeads(graph, svg);
    graph.edges = data.edges.map(function (edge, place) {
      var path = make("path", { d: lines.paths[place], "data-start": edge.start, "data-end": edge.end }, svg);
      if (edge.label) make("title", {}, path).textContent = edge.label;
      return path;
    });
    graph.nodes = new Map(data.nodes.map(function (node) { return [node.id, box(node, boxes.get(node.id), svg)]; }));
    graph.svg = svg;
    paint(graph);
  }

  function tips(graph, svg) {
    var defs = make("defs", {}, svg);
    ["input", "history", "reference", "marked", "near"].forEach(function (kind) {
      var tip = make("marker", {
        id: graph.id + "-tip-" + kind, viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 8, markerHeight: 8,
        markerUnits: "userSpaceOnUse", orient: "auto",
      }, defs);
      make("path", { "class": "tip tip-" + kind, d: "M0 0.5L8 4L0 7.5z" }, tip);
    });
  }

  function writeHeads(graph, svg) {
    graph.data.heads.forEach(function (head, rank) {
      var first = graph.data.nodes.filter(function (node) { return node.rank === rank; })[0];
      if (head && first) make("text", { "class": "head", x: graph.boxes.get(first.id).x, y: 14 }, svg).textContent = head;
    });
  }

  function box(node, place, svg) {
    var link = make("a", { "data-node": node.id }, svg);
    // The title is the link's name: what is written in the box may be cut short.
    make("title", {}, link);
    var group = make("g", {}, link);
    make("rect", { "class": "box", x: place.x, y: place.y, width: place.width, height: place.height, rx: 6 }, group);
    make("rect", { "class": "bar", x: place.x, y: place.y, width: 5, height: place.height, rx: 2.5 }, group);
    make("text", { "class": "title", x: place.x + PAD, y: place.y + 20 }, group);
    make("text", { "class": "sub", x: place.x + PAD, y: place.y + 36 }, group);
    make("text", { "class": "said", x: place.x + place.width - 9, y: place.y + 36, "text-anchor": "end" }, group);
    return link;
  }

  // Everything that may change without a new layout.
  function paint(graph) {
    graph.data.nodes.forEach(function (node) { paintNode(graph, graph.nodes.get(node.id), node); });
    graph.data.edges.forEach(function (edge, place) {
      var path = graph.edges[place];
      path.setAttribute("class", "edge edge-" + (edge.kind || "input") + (edge.marked ? " marked" : ""));
      point(graph, path, edge.marked ? "marked" : edge.kind || "input");
    });
  }

  // The tip of a line: one for each colour, because not every browser takes it over from the line.
  function point(graph, path, tip) {
    path.setAttribute("marker-end", "url(#" + graph.id + "-tip-" + tip + ")");
  }

  // The lines of the dataset that is pointed at stand out.
  function near(graph, id) {
    graph.svg.classList.toggle("picking", id !== null);
    graph.data.edges.forEach(function (edge, place) {
      var path = graph.edges[place], touches = edge.start === id || edge.end === id;
      path.classList.toggle("near", touches);
      point(graph, path, touches ? "near" : edge.marked ? "marked" : edge.kind || "input");
    });
  }

  function paintNode(graph, link, node) {
    var room = graph.boxes.get(node.id).width - PAD - 9, said = node.said || "", face = subFace();
    var classes = ["node", node.layer && "layer-" + node.layer, node.state && "is-" + node.state, node.here && "here",
      node.marked && "marked", node.muted && "muted"];
    var names = [node.title, node.sub, said].filter(Boolean);
    if (node.url) link.setAttribute("href", node.url); else link.removeAttribute("href");
    if (node.here) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    link.querySelector("g").setAttribute("class", classes.filter(Boolean).join(" "));
    write(link, "title", names.join(", "));
    write(link, ".title", fitted(node.title, titleFace(), room));
    write(link, ".said", said);
    write(link, ".sub", fitted(node.sub || "", face, said ? room - wide(said, face) - 10 : room));
  }

  function write(link, what, text) {
    var element = link.querySelector(what);
    if (element.textContent !== text) element.textContent = text;
  }

  // --- lines -----------------------------------------------------------------------------------

  function linesOf(graph, laid, boxes, top) {
    var sections = new Map(), drawn = {}, reach = 0, down = graph.way === "DOWN";
    laid.edges.forEach(function (edge) { sections.set(edge.id, edge.sections || []); });
    var paths = graph.data.edges.map(function (edge, place) {
      if (edge.kind !== "reference") {
        return (sections.get("e" + place) || []).map(function (section) {
          var points = [section.startPoint].concat(section.bendPoints || [], [section.endPoint]);
          return rounded(points.map(function (point) { return { x: point.x + MARGIN, y: point.y + top }; }));
        }).join("");
      }
      var pair = JSON.stringify([edge.start, edge.end]), number = drawn[pair] || 0;
      drawn[pair] = number + 1;
      var start = turned(boxes.get(edge.start), down), end = turned(boxes.get(edge.end), down);
      reach = Math.max(reach, start.u + start.length + bulge(number) + MARGIN);
      return swung(start, end, number, down);
    });
    return { paths: paths, reach: reach };
  }

  function rounded(points) {
    var path = "M" + points[0].x + " " + points[0].y;
    for (var i = 1; i < points.length - 1; i += 1) {
      var before = toward(points[i], points[i - 1]), after = toward(points[i], points[i + 1]);
      path += "L" + before + "Q" + points[i].x + " " + points[i].y + " " + after;
    }
    return path + "L" + points[points.length - 1].x + " " + points[points.length - 1].y;
  }

  function toward(corner, other) {
    var length = Math.hypot(other.x - corner.x, other.y - corner.y) || 1, step = Math.min(6, length / 2) / length;
    return corner.x + (other.x - corner.x) * step + " " + (corner.y + (other.y - corner.y) * step);
  }

  // A gentle S; within a column (or row) a bulge beside it. Several between the same two lie beside each other.
  function swung(a, b, number, down) {
    var far = a.u + a.length;
    function at(u, v) { return down ? v + " " + u : u + " " + v; }
    if (Math.abs(a.u - b.u) < 1) {
      var aside = (7 + 5 * number) * (a.v <= b.v ? 1 : -1), reach = far + bulge(number);
      var leaves = a.middle + aside, arrives = b.middle - aside;
      return "M" + at(far, leaves) + " C" + at(reach, leaves) + " " + at(reach, arrives) + " " + at(far, arrives);
    }
    var forward = a.u < b.u, begins = forward ? far : a.u, ends = forward ? b.u : b.u + b.length;
    var half = (begins + ends) / 2, shift = 6 + 5 * number;
    return "M" + at(begins, a.middle + shift) + " C" + at(half, a.middle + shift) + " " +
      at(half, b.middle + shift) + " " + at(ends, b.middle + shift);
  }

  function bulge(number) { return 20 + 12 * number; }

  function turned(place, down) {
    return down
      ? { u: place.y, v: place.x, length: place.height, middle: place.x + place.width / 2 }
      : { u: place.x, v: place.y, length: place.width, middle: place.y + place.height / 2 };
  }

  window.graphDrawing = { HEIGHT: HEIGHT, widthsOf: widthsOf, draw: draw, paint: paint, near: near };
})();
