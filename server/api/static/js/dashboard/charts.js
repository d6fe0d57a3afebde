// @ts-check
/** Lines over time. Keeps an hour of points; a gap in the data is a gap in the line. */
import uPlot from "/static/vendor/uPlot.esm.js";
import { byId, colour, make } from "../shared/dom.js";
import { fixed, known } from "../shared/format.js";

const KEEP_S = 3600;
const GAP_S = 8;
const HEIGHT = 150;
const REDRAWS = 240; // within the time shown: the newest point is never older than half a pixel or so

/** @typedef {{label: string, field: string, tone: string, scale?: number, digits?: number, unit?: string}} Line */
/** @type {{title: string, range: (low: number, high: number) => [number, number], lines: Line[]}[]} */
const CHARTS = [
  { title: "Frames on time, %", range: (low) => [Math.min(90, Math.floor(low)), 100], lines: [{ label: "on time", field: "on_time_ratio", tone: "good", scale: 100, digits: 1, unit: "%" }] },
  { title: "Latency of a frame, ms", range: (_, high) => [0, high * 1.1], lines: [{ label: "sent p50", field: "latency_ms_p50", tone: "denoise", digits: 0, unit: "ms" }, { label: "sent p99", field: "latency_ms_p99", tone: "decode", digits: 0, unit: "ms" }, { label: "on the screen p50", field: "shown_ms_p50", tone: "network", digits: 0, unit: "ms" }] },
  { title: "Denoise step, ms", range: (_, high) => [0, high * 1.1], lines: [{ label: "p50", field: "step_ms_p50", tone: "denoise", digits: 1, unit: "ms" }, { label: "p99", field: "step_ms_p99", tone: "decode", digits: 1, unit: "ms" }] },
  { title: "Streams and rows", range: (_, high) => [0, high + 1], lines: [{ label: "sessions", field: "sessions", tone: "encode" }, { label: "viewers", field: "viewers", tone: "send" }, { label: "rows in a batch", field: "rows_mean", tone: "denoise", digits: 1 }, { label: "jobs", field: "jobs_running", tone: "convert" }, { label: "waiting", field: "waiting", tone: "queue" }] },
  { title: "Device busy and KV pages, %", range: (_, high) => [0, Math.max(100, high)], lines: [{ label: "busy", field: "busy_ratio", tone: "encode", scale: 100, digits: 0, unit: "%" }, { label: "pages", field: "pages_ratio", tone: "commit", scale: 100, digits: 0, unit: "%" }, { label: "other programs", field: "others_ratio", tone: "bad", scale: 100, digits: 0, unit: "%" }] },
  { title: "Frames sent a second", range: (_, high) => [0, high * 1.1 || 1], lines: [{ label: "sent", field: "fps_sent", tone: "send", digits: 1 }, { label: "wanted", field: "fps_target", tone: "queue", digits: 0 }] },
];

export class Charts {
  constructor() {
    /** @type {any[]} */
    this.points = [];
    this.seconds = 900;
    this.drawn = 0;
    /** @type {any[]} */
    this.plots = [];
    addEventListener("themechange", () => this.#build());
    new ResizeObserver(() => this.#resize()).observe(byId("charts"));
    this.#build();
  }

  /** @param {any[]} points of the history */
  load(points) {
    if (!points.length) return;
    const [oldest, newest] = [points[0].at, points[points.length - 1].at];
    const kept = this.points;
    this.points = kept.filter((p) => p.at < oldest);
    for (const point of [...points, ...kept.filter((p) => p.at > newest)]) this.#append(point);
    this.draw();
  }

  /** @param {any} point at the end */
  add(point) {
    if (this.#append(point) && point.at - this.drawn >= this.seconds / REDRAWS) this.draw();
  }

  /** One point a second is enough. @param {any} point */
  #append(point) {
    const last = this.points[this.points.length - 1];
    if (last && point.at - last.at < 0.9) return false;
    this.points.push(point);
    while (this.points[0].at < point.at - KEEP_S) this.points.shift();
    return true;
  }

  /** @param {number} seconds */
  show(seconds) {
    this.seconds = seconds;
    this.draw();
  }

  #build() {
    for (const plot of this.plots) plot.destroy();
    byId("charts").replaceChildren();
    this.plots = CHARTS.map((chart) => {
      const box = make("div", { className: "chart" }, make("h3", {}, chart.title));
      byId("charts").append(box);
      return new uPlot(options(chart, box.clientWidth), [[], ...chart.lines.map(() => [])], box);
    });
    this.draw();
  }

  #resize() {
    for (const plot of this.plots) {
      const width = plot.root.parentElement.clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    }
  }

  draw() {
    byId("history-none").hidden = this.points.length > 0;
    const end = this.points.length ? this.points[this.points.length - 1].at : Date.now() / 1000;
    this.drawn = end;
    const shown = withGaps(this.points.filter((p) => p.at >= end - this.seconds));
    CHARTS.forEach((chart, i) => {
      const columns = chart.lines.map(({ field, scale = 1 }) => shown.map((p) => (known(p[field]) ? p[field] * scale : null)));
      this.plots[i].setData([shown.map((p) => p.at), ...columns], false);
      this.plots[i].setScale("x", { min: end - this.seconds, max: end });
    });
  }
}

/** An empty point inside every gap, so that no line is drawn through it. @param {any[]} points */
function withGaps(points) {
  return points.flatMap((point, i) => (i && point.at - points[i - 1].at > GAP_S ? [{ at: points[i - 1].at + 1 }, point] : [point]));
}

/** @param {typeof CHARTS[number]} chart @param {number} width */
function options(chart, width) {
  const [soft, line] = [colour("faint"), colour("line")];
  const font = `12px ${colour("sans")}`;
  const axis = { stroke: soft, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  const hours = (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((t) => new Date(t * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(at[1] - at[0] < 60 && { second: "2-digit" }) }));
  return {
    width: width || 400,
    height: HEIGHT,
    cursor: { y: false, points: { size: 7 } },
    legend: { live: true },
    scales: { y: { range: (/** @type {any} */ _, /** @type {any} */ low, /** @type {any} */ high) => chart.range(low ?? 0, high ?? 1) } },
    axes: [{ ...axis, grid: { show: false }, space: 90, values: hours, size: 30 }, { ...axis, size: 46, space: 34 }],
    series: [{ value: (/** @type {any} */ _, /** @type {any} */ t) => (known(t) ? new Date(t * 1000).toLocaleTimeString("en-GB") : "") }, ...chart.lines.map(series)],
  };
}

/** @param {Line} line */
function series({ label, tone, digits = 0, unit = "" }) {
  return {
    label,
    stroke: colour(tone),
    width: 1.6,
    points: { show: false },
    value: (/** @type {any} */ _, /** @type {any} */ v) => (known(v) ? `${fixed(v, digits)} ${unit}` : "–"),
  };
}
