// @ts-check
/** Recording on the server, and the list of what was recorded. Offered where the session has the route for it. */
import { ApiError, call, saveWithKey } from "../shared/api.js";
import { byId, icon, make } from "../shared/dom.js";
import { clock, duration } from "../shared/format.js";
import { toast } from "../shared/toast.js";

const POLL_MS = 1000;
const LISTED = 4;
/** Recordings that are asked for: some of them may be expired. */
const LOOKED_AT = 20;

export class Recorder {
  /** @param {import("./live.js").Live} live */
  constructor(live) {
    this.live = live;
    /** @type {string | null} the recording that runs */
    this.id = null;
    this.timer = 0;
    /** Whether an ended one waits for its place. */
    this.waits = false;
    /** What the list shows. */
    this.shown = "";
    this.busy = false;
    byId("record").addEventListener("click", () => this.toggle());
    live.addEventListener("session", () => this.refresh());
    live.addEventListener("recording", () => this.refresh());
  }

  get #url() {
    return this.live.watching ? null : (this.live.session?.recordings_url ?? null);
  }

  async toggle() {
    if (this.busy || !this.#url) return;
    this.busy = true;
    await this.#try(async () => {
      if (this.id) await call("POST", `/v1/recordings/${this.id}/stop`);
      else await call("POST", this.#url, {});
      toast(this.id ? "Recording saved, see the list" : "Recording on the server");
    });
    this.busy = false;
    await this.refresh();
  }

  /** @param {() => Promise<void>} action */
  async #try(action) {
    this.#fail("");
    try {
      await action();
    } catch (error) {
      this.#fail(error instanceof ApiError ? error.message : String(error));
    }
  }

  async refresh() {
    clearTimeout(this.timer);
    byId("record").hidden = byId("record-card").hidden = !this.#url;
    if (!this.#url) return;
    try {
      const [own, all] = await Promise.all([call("GET", `${this.#url}?limit=1`), call("GET", `/v1/recordings?limit=${LOOKED_AT}`)]);
      this.#show(own.data[0], all.data);
    } catch {
      // the stage tells that the server is away
    }
    if (this.id || this.waits) this.timer = setTimeout(() => this.refresh(), POLL_MS);
  }

  /** @param {any} own the newest of this stream, which alone may run @param {any[]} recordings of all streams, newest first */
  #show(own, recordings) {
    const mine = own?.status === "recording" ? own : null;
    this.#running(mine?.id ?? null, mine?.seconds);
    this.waits = recordings.some(({ status }) => status === "finishing");
    const done = recordings.filter(({ status }) => !["recording", "expired"].includes(status)).slice(0, LISTED);
    const shown = [this.live.session?.id, ...done.map(({ id, status }) => `${id} ${status}`)].join();
    if (this.shown !== shown) byId("recordings").replaceChildren(...done.map((recording) => this.#row(recording)));
    this.shown = shown;
    byId("record-none").hidden = done.length > 0;
  }

  /** @param {string | null} id @param {number} [seconds] */
  #running(id, seconds) {
    const button = byId("record");
    if (id !== this.id) button.replaceChildren(icon(id ? "stop" : "record"));
    this.id = id;
    button.setAttribute("aria-pressed", String(Boolean(id)));
    button.title = id ? "Stop recording (R)" : "Record (R)";
    byId("rec").hidden = !id;
    byId("rec-time").textContent = id ? duration(seconds ?? 0) : "";
  }

  /** @param {any} recording */
  #row(recording) {
    const { id, status, format, seconds, bytes, reason, prompt, session_id } = recording;
    const [at, words] = [clock(recording.created_at), prompt ?? "Recording"];
    const facts = status === "completed" ? [duration(seconds), `${(bytes / 1e6).toFixed(1)} MB`, String(format).toUpperCase()] : [`${status}${reason ? `: ${reason}` : ""}`];
    const line = [at, ...facts, ...(session_id === this.live.session?.id ? [] : ["another stream"])].join(", ");
    const name = `the recording of ${at}: ${words}`;
    const remove = make("button", { type: "button", className: "icon", "aria-label": `Remove ${name}`, title: "Remove" }, icon("close"));
    remove.addEventListener("click", async () => {
      await this.#try(() => call("DELETE", `/v1/recordings/${id}`));
      this.refresh();
    });
    const save = make("a", { className: "icon", href: recording.content_url, download: `onbeat-${id}.${format}`, "aria-label": `Download ${name}`, title: "Download" }, icon("download"));
    save.addEventListener("click", (/** @type {MouseEvent} */ event) => saveWithKey(event, (message) => this.#fail(message)));
    return make("li", { className: "job" }, make("p", { title: words }, words), make("small", {}, line), make("div", { className: "actions" }, ...(status === "completed" ? [save, remove] : [remove])));
  }

  /** @param {string} message "" takes it away */
  #fail(message) {
    byId("record-error").hidden = !message;
    byId("record-error").textContent = message;
  }
}
