// Pure geometry of a graph's lines: SVG paths of laid-out edges, of references and of edges between ports.

import { endOf, startOf } from "./layout.js";

export const MARGIN = 4;

// The paths in the order of the edges, how far references reach out, and how far to the right edges between ports do
// (`wide`). `sections` is a map of elk's edge id ("e0", "e1", …) -> its sections; `top` is the room above the boxes;
// `boxes` has the rows of ports, too.
export function pathsOf(edges, sections, boxes, { down, top }) {
  const drawn = new Map();
  let reach = 0;
  let wide = 0;
  const moved = (point) => ({ x: point.x + MARGIN, y: point.y + top });
  const paths = edges.map((edge, place) => {
    if (edge.start_port) {
      const [start, end] = [boxes.get(startOf(edge)), boxes.get(endOf(edge))];
      if (!isAhead(start, end)) wide = Math.max(wide, start.x + start.width, end.x + end.width);
      return flowing(start, end);
    }
    if (edge.kind !== "reference") {
      return (sections.get(`e${place}`) || [])
        .map(({ startPoint, bendPoints = [], endPoint }) => rounded([startPoint, ...bendPoints, endPoint].map(moved)))
        .join("");
    }
    const pair = JSON.stringify([edge.start, edge.end]);
    const number = drawn.get(pair) || 0;
    drawn.set(pair, number + 1);
    const start = turned(boxes.get(edge.start), down);
    reach = Math.max(reach, start.u + start.length + bulge(number) + MARGIN);
    return curved(start, turned(boxes.get(edge.end), down), number, down);
  });
  return { paths, reach, wide: wide && wide + ASIDE + MARGIN };
}

const ASIDE = 26;
const isAhead = (start, end) => end.x > start.x + start.width;

// From the right side of a row to the left side of one further right; else around, from right side to right side.
export function flowing(start, end) {
  const [x, y] = [start.x + start.width, start.y + start.height / 2];
  const arrives = end.y + end.height / 2;
  if (isAhead(start, end)) {
    const half = (x + end.x) / 2;
    return `M${x} ${y} C${half} ${y} ${half} ${arrives} ${end.x} ${arrives}`;
  }
  const right = end.x + end.width;
  const far = Math.max(x, right) + ASIDE;
  return `M${x} ${y} C${far} ${y} ${far} ${arrives} ${right} ${arrives}`;
}

export function rounded(points) {
  const corners = points.slice(1, -1).map((corner, place) => {
    const before = toward(corner, points[place]);
    const after = toward(corner, points[place + 2]);
    return `L${before}Q${corner.x} ${corner.y} ${after}`;
  });
  const [first, last] = [points[0], points[points.length - 1]];
  return `M${first.x} ${first.y}${corners.join("")}L${last.x} ${last.y}`;
}

function toward(corner, other) {
  const length = Math.hypot(other.x - corner.x, other.y - corner.y) || 1;
  const step = Math.min(6, length / 2) / length;
  return `${corner.x + (other.x - corner.x) * step} ${corner.y + (other.y - corner.y) * step}`;
}

// A gentle S; within a column (or row) a bulge beside it. Several between the same two lie beside each other.
export function curved(start, end, number, down) {
  const far = start.u + start.length;
  const at = (u, v) => (down ? `${v} ${u}` : `${u} ${v}`);
  if (Math.abs(start.u - end.u) < 1) {
    const aside = (7 + 5 * number) * (start.v <= end.v ? 1 : -1);
    const reach = far + bulge(number);
    const leaves = start.middle + aside;
    const arrives = end.middle - aside;
    return `M${at(far, leaves)} C${at(reach, leaves)} ${at(reach, arrives)} ${at(far, arrives)}`;
  }
  const forward = start.u < end.u;
  const begins = forward ? far : start.u;
  const ends = forward ? end.u : end.u + end.length;
  const half = (begins + ends) / 2;
  const leaves = start.middle + 6 + 5 * number;
  const arrives = end.middle + 6 + 5 * number;
  return `M${at(begins, leaves)} C${at(half, leaves)} ${at(half, arrives)} ${at(ends, arrives)}`;
}

const bulge = (number) => 20 + 12 * number;

// A box by the direction of the graph: u along it, v across it.
export const turned = (box, down) =>
  down
    ? { u: box.y, v: box.x, length: box.height, middle: box.x + box.width / 2 }
    : { u: box.x, v: box.y, length: box.width, middle: box.y + box.height / 2 };
