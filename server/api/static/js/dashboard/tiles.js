// @ts-check
/** The tiles: one number each, with what it is measured against. Where there is nothing, they say so. */
import { byId, put } from "../shared/dom.js";
import { count, counted, duration, fixed, gib, known, ms, percent } from "../shared/format.js";

/** @param {string} id @param {string} text @param {string} [unit] @param {string} [tone] */
function big(id, text, unit = "", tone = "") {
  put(byId(id), text, unit);
  byId(id).dataset.tone = text === "–" ? "" : tone;
}

/** @param {string} id @param {string} text */
function sub(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

/** @param {string} id @param {unknown} value between 0 and 1 */
function meter(id, value) {
  byId(id).hidden = !known(value);
  if (known(value)) byId(id).value = value;
}

/** @param {any} q @param {string[]} names */
const tail = (q, ...names) => (known(q?.p50) ? names.map((name) => `${name} ${ms(q[name])}`).join(", ") + " ms" : "no data");

/** @param {any} o */
function keepingUp(o) {
  const { live } = o;
  const now = live.on_time_ratio_10s;
  const tone = known(now) ? (now >= 0.98 ? "good" : now >= 0.9 ? "wait" : "bad") : "";
  big("t-on-time", percent(now), "%", tone);
  sub("t-on-time-sub", known(now) ? `last 10 s; ${percent(live.on_time_ratio)} % of ${count(live.frames_due)} so far` : known(live.on_time_ratio) ? `none due now; ${percent(live.on_time_ratio)} % so far` : "no data: nobody watches");
  const sent = o.sessions.map((/** @type {any} */ s) => s.fps_sent).filter(known);
  big("t-fps", sent.length ? fixed(sent.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0), 1) : "–", "a second");
  sub("t-fps-sub", `${known(live.fps_target) && live.fps_target ? `of ${fixed(live.fps_target)} wanted; ` : ""}${count(live.sessions)} of ${counted(o.engine.capacity_streams, "stream")}, ${counted(live.viewers, "viewer")}`);
  const { latency } = o;
  const whole = known(latency.shown_ms.p50) ? latency.shown_ms : latency.sent_ms;
  big("t-latency", ms(whole.p50), "ms");
  sub("t-latency-sub", known(whole.p50) ? `${tail(whole, "p95", "p99")}, ${whole === latency.shown_ms ? "to the screen" : "to the last packet"}` : "no data");
  big("t-first", ms(o.first_frame_ms?.p50), "ms");
  sub("t-first-sub", tail(o.first_frame_ms, "p95", "p99"));
}

/** @param {any} o */
function device(o) {
  const { batch, engine } = o;
  big("t-step", ms(batch.step_ms?.p50), "ms");
  const plan = batch.plan_ms?.p50 ?? batch.plan_ms;
  sub("t-step-sub", known(batch.step_ms?.p50) ? `${tail(batch.step_ms, "p95", "p99")}${known(plan) ? `; planning ${plan.toFixed(2)}` : ""}` : "no data");
  big("t-rows", fixed(batch.rows_mean, 1));
  const together = known(batch.efficiency) && known(batch.rows_mean) && batch.rows_mean > 1;
  const gain = together ? `; ${fixed(batch.efficiency, 1)} times as quick as row by row` : "";
  sub("t-rows-sub", known(batch.rows_mean) ? `p50 ${fixed(batch.rows_p50)}, most ${fixed(batch.rows_max)}${gain}` : "no data");
  big("t-busy", known(engine.busy_ratio) ? fixed(100 * engine.busy_ratio) : "–", "%");
  meter("m-busy", engine.busy_ratio);
  sub("t-busy-sub", known(engine.utilisation) ? `${fixed(100 * engine.utilisation)} % promised to streams` : "no data");
  big("t-pages", count(engine.pages_used), known(engine.pages_total) ? `of ${count(engine.pages_total)}` : "");
  meter("m-pages", known(engine.pages_used) && engine.pages_total ? engine.pages_used / engine.pages_total : null);
  sub("t-pages-sub", known(engine.slots_total) ? `text slots ${count(engine.slots_used)} of ${count(engine.slots_total)}` : "no data");
}

