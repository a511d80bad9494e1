// What a graph's layout is asked, and where its focus, scrolling, zoom and lines go.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
  bounded,
  fitted,
  layoutRequest,
  neighbour,
  readableScale,
  scrolledInto,
  shapeOf,
  wholeScale,
  widthsOf,
} from "../../static/js/graph/layout.js";
import { curved, MARGIN, pathsOf, rounded, turned } from "../../static/js/graph/paths.js";

const measure = (text) => text.length * 7;
const graph = () => ({
  nodes: [
    { id: "r", title: "raw_route", rank: 0 },
    { id: "c", title: "rc_route", rank: 1, said: "queued" },
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
    Object.assign(changed.nodes[1], { said: "running", state: "running", url: "/c/", sub: "3 rows" });
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
