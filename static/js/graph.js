// Graphs of datasets: laid out by elkjs in a worker, drawn as SVG with links.
//
//   <div class="graph" data-graph="ID" data-graph-label="What it shows">shown until it is drawn</div>
//   <script type="application/json" id="ID">{"nodes": […], "edges": […], "heads": […]}</script>
//
// templates/parts/graph.html writes both from a metadata.graph.Graph, with the key below.
//   node   id, title; and, where it has them: sub (second line), layer (colour of the bar), state (CSS class
//          is-STATE) with said (the state in words), url, here, marked, muted, rank (its column)
//   edge   start, end; and: kind (input, history, reference), label, marked
//   heads  what stands above each column
//
// After every swap of htmx all graphs are looked at again. One whose nodes (id, title, rank) and edges are the
// same as before is not laid out anew: only classes, texts and links change, and place, zoom and focus stay,
// also when the <div> itself was replaced. So a live part sends its whole graph every time.
//
// Lines of the kind "reference" have no say in the layout: they are drawn when all is in place, below the boxes.
// Drawing itself is graph_drawing.js. At narrow widths a graph runs from top to bottom.
(function () {
  "use strict";

  var own = document.currentScript;
  var drawing = window.graphDrawing;
  var narrow = window.matchMedia("(max-width: 767.98px)");
  var graphs = new Map(); // id of the data -> {host, text, data, shape, way, stage, …}

  // --- which graphs are there ------------------------------------------------------------------

  function refresh() {
    document.querySelectorAll("[data-graph]").forEach(show);
    graphs.forEach(function (graph, id) {
      if (!graph.host.isConnected) graphs.delete(id);
    });
  }

  function show(host) {
    var id = host.dataset.graph, source = document.getElementById(id);
    if (!source) return;
    var known = graphs.get(id), text = source.textContent, way = narrow.matches ? "DOWN" : "RIGHT";
    if (known && known.host === host && known.text === text && known.way === way) return;
    var data = JSON.parse(text), shape = shapeOf(data);
    if (known && known.way === way && known.shape === shape) {
      known.text = text;
      known.data = data;
      if (known.host !== host) move(known, host);
      if (known.nodes) drawing.paint(known);
      return;
    }
    var graph = { id: id, host: host, text: text, data: data, shape: shape, way: way };
    if (known && known.stage && known.host !== host) host.replaceChildren(known.stage); // until the new one is there
    graphs.set(id, graph);
    if (!data.nodes.length) {
      host.replaceChildren(say("Nothing to draw."));
      return;
    }
    layOut(graph).then(function (laid) {
      if (graphs.get(id) !== graph) return;
      drawing.draw(graph, laid);
      mount(graph);
    }).catch(function (problem) {
      engine = null;
      if (graphs.get(id) === graph) graph.host.replaceChildren(say("The picture could not be drawn; the same is listed."));
      window.console.error("graph", id, problem);
    });
  }

  // What a layout depends on.
  function shapeOf(data) {
    return JSON.stringify([
      data.nodes.map(function (node) { return [node.id, node.title, node.rank]; }),
      data.edges.map(function (edge) { return [edge.start, edge.end, edge.kind]; }),
    ]);
  }

  function say(text) {
    var said = document.createElement("p");
    said.className = "graph-wait soft";
    said.textContent = text;
    return said;
  }

  // --- layout ----------------------------------------------------------------------------------

  var engine = null;
  function start() {
    engine = engine || new Promise(function (resolve, reject) {
      var tag = document.createElement("script");
      tag.src = own.dataset.elk;
      tag.onerror = reject;
      tag.onload = function () {
        var broken;
        var failed = new Promise(function (_, refuse) { broken = refuse; });
        var elk = new window.ELK({
          algorithms: ["layered"],
          workerFactory: function () {
            var worker = new Worker(own.dataset.elkWorker);
            worker.onerror = broken;
            return worker;
          },
        });
        resolve(function (request) { return Promise.race([elk.layout(request), failed]); });
      };
      document.head.append(tag);
    });
    return engine;
  }

  function layOut(graph) {
    var data = graph.data, down = graph.way === "DOWN";
    var ranked = data.nodes.every(function (node) { return node.rank !== undefined; });
    var widths = drawing.widthsOf(data.nodes, down);
    var request = {
      id: "root",
      layoutOptions: {
        "elk.algorithm": "layered",
        "elk.direction": graph.way,
        "elk.edgeRouting": "ORTHOGONAL",
        "elk.separateConnectedComponents": "false",
        "elk.padding": "[top=0,left=0,bottom=0,right=0]",
        "elk.spacing.nodeNode": down ? "12" : "16",
        "elk.layered.spacing.nodeNodeBetweenLayers": down ? "30" : "38",
        "elk.layered.nodePlacement.bk.fixedAlignment": "BALANCED",
      },
      children: data.nodes.map(function (node, place) {
        var child = { id: "n" + place, width: widths[place], height: drawing.HEIGHT };
        if (ranked) { // where a node stands already says its column: "interactive" keeps to that
          child.x = down ? 0 : node.rank * 1000;
          child.y = down ? node.rank * 1000 : 0;
        }
        return child;
      }),
      edges: [],
    };
    if (ranked) {
      request.layoutOptions["elk.layered.layering.strategy"] = "INTERACTIVE";
      request.layoutOptions["elk.layered.cycleBreaking.strategy"] = "INTERACTIVE";
    }
    var places = new Map(data.nodes.map(function (node, place) { return [node.id, "n" + place]; }));
    data.edges.forEach(function (edge, place) {
      if (edge.kind !== "reference") {
        request.edges.push({ id: "e" + place, sources: [places.get(edge.start)], targets: [places.get(edge.end)] });
      }
    });
    return start().then(function (lay) { return lay(request); });
  }

  // --- the box it scrolls in, and zoom ---------------------------------------------------------

  function mount(graph) {
    var stage = document.createElement("div"), view = document.createElement("div");
    stage.className = "graph-stage";
    view.className = "graph-view";
    view.tabIndex = 0;
    view.setAttribute("role", "region");
    var label = graph.host.dataset.graphLabel || "Picture";
    view.setAttribute("aria-label", label + "; arrow keys go from dataset to dataset");
    view.append(graph.svg);
    stage.append(view, tools(graph));
    graph.stage = stage;
    graph.view = view;
    graph.byHand = false;
    graph.host.replaceChildren(stage);
    listen(graph);
    new ResizeObserver(function () {
      if (graph.view.clientWidth !== graph.seenWidth && !graph.byHand) settle(graph);
    }).observe(view);
    settle(graph);
  }

  function tools(graph) {
    var bar = document.createElement("div");
    bar.className = "graph-tools";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Zoom");
    [["−", "Smaller", function () { zoom(graph, graph.scale / 1.25); }],
      ["+", "Larger", function () { zoom(graph, graph.scale * 1.25); }],
      ["Fit", "Fit all into view", function () { zoom(graph, whole(graph)); }]].forEach(function (tool) {
      var button = document.createElement("button");
      button.type = "button";
      button.className = "btn btn-sm";
      button.textContent = tool[0];
      button.title = tool[1];
      if (tool[0] !== "Fit") button.setAttribute("aria-label", tool[1]);
      button.addEventListener("click", tool[2]);
      bar.append(button);
    });
    return bar;
  }

  // As wide as there is room, unless it could not be read any more; then from what the page is about.
  function settle(graph) {
    var room = graph.view.clientWidth - 24;
    graph.seenWidth = graph.view.clientWidth;
    if (room <= 0) return;
    var fit = Math.min(1, room / graph.full.width);
    scaled(graph, fit >= 0.75 ? fit : 0.9);
    var here = graph.data.nodes.filter(function (node) { return node.here; })[0];
    if (here) center(graph, here.id);
  }

  function whole(graph) {
    var style = getComputedStyle(graph.view), tall = parseFloat(style.maxHeight) || graph.view.clientHeight;
    return Math.min(1, (graph.view.clientWidth - 24) / graph.full.width, (tall - 24) / graph.full.height);
  }

  function zoom(graph, scale) {
    var view = graph.view, across = (view.scrollLeft + view.clientWidth / 2) / graph.scale;
    var along = (view.scrollTop + view.clientHeight / 2) / graph.scale;
    graph.byHand = true;
    scaled(graph, scale);
    view.scrollLeft = across * graph.scale - view.clientWidth / 2;
    view.scrollTop = along * graph.scale - view.clientHeight / 2;
  }

  function scaled(graph, scale) {
    graph.scale = Math.min(2, Math.max(0.1, scale));
    graph.svg.setAttribute("width", Math.round(graph.full.width * graph.scale));
    graph.svg.setAttribute("height", Math.round(graph.full.height * graph.scale));
  }

  function center(graph, id) {
    var place = graph.boxes.get(id), view = graph.view;
    view.scrollLeft = (place.x + place.width / 2) * graph.scale - view.clientWidth / 2;
    view.scrollTop = (place.y + place.height / 2) * graph.scale - view.clientHeight / 2;
  }

  // --- pointer and keyboard --------------------------------------------------------------------

  function listen(graph) {
    var svg = graph.svg, view = graph.view, held = null;
    function nodeAt(event) { return event.target.closest && event.target.closest("[data-node]"); }
    ["pointerover", "focusin"].forEach(function (name) {
      svg.addEventListener(name, function (event) { var link = nodeAt(event);
        drawing.near(graph, link ? link.dataset.node : null);
      });
    });
    ["pointerleave", "focusout"].forEach(function (name) {
      svg.addEventListener(name, function () { drawing.near(graph, null); });
    });
    svg.addEventListener("focusin", function (event) { if (nodeAt(event)) reveal(graph, nodeAt(event).dataset.node); });
    view.addEventListener("keydown", function (event) { keyed(graph, event, nodeAt(event)); });
    view.addEventListener("pointerdown", function (event) {
      if (event.pointerType !== "mouse" || event.button !== 0 || nodeAt(event)) return;
      held = { x: event.clientX + view.scrollLeft, y: event.clientY + view.scrollTop };
      view.setPointerCapture(event.pointerId);
    });
    view.addEventListener("pointermove", function (event) {
      if (!held) return;
      view.scrollLeft = held.x - event.clientX;
      view.scrollTop = held.y - event.clientY;
    });
    ["pointerup", "pointercancel"].forEach(function (name) {
      view.addEventListener(name, function () { held = null; });
    });
  }

  // Scrolls the graph's own box only.
  function reveal(graph, id) {
    var place = graph.boxes.get(id), view = graph.view, by = graph.scale;
    view.scrollLeft = into(view.scrollLeft, view.clientWidth, place.x * by, (place.x + place.width) * by);
    view.scrollTop = into(view.scrollTop, view.clientHeight, place.y * by, (place.y + place.height) * by);
  }

  function into(scroll, room, begin, end) {
    if (begin < scroll) return begin - 20;
    return end > scroll + room ? end - room + 20 : scroll;
  }

  var ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  function keyed(graph, event, link) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") zoom(graph, graph.scale * 1.25);
    else if (event.key === "-") zoom(graph, graph.scale / 1.25);
    else if (event.key === "0") zoom(graph, whole(graph));
    else if (link && ARROWS[event.key]) {
      var next = neighbour(graph, link.dataset.node, ARROWS[event.key]);
      if (next) graph.nodes.get(next).focus({ preventScroll: true });
    } else return;
    event.preventDefault();
  }

  // The nearest linked node in that direction; what lies aside counts three times.
  function neighbour(graph, id, step) {
    var from = graph.boxes.get(id), best = null, least = Infinity;
    graph.boxes.forEach(function (place, other) {
      if (!graph.nodes.get(other).hasAttribute("href")) return;
      var x = place.x - from.x, y = place.y - from.y, ahead = x * step[0] + y * step[1];
      if (ahead < 4) return;
      var far = ahead + 3 * Math.abs(step[0] ? y : x);
      if (far < least) { least = far; best = other; }
    });
    return best;
  }

  // --- swaps -----------------------------------------------------------------------------------

  // A part that goes takes its place and focus along; both are given back to what comes.
  function hold() {
    graphs.forEach(function (graph) {
      if (!graph.view || !graph.view.isConnected) return;
      var focus = graph.stage.contains(document.activeElement) ? document.activeElement : null;
      graph.held = { left: graph.view.scrollLeft, top: graph.view.scrollTop, focus: focus };
    });
  }

  function move(graph, host) {
    graph.host = host;
    if (!graph.stage) return;
    host.replaceChildren(graph.stage);
    if (!graph.held) return;
    graph.view.scrollLeft = graph.held.left;
    graph.view.scrollTop = graph.held.top;
    if (graph.held.focus) graph.held.focus.focus({ preventScroll: true });
  }

  ["htmx:beforeSwap", "htmx:oobBeforeSwap"].forEach(function (name) { document.addEventListener(name, hold); });
  ["htmx:afterSwap", "htmx:oobAfterSwap"].forEach(function (name) { document.addEventListener(name, refresh); });
  narrow.addEventListener("change", refresh);
  refresh();
})();
