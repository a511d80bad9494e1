// What a graph's layout is asked, and where its focus, scrolling, zoom and lines go.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
  bounded,
  fitted,
  heightOf,
  isOnPath,
  layoutRequest,
  matchesOf,
  neighbour,
  pathOf,
  portBoxes,
  readableScale,
  scrolledInto,
  shapeOf,
  wholeScale,
  widthsOf,
} from "../../static/js/graph/layout.js";
import { curved, flowing, MARGIN, pathsOf, rounded, turned } from "../../static/js/graph/paths.js";

const measure = (text) => text.length * 7;
const graph = () => ({
  nodes: [
    { id: "r", title: "raw_route", rank: 0 },
    { id: "c", title: "rc_route", rank: 1, state_label: "queued" },
    { id: "a", title: "rc_airport_of_departure", rank: 1 },
  ],
  edges: [
    { start: "r", end: "c" },
    { start: "c", end: "a", kind: "reference" },
  ],
});

describe("shape", () => {
  test("state, texts and links do not change it", () => {
    const changed = graph();
    Object.assign(changed.nodes[1], { state_label: "running", state: "running", url: "/c/", sub: "3 rows" });
    changed.edges[0].marked = true;
    assert.equal(shapeOf(changed), shapeOf(graph()));
  });

  test("a node, a title, a column or an edge does", () => {
    const changes = [
      ({ nodes }) => nodes.push({ id: "x", title: "x", rank: 2 }),
      ({ nodes }) => Object.assign(nodes[0], { title: "raw_routes" }),
      ({ nodes }) => Object.assign(nodes[0], { rank: 3 }),
      ({ edges }) => edges.pop(),
    ];
    changes.forEach((change) => {
      const changed = graph();
      change(changed);
      assert.notEqual(shapeOf(changed), shapeOf(graph()));
    });
  });
});

describe("boxes", () => {
  test("of one column are equally wide, with room for a state", () => {
    const [raw, route, airport] = widthsOf(graph().nodes, false, measure);
    assert.equal(raw, 120);
    assert.equal(route, airport);
    assert.equal(airport, 23 * 7 + 28);
  });

  test("are bounded, at narrow widths more so", () => {
    const nodes = [{ id: "n", title: "x".repeat(100), rank: 0 }];
    assert.deepEqual(widthsOf(nodes, false, measure), [240]);
    assert.deepEqual(widthsOf(nodes, true, measure), [180]);
  });

  test("cut texts that do not fit", () => {
    assert.equal(fitted("raw_route", 100, measure), "raw_route");
    assert.equal(fitted("raw_route", 35, measure), "raw_…");
    assert.equal(fitted("raw_route", 0, measure), "r…");
  });
});

describe("layout input", () => {
  test("references have no say, and edges keep their place in the data", () => {
    const data = graph();
    data.edges.reverse();
    const { edges } = layoutRequest(data, "RIGHT", [120, 160, 160]);
    assert.deepEqual(edges, [{ id: "e1", sources: ["n0"], targets: ["n1"] }]);
  });

  test("a node's rank is its column, or its row at narrow widths", () => {
    const columns = layoutRequest(graph(), "RIGHT", [1, 1, 1]).children;
    const rows = layoutRequest(graph(), "DOWN", [1, 1, 1]).children;
    assert.deepEqual(columns.map(({ x, y }) => [x, y]), [[0, 0], [1000, 0], [1000, 0]]);
    assert.deepEqual(rows.map(({ x, y }) => [x, y]), [[0, 0], [0, 1000], [0, 1000]]);
  });

  test("without ranks the layout chooses the columns", () => {
    const data = graph();
    delete data.nodes[2].rank;
    const { children, layoutOptions } = layoutRequest(data, "RIGHT", [1, 1, 1]);
    assert.equal("x" in children[0], false);
    assert.equal("elk.layered.layering.strategy" in layoutOptions, false);
  });
});