/** Who waits, at what quality the others run, and whose work the processor does. @param {any} o */
function sharing(o) {
  const { engine, machine } = o;
  big("t-waiting", count(engine.waiting), engine.waiting === 1 ? "stream" : "streams", engine.waiting ? "wait" : "");
  sub("t-waiting-sub", known(o.admission_ms?.p50) ? `let in after ${tail(o.admission_ms, "p50", "p95")}` : "nobody came so far");
  const levels = Object.entries(o.ladder ?? {});
  const full = Number(o.ladder?.full ?? 0);
  const all = levels.reduce((sum, [, n]) => sum + Number(n), 0);
  big("t-ladder", all ? (full === all ? "full" : `${count(all - full)} of ${count(all)} lower`) : "–", "", all && full < all ? "wait" : "good");
  sub("t-ladder-sub", levels.map(([name, n]) => `${counted(Number(n), "stream")}: ${name}`).join("; ") || "no stream runs");
  const parts = [machine.front, machine.engine, machine.others];
  big("t-cpu", parts.every(known) ? fixed(100 * parts.reduce((a, b) => a + b, 0)) : "–", "%", machine.taken ? "bad" : "");
  sub("t-cpu-sub", parts.every(known) ? `front ${fixed(100 * machine.front)}, engine ${fixed(100 * machine.engine)}, other programs ${fixed(100 * machine.others)}` : "no data");
}

/** Shown only where there is one. @param {any} found of the overview */
function gpu(found) {
  byId("gpu").hidden = !found;
  if (!found) return;
  big("t-gpu", fixed(100 * found.busy), "% busy");
  meter("m-gpu", found.memory_bytes / found.memory_bytes_total);
  const memory = `${gib(found.memory_bytes)} of ${gib(found.memory_bytes_total)} GiB`;
  sub("t-gpu-sub", [found.name, memory, known(found.power_w) ? `${fixed(found.power_w)} W` : ""].filter(Boolean).join(", "));
}

/** @type {Record<string, [string, string?]>} */
const ERRORS = { answers_5xx: ["failed answer"], logged: ["in the log", "in the log"], engine_restarts: ["restart"], jobs_failed: ["failed job"] };

/** @param {any} o */
function errors(o) {
  const found = Object.keys(ERRORS).map((name) => ({ name, n: Number(o.errors?.[name] ?? 0) }));
  const total = found.reduce((sum, { n }) => sum + n, 0);
  big("t-errors", count(total), "", total ? "bad" : "good");
  sub("t-errors-sub", found.filter(({ n }) => n).map(({ name, n }) => counted(n, ...ERRORS[name])).join(", ") || "none so far");
}

/** @type {Record<string, string>} */
const TONES = { ready: "good", starting: "wait", restarting: "wait", failed: "bad" };

/** @param {any} o */
function rest(o) {
  const { jobs, engine } = o;
  const there = known(jobs?.running) || known(jobs?.queued);
  big("t-jobs", there ? count(jobs.running ?? 0) : "–", "running");
  const parts = ["queued", "completed", "failed", "cancelled"].filter((name) => jobs?.[name]).map((name) => `${count(jobs[name])} ${name}`);
  sub("t-jobs-sub", there ? parts.join(", ") || "none so far" : "no data");
  const refused = Object.entries(o.rejected ?? {});
  const total = refused.reduce((sum, [, n]) => sum + Number(n), 0);
  big("t-rejected", o.rejected ? count(total) : "–", "", total ? "wait" : "");
  sub("t-rejected-sub", refused.map(([code, n]) => `${code} ${count(n)}`).join(", ") || "nobody was turned away");
  big("t-engine", engine.state ?? "–", "", TONES[engine.state]);
  const restarts = engine.restarts ? counted(engine.restarts, "restart") : "no restart";
  sub("t-engine-sub", [engine.model, restarts, `up ${duration(o.uptime_s)}`].filter(Boolean).join(", "));
}

/** @param {any} overview */
export function showTiles(overview) {
  keepingUp(overview);
  device(overview);
  sharing(overview);
  gpu(overview.machine.gpu);
  errors(overview);
  rest(overview);
}
