// @ts-check
/** Where the numbers come from: the overview twice a second by server-sent events, and the history. */
import { call } from "../shared/api.js";
import { openEvents } from "../shared/events.js";

const AGAIN_MS = 2000;
const SILENT_MS = 4000;

/** Events: "overview" (detail = the overview), "state" (detail = "live" | "waiting" | "lost"). Rests while the page is hidden. */
export class Feed extends EventTarget {
  constructor() {
    super();
    /** @type {import("../shared/events.js").Events | null} */
    this.source = null;
    this.heard = 0;
    this.state = "waiting";
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#close() : this.start()));
    setInterval(() => this.#check(), 1000);
  }

  start() {
    this.#close();
    this.heard = Date.now();
    this.source = openEvents("/v1/overview/events");
    this.source.addEventListener("overview", (event) => this.#take(event.data));
  }

  #close() {
    this.source?.close();
    this.source = null;
  }

  /** @param {string} data */
  #take(data) {
    this.heard = Date.now();
    this.#enter("live");
    this.dispatchEvent(new CustomEvent("overview", { detail: JSON.parse(data) }));
  }

  /** A source that was refused stays closed: the browser does not come back by itself. */
  #check() {
    if (document.hidden) return;
    const silent = Date.now() - this.heard;
    if (silent > SILENT_MS) this.#enter("lost");
    if (silent > SILENT_MS + AGAIN_MS || this.source?.readyState === EventSource.CLOSED) this.start();
  }

  /** @param {string} state */
  #enter(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}

/** @param {number} seconds @returns {Promise<any[]>} points in order of time */
export async function history(seconds) {
  const { points } = await call("GET", `/v1/overview/history?seconds=${seconds}`);
  return points;
}

/** One session with its last chunks; null when it has gone. @param {string} id */
export async function session(id) {
  return call("GET", `/v1/overview/sessions/${id}`).catch(() => null);
}

/** How long a chunk of the served model plays, ms; null while it is not known. */
export async function chunkTime() {
  const { data } = await call("GET", "/v1/models");
  return (1000 * data[0].chunk_frames) / data[0].fps;
}

/** The point that an overview adds to the history. @param {any} o */
export function pointOf(o) {
  const sent = o.sessions.map((/** @type {any} */ s) => s.fps_sent).filter((/** @type {any} */ v) => v !== null);
  return {
    at: o.at,
    on_time_ratio: o.live.on_time_ratio_10s,
    busy_ratio: o.engine.busy_ratio,
    step_ms_p50: o.batch.step_ms?.p50 ?? null,
    step_ms_p99: o.batch.step_ms?.p99 ?? null,
    rows_mean: o.batch.rows_mean,
    sessions: o.live.sessions,
    viewers: o.live.viewers,
    jobs_running: o.jobs?.running ?? null,
    latency_ms_p50: o.latency.sent_ms.p50,
    latency_ms_p99: o.latency.sent_ms.p99,
    shown_ms_p50: o.latency.shown_ms.p50,
    pages_ratio: o.engine.pages_total ? o.engine.pages_used / o.engine.pages_total : null,
    waiting: o.engine.waiting,
    efficiency: o.batch.efficiency,
    others_ratio: o.machine.others,
    fps_target: o.live.fps_target,
    fps_sent: sent.length ? sent.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0) : null,
  };
}