describe("focus", () => {
  const box = (x, y) => ({ x, y, width: 100, height: 46 });
  const boxes = new Map([["a", box(0, 0)], ["b", box(150, 100)], ["c", box(300, 0)], ["d", box(0, 80)]]);
  const anyone = () => true;

  test("goes to the nearest box in that direction, and what lies aside counts more", () => {
    assert.equal(neighbour(boxes, "a", [1, 0], anyone), "c");
    assert.equal(neighbour(boxes, "a", [0, 1], anyone), "d");
    assert.equal(neighbour(boxes, "c", [-1, 0], anyone), "a");
  });

  test("skips boxes that cannot have it", () => {
    assert.equal(neighbour(boxes, "a", [1, 0], (id) => id !== "c"), "b");
  });

  test("stays where nothing follows", () => {
    assert.equal(neighbour(boxes, "a", [0, -1], anyone), null);
  });
});

describe("scrolling and zoom", () => {
  test("scroll only as far as a box is out of sight", () => {
    assert.equal(scrolledInto(100, 300, 150, 250), 100);
    assert.equal(scrolledInto(100, 300, 50, 150), 30);
    assert.equal(scrolledInto(100, 300, 380, 480), 200);
  });

  test("a graph fits its room unless it could not be read", () => {
    assert.equal(readableScale({ width: 500 }, 1000), 1);
    assert.equal(readableScale({ width: 1000 }, 800), 0.8);
    assert.equal(readableScale({ width: 1000 }, 300), 0.9);
  });

  test("the whole fits both ways, and zoom has bounds", () => {
    assert.equal(wholeScale({ width: 1000, height: 100 }, 500, 500), 0.5);
    assert.equal(wholeScale({ width: 100, height: 1000 }, 500, 250), 0.25);
    assert.deepEqual([0.01, 1, 9].map(bounded), [0.1, 1, 2]);
  });
});

describe("lines", () => {
  const boxes = new Map([
    ["r", { x: 0, y: 0, width: 100, height: 40 }],
    ["c", { x: 200, y: 0, width: 100, height: 40 }],
    ["a", { x: 200, y: 60, width: 100, height: 40 }],
  ]);
  const reference = { start: "c", end: "a", kind: "reference" };

  test("run through their bends, moved to where the boxes are", () => {
    const sections = new Map([["e0", [{ startPoint: { x: 0, y: 0 }, endPoint: { x: 50, y: 0 } }]]]);
    const { paths, reach } = pathsOf([{ start: "r", end: "c" }], sections, boxes, { down: false, top: 28 });
    assert.deepEqual(paths, [`M${MARGIN} 28L${50 + MARGIN} 28`]);
    assert.equal(reach, 0);
  });

  test("an edge that was not laid out has an empty path", () => {
    assert.deepEqual(pathsOf([{ start: "r", end: "c" }], new Map(), boxes, { down: false, top: 0 }).paths, [""]);
  });

  test("have round corners", () => {
    const path = rounded([{ x: 0, y: 0 }, { x: 20, y: 0 }, { x: 20, y: 20 }]);
    assert.equal(path, "M0 0L14 0Q20 0 20 6L20 20");
  });

  test("two references between the same boxes lie beside each other", () => {
    const { paths, reach } = pathsOf([reference, reference], new Map(), boxes, { down: false, top: 0 });
    assert.notEqual(paths[0], paths[1]);
    assert.equal(reach, 300 + 32 + MARGIN);
  });

  test("a reference within a column is a bulge, to another column an S", () => {
    const [start, below, left] = ["c", "a", "r"].map((id) => turned(boxes.get(id), false));
    assert.match(curved(start, below, 0, false), /^M300 27 C320 27 320 73 300 73$/);
    assert.match(curved(start, left, 0, false), /^M200 26 C150 26 150 26 100 26$/);
  });

  test("downwards the axes change places", () => {
    assert.deepEqual(turned(boxes.get("a"), true), { u: 60, v: 200, length: 40, middle: 250 });
  });
});

