// Charts of numbers over time, drawn by uPlot on a canvas.
//
//   <div class="chart" data-chart="ID"></div>
//   <script type="application/json" id="ID">{"times": […], "series": […], …}</script>
//
// templates/parts/chart.html writes both from a elevata.web.charts.Chart, with a summary and a table, which serve
// keyboards and screen readers and stay if nothing can be drawn. The table has UTC.
//   times      seconds since 1970, ascending; labels has the name of each point
//   series     name, tone (a colour of app.css), values (a number or null for each time)
//   band       low and high: expected limits of the first series
//   anomalies  places of the points that are marked
//   zone       time zone of the axis, empty for the user's
//
// The colours are those of the page: a change of light and dark draws all charts again.

import { axisTimes, minute, userZone } from "../page/times.js";
import { scaled, shown } from "./values.js";

const { uplot } = document.querySelector("script[data-uplot]").dataset;
const DAY = 86_400;
const HEIGHT = 190;
const MARK = 5;
const charts = new Map(); // host -> {text, plot}
let library = null;

const sizes = new ResizeObserver((entries) => {
  entries.forEach(({ target, contentRect }) => {
    const plot = charts.get(target)?.plot;
    if (plot && contentRect.width && plot.width !== contentRect.width) {
      plot.setSize({ width: contentRect.width, height: HEIGHT });
    }
  });
});

function refresh() {
  charts.forEach((chart, host) => {
    if (host.isConnected) return;
    chart.plot?.destroy();
    sizes.unobserve(host);
    charts.delete(host);
  });
  document.querySelectorAll("[data-chart]").forEach(show);
}

async function show(host) {
  const text = document.getElementById(host.dataset.chart)?.textContent;
  if (!text || charts.get(host)?.text === text) return;
  const chart = { text, plot: null };
  charts.get(host)?.plot?.destroy();
  charts.set(host, chart);
  try {
    library ||= loaded();
    await library;
    if (charts.get(host) !== chart || !host.isConnected) return;
    chart.plot = draw(host, JSON.parse(text));
    sizes.observe(host);
  } catch (problem) {
    library = null; // the next chart loads it anew
    console.error("chart", host.dataset.chart, problem);
  }
}

// The library is a plain script: it sets window.uPlot.
function loaded() {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error(`${uplot} could not be loaded`)));
    script.src = uplot;
    document.head.append(script);
  });
}

function draw(host, data) {
  const tones = toneReader(host);
  const zone = data.zone || userZone();
  const ink = tones("ink-soft");
  const grid = { stroke: tones("line"), width: 1 };
  const lines = data.series.map((line) => ({
    label: line.name,
    stroke: tones(line.tone),
    width: 2,
    points: { show: data.times.length < 60, size: 5 },
    value: (_, value) => shown(value, data.unit),
  }));
  const columns = [data.times, ...data.series.map((line) => line.values)];
  const bands = [];
  if (data.band) {
    const fill = tones("accent-wash");
    const limit = { stroke: "transparent", points: { show: false } };
    // Before the lines, which would lie beneath the band otherwise.
    lines.unshift(
      { ...limit, label: "Expected, high", value: (_, value) => shown(value, data.unit) },
      { ...limit, label: "Expected, low", value: (_, value) => shown(value, data.unit) },
    );
    columns.splice(1, 0, data.band.high, data.band.low);
    bands.push({ series: [1, 2], fill });
  }
  host.replaceChildren();
  return new window.uPlot(
    {
      width: host.clientWidth || 320,
      height: HEIGHT,
      tzDate: (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), zone),
      scales: {
        // uPlot gives one point a range of years.
        x: { range: (_, low, high) => (data.times.length === 1 ? [low - DAY, low + DAY] : [low, high]) },
        y: {
          range: (_, low, high) => [
            Math.min(0, low ?? 0) * 1.05,
            Math.max(0, high ?? 0) * 1.05 || Number(!(low < 0)),
          ],
        },
      },
      axes: [
        {
          stroke: ink,
          grid,
          ticks: grid,
          label: `Time zone: ${zone}`,
          labelSize: 20,
          values: (_, ticks, axis, space, step) => axisTimes(ticks, step, zone),
        },
        { stroke: ink, grid, ticks: grid, size: 60, values: (_, ticks) => ticks.map((y) => scaled(y, data.unit)) },
      ],
      series: [{ value: (_, seconds) => pointOf(data, seconds, zone) }, ...lines],
      bands,
      // Half of the last label stands to the right of the axis.
      padding: [null, 36, null, null],
      hooks: {
        draw: [(plot) => mark(plot, data, tones("warn"))],
        ready: [showNewest],
        setLegend: [showNewest],
      },
    },
    columns,
    host,
  );
}

// Return a function that resolves a colour of the page, also one of light-dark().
function toneReader(host) {
  return (name) => {
    const probe = document.createElement("span");
    probe.style.color = `var(--${name})`;
    host.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };
}

// Show the numbers of the newest point in the legend while the cursor is at none.
function showNewest(plot) {
  if (plot.legend.idx === null || plot.legend.idx === undefined) {
    plot.setLegend({ idx: plot.data[0].length - 1 }, false);
  }
}

function pointOf(data, seconds, zone) {
  if (seconds === null || seconds === undefined) return "–";
  const label = data.labels[data.times.indexOf(seconds)];
  const at = `${minute(seconds * 1000, zone)} ${zone}`;
  return label ? `${at}, ${label}` : at;
}

// Draw a triangle above the highest number of each anomaly: a shape, because colour alone does not suffice.
function mark(plot, data, color) {
  const { ctx } = plot;
  const size = MARK * window.uPlot.pxRatio;
  ctx.save();
  ctx.fillStyle = color;
  data.anomalies.forEach((place) => {
    const values = data.series.map((line) => line.values[place]).filter((value) => value !== null);
    if (!values.length) return;
    const x = plot.valToPos(data.times[place], "x", true);
    const y = Math.max(plot.valToPos(Math.max(...values), "y", true) - size, plot.bbox.top + 2 * size);
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x - size, y - 1.8 * size);
    ctx.lineTo(x + size, y - 1.8 * size);
    ctx.fill();
  });
  ctx.restore();
}

function redraw() {
  charts.forEach((chart) => {
    chart.text = "";
  });
  refresh();
}

["htmx:afterSwap", "htmx:oobAfterSwap"].forEach((name) => document.addEventListener(name, refresh));
new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
refresh();
