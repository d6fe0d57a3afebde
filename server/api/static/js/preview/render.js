// @ts-check
/** The small panel that renders a file by the jobs route, and the list of the latest files. */
import { ApiError, call, saveWithKey } from "../shared/api.js";
import { byId, icon, make } from "../shared/dom.js";
import { duration } from "../shared/format.js";
import { parts } from "./mixture.js";

const POLL_MS = 1000;
const SHOWN = 4;

/** @type {Record<string, string>} */
const STATUS = { queued: "waiting for time", in_progress: "rendering", completed: "ready", failed: "failed", cancelled: "cancelled" };

export class RenderPanel {
  /** @param {() => {prompt: string, seed: number | null, steps: number | null}} scene */
  constructor(scene) {
    this.scene = scene;
    this.timer = 0;
    byId("render-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#render();
    });
    this.refresh();
  }

  async #render() {
    this.#fail("");
    const { prompt, seed, steps } = this.scene();
    if (parts(prompt).length) return this.#fail("A file is rendered from one prompt. Take the mixture apart first.");
    const body = { prompt, seconds: byId("seconds").value, ...(seed !== null && { seed }), ...(steps !== null && { num_inference_steps: steps }) };
    try {
      await call("POST", "/v1/videos", body);
    } catch (error) {
      this.#fail(error instanceof ApiError ? error.message : String(error));
    }
    this.refresh();
  }

  /** @param {string} message */
  #fail(message) {
    byId("render-error").hidden = !message;
    byId("render-error").textContent = message;
  }

  async refresh() {
    clearTimeout(this.timer);
    try {
      const { data } = await call("GET", `/v1/videos?limit=${SHOWN}`);
      this.#show(data);
      const busy = data.some((/** @type {any} */ job) => job.status === "queued" || job.status === "in_progress");
      if (busy) this.timer = setTimeout(() => this.refresh(), POLL_MS);
    } catch {
      this.timer = setTimeout(() => this.refresh(), 5 * POLL_MS); // the stage tells that the server is away
    }
  }

  /** @param {any[]} jobs rows are kept and updated, so that focus stays where it is */
  #show(jobs) {
    const list = byId("jobs");
    const rows = new Map([...list.children].map((row) => [row.dataset.id, row]));
    list.replaceChildren(...jobs.map((job) => this.#update(rows.get(job.id) ?? this.#row(job), job)));
  }

  /** @param {any} job */
  #row(job) {
    const actions = make("div", { className: "actions" });
    const row = make("li", { className: "job" }, make("p", { title: job.prompt }, job.prompt ?? ""), make("small"), actions, make("progress", { max: 100, "aria-label": `Progress of ${job.prompt}` }));
    row.dataset.id = job.id;
    return row;
  }

  /** @param {any} row @param {any} job */
  #update(row, job) {
    const [, line, actions, bar] = row.children;
    const busy = job.status === "queued" || job.status === "in_progress";
    const words = [`${job.seconds} s`, STATUS[job.status] ?? job.status];
    if (job.status === "in_progress") words.push(`${job.progress} %`);
    if (job.status === "completed" && job.completed_at) words.push(`took ${duration(Math.max(job.completed_at - job.created_at, 1))}`);
    line.textContent = job.error?.message ?? words.join(", ");
    line.classList.toggle("bad", job.status === "failed");
    bar.hidden = !busy;
    bar.value = job.progress ?? 0;
    if (row.dataset.status !== job.status) actions.replaceChildren(...this.#actions(job, busy));
    row.dataset.status = job.status;
    return row;
  }

  /** @param {any} job @param {boolean} busy */
  #actions(job, busy) {
    const remove = make("button", { type: "button", className: "icon", "aria-label": `${busy ? "Stop" : "Remove"} ${job.prompt}`, title: busy ? "Stop" : "Remove" }, icon("close"));
    remove.addEventListener("click", () => this.#remove(job.id));
    if (job.status !== "completed") return [remove];
    const name = `${(job.prompt ?? "onbeat").replace(/[^\w]+/g, "-").slice(0, 40)}.mp4`;
    const link = make("a", { className: "icon", href: `/v1/videos/${job.id}/content`, download: name, "aria-label": `Download ${job.prompt}`, title: "Download" }, icon("download"));
    link.addEventListener("click", (/** @type {MouseEvent} */ event) => saveWithKey(event, (message) => this.#fail(message)));
    return [link, remove];
  }

  /** @param {string} id */
  async #remove(id) {
    try {
      await call("DELETE", `/v1/videos/${id}`);
    } catch (error) {
      this.#fail(error instanceof ApiError ? error.message : String(error));
    }
    this.refresh();
  }
}