describe("columns", () => {
  const columns = () => ({
    nodes: [
      { id: "r", title: "raw_route", rank: 0, ports: [{ id: "r.id", title: "id" }, { id: "r.from", title: "from" }] },
      { id: "c", title: "rc_route", rank: 1, ports: [{ id: "c.id", title: "id" }, { id: "c.far", title: "distance" }] },
      { id: "e", title: "Delays", rank: 2 },
    ],
    edges: [
      { start: "r", start_port: "r.id", end: "c", end_port: "c.id" },
      { start: "r", start_port: "r.from", end: "c", end_port: "c.far" },
      { start: "c", start_port: "c.far", end: "e" },
    ],
  });
  const boxes = new Map([
    ["r", { x: 0, y: 0, width: 100, height: 92 }],
    ["c", { x: 200, y: 10, width: 100, height: 92 }],
    ["e", { x: 400, y: 0, width: 100, height: 46 }],
  ]);

  test("are rows below the title of their box, which is as tall as they need", () => {
    const rows = portBoxes(columns().nodes, boxes);
    assert.deepEqual(rows.get("c.far"), { x: 200, y: 76, width: 100, height: 20 });
    assert.equal(heightOf(columns().nodes[0]), 92);
    assert.equal(heightOf(columns().nodes[2]), 46);
  });

  test("give one edge of the layout for two boxes, whatever the number of columns", () => {
    const { edges, children } = layoutRequest(columns(), "RIGHT", [100, 100, 100]);
    assert.deepEqual(edges.map((edge) => edge.id), ["e0", "e2"]);
    assert.deepEqual(children.map((child) => child.height), [92, 92, 46]);
  });

  test("have a path up and down, and nothing beside it", () => {
    const { edges } = columns();
    const path = pathOf(edges, "c.far");
    assert.deepEqual([...path.up], ["c.far", "r.from"]);
    assert.deepEqual([...path.down], ["c.far", "e"]);
    assert.deepEqual(edges.map((edge) => isOnPath(path, edge)), [false, true, true]);
  });

  test("have a path that ends although the flows go in a circle", () => {
    const edges = [
      { start: "a", start_port: "a.x", end: "b", end_port: "b.x" },
      { start: "b", start_port: "b.x", end: "a", end_port: "a.x" },
    ];
    const path = pathOf(edges, "a.x");
    assert.deepEqual([[...path.up], [...path.down]], [["a.x", "b.x"], ["a.x", "b.x"]]);
  });

  test("are found by a part of their name, before boxes", () => {
    assert.deepEqual(matchesOf(columns().nodes, " D"), ["r.id", "c.id", "c.far", "e"]);
    assert.deepEqual(matchesOf(columns().nodes, "%'😀"), []);
    assert.deepEqual(matchesOf(columns().nodes, " "), []);
  });

  test("have lines from the right side to the left side, or around if the reader is not further right", () => {
    const rows = portBoxes(columns().nodes, boxes);
    assert.equal(flowing(rows.get("r.id"), rows.get("c.id")), "M100 56 C150 56 150 66 200 66");
    assert.equal(flowing(rows.get("c.id"), rows.get("r.id")), "M300 66 C326 66 326 56 100 56");
  });

  test("reach out to the right only where a line goes around", () => {
    const data = columns();
    const places = new Map([...boxes, ...portBoxes(data.nodes, boxes)]);
    assert.equal(pathsOf(data.edges, new Map(), places, { down: false, top: 4 }).wide, 0);
    data.edges.push({ start: "c", start_port: "c.id", end: "r", end_port: "r.id" });
    assert.equal(pathsOf(data.edges, new Map(), places, { down: false, top: 4 }).wide, 300 + 26 + MARGIN);
  });
});
