// @ts-check
/**
 * One live stream from the viewer's side: makes the session, connects, watches, and comes back after any loss.
 * Not: the page. It says what happens by events; the page shows it.
 *
 * Events: "phase" (this.phase changed), "session" (this.session changed), "status" (the server's or the
 * viewer's numbers changed), "accepted", "applied" ({recognised, revision, chunk}), "problem" ({message, param}),
 * "photon" ({ms}), "stream" (a new MediaStream to show).
 */
import { ApiError, call, forget } from "../shared/api.js";
import { Peer } from "./peer.js";
import { readReceiver } from "./receiver.js";

const TICK_MS = 1000;
const PONG_LIMIT_MS = 6000;
const MEDIA_LIMIT_MS = 7000;
const LONGEST_WAIT_S = 8;
const HALF_FRAME_MS = 25;
const QUEUE_S = 1;
/** The phases of refusals that are not for want of room. @type {Record<string, string>} */
const UNREADY = { engine_starting: "warming", engine_failed: "failed" };

/** @typedef {{prompt: string, seed: number | null, steps: number | null, paused: boolean}} Settings */
/** @typedef {{name: string, reason?: string, param?: string | null, position?: number | null, estimate?: number | null, until?: number}} Phase */

export class Live extends EventTarget {
  /** @param {Settings} settings @param {import("./frames.js").FrameMeter} meter @param {string | null} watch id of a session to watch only */
  constructor(settings, meter, watch) {
    super();
    this.settings = settings;
    this.meter = meter;
    this.watching = watch;
    /** @type {Phase} */
    this.phase = { name: "starting" };
    /** @type {any} */
    this.session = null;
    /** @type {Peer | null} */
    this.peer = null;
    /** @type {any} */
    this.status = null;
    /** @type {import("./receiver.js").Received | null} */
    this.received = null;
    this.stopped = false;
    this.picture = false;
    /** @type {{at: number, revision: number | null}[]} controls on their way, oldest first */
    this.sent = [];
    this.heard = { pong: 0, packets: 0, media: 0 };
    /** Ends the wait that is going on. @type {() => void} */
    this.wake = () => undefined;
    /** @type {any} the served model and its limits, once known */
    this.model = null;
  }

  /** @param {string} name @param {any} [detail] */
  #say(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  /** @param {Phase} phase */
  #enter(phase) {
    const same = phase.name === this.phase.name && phase.reason === this.phase.reason && phase.until === this.phase.until && phase.position === this.phase.position && phase.estimate === this.phase.estimate;
    this.phase = phase;
    if (!same) this.#say("phase");
  }

  /** @param {number} seconds ends early by wake() */
  #wait(seconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds * 1000);
      this.wake = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
  }

  /** Runs until stop(). */
  async run() {
    const ticker = setInterval(() => this.#tick(), TICK_MS);
    for (let failures = 0; !this.stopped; ) {
      try {
        await this.#join();
        failures = 0;
        await this.#untilLost();
      } catch (error) {
        await this.#recover(error, failures++);
      }
    }
    clearInterval(ticker);
  }

  async #join() {
    if (!this.session) {
      if (!this.phase.until) this.#enter({ name: "starting" });
      this.session = this.watching ? await call("GET", `/v1/sessions/${this.watching}`) : await this.#create();
      this.#say("session");
    }
    await this.#untilAdmitted();
    if (this.phase.name !== "reconnecting") this.#enter({ name: "connecting" });
    this.picture = false;
    this.peer = new Peer(!this.watching);
    this.peer.addEventListener("message", (event) => this.#hear(/** @type {CustomEvent} */ (event).detail));
    await this.peer.connect(this.watching ? this.session.whep_url : this.session.duplex_url);
    this.received = null;
    this.sent = [];
    this.heard = { pong: performance.now(), packets: 0, media: performance.now() };
    this.#say("stream", this.peer.stream);
    this.#assess();
  }

  async #create() {
    this.model ??= (await call("GET", "/v1/models")).data[0];
    const { prompt, seed, steps } = this.settings;
    return call("POST", "/v1/sessions", {
      prompt,
      ...(seed !== null && { seed }),
      ...(steps !== null && { num_inference_steps: steps }),
      wait: true,
    });
  }

  /** While the device is full the session waits in line; asking keeps its place. */
  async #untilAdmitted() {
    const url = `/v1/sessions/${this.session.id}`;
    while (this.session.status === "queued" && !this.stopped) {
      const { queue_position: position, estimated_wait_s: estimate } = this.session;
      this.#enter({ name: "queued", position, estimate });
      await this.#wait(QUEUE_S);
      this.session = await call("GET", url);
    }
  }

  async #untilLost() {
    const peer = /** @type {Peer} */ (this.peer);
    if (this.settings.paused && !this.watching) peer.addEventListener("open", () => this.change({ paused: true }), { once: true });
    const reason = await new Promise((resolve) => {
      peer.addEventListener("lost", (event) => resolve(/** @type {CustomEvent} */ (event).detail), { once: true });
    });
    this.#drop();
    if (!this.stopped) throw new Error(reason);
  }

  #drop() {
    this.peer?.close();
    this.peer = null;
    this.status = null;
    this.received = null;
    this.#say("status");
  }

  /** Waits as long as the kind of failure asks for. @param {unknown} error @param {number} failures */
  async #recover(error, failures) {
    this.#drop();
    if (this.stopped) return;
    const backoff = Math.min(2 ** failures * 0.5, LONGEST_WAIT_S);
    const reason = error instanceof Error ? error.message : String(error);
    if (!(error instanceof ApiError)) return this.#pause({ name: "reconnecting", reason }, backoff);
    const seconds = error.retryAfter || backoff;
    if (error.status === 0) return this.#pause({ name: "offline", reason }, backoff);
    if (error.status === 404 || error.status === 410) {
      const ended = this.watching !== null;
      this.session = null;
      return ended ? this.#pause({ name: "ended" }, 3600) : this.#wait(backoff / 4);
    }
    if (error.status === 503 || error.status === 429) {
      const name = UNREADY[error.code] ?? "queued";
      return this.#pause({ name, reason, position: error.queuePosition }, seconds);
    }
    if (error.status >= 500) return this.#pause({ name: "failed", reason }, Math.max(seconds, 2));
    this.#say("problem", { message: reason, param: error.param });
    return this.#pause({ name: "refused", reason, param: error.param }, 3600);
  }

  /** @param {Phase} phase @param {number} seconds */
  #pause(phase, seconds) {
    this.#enter({ ...phase, until: Date.now() + seconds * 1000 });
    return this.#wait(seconds);
  }

  /** The phase that follows from what was heard last. */
  #assess() {
    if (!this.peer || this.stopped) return;
    const engine = this.status?.engine_state;
    if (engine === "restarting" || engine === "failed") this.#enter({ name: engine });
    else if (this.settings.paused && this.picture) this.#enter({ name: "paused" });
    else if (this.status?.status === "queued") this.#enter({ name: "queued", position: this.status.queue_position, estimate: this.status.estimated_wait_s });
    else if (engine === "starting") this.#enter({ name: "warming" });
    else this.#enter({ name: this.picture ? "playing" : "buffering" });
  }

  /** To be called when a frame was shown. */
  sawFrame() {
    if (this.picture || !this.peer) return;
    this.picture = true;
    this.#assess();
  }

  async #tick() {
    const peer = this.peer;
    if (!peer || peer.pc.connectionState !== "connected") return;
    peer.send({ type: "ping", t: performance.now() });
    this.received = await readReceiver(peer.pc, this.received);
    if (peer !== this.peer) return;
    this.#report(peer);
    this.#watchdog(peer);
    if (this.received.frames_decoded) this.sawFrame();
    this.#assess();
    this.#say("status");
  }

  /** @param {Peer} peer */
  #report(peer) {
    const { raw, at, ...numbers } = /** @type {import("./receiver.js").Received} */ (this.received);
    peer.send({ type: "stats", ...numbers, fps_shown: this.meter.fps, visible: !document.hidden });
  }

  /** @param {Peer} peer */
  #watchdog(peer) {
    const now = performance.now();
    const packets = this.received?.packets ?? 0;
    if (packets !== this.heard.packets) this.heard = { ...this.heard, packets, media: now };
    const resting = this.settings.paused || (this.status && (this.status.engine_state !== "ready" || this.status.status === "queued"));
    if (peer.channel && now - this.heard.pong > PONG_LIMIT_MS) peer.lose("The server has not answered for 6 seconds.");
    else if (!resting && now - this.heard.media > MEDIA_LIMIT_MS) peer.lose("No picture has come for 7 seconds.");
  }

  /** @param {any} message */
  #hear(message) {
    this.heard.pong = performance.now();
    const handlers = {
      status: () => this.#heardStatus(message),
      accepted: () => this.#heardAccepted(message),
      applied: () => this.#heardApplied(message),
      error: () => this.#heardError(message.error ?? message),
      ended: () => this.#heardEnded(message),
    };
    handlers[/** @type {keyof typeof handlers} */ (message.type)]?.();
  }

  /** @param {any} message */
  #heardStatus(message) {
    this.status = message;
    this.#assess();
    this.#say("status");
  }

  /** @param {any} message */
  #heardAccepted(message) {
    const first = this.sent.find((control) => control.revision === null);
    if (first) first.revision = message.revision;
    this.#say("accepted", message);
  }

  /** @param {any} message */
  #heardApplied(message) {
    const control = this.sent.find((c) => c.revision === message.revision);
    this.sent = this.sent.filter((c) => c.revision === null || c.revision > message.revision);
    this.#say("applied", message);
    if (!control) return;
    const due = performance.now() + Math.max(message.due_in_ms ?? 0, 0) - HALF_FRAME_MS;
    this.meter.firstAfter(due, (shownAt) => this.#say("photon", { ms: shownAt - control.at }));
  }

  /** @param {any} message the stream is over on the server; a new one is made */
  #heardEnded(message) {
    this.peer?.lose(message.error?.message ?? "The server ended this stream.");
  }

  /** @param {{message: string, param?: string | null}} error */
  #heardError(error) {
    const first = this.sent.findIndex((control) => control.revision === null);
    if (first >= 0) this.sent.splice(first, 1);
    this.#say("problem", error);
  }

  /** Changes the running stream, or the one that is being made. @param {Partial<Settings>} partial */
  change(partial) {
    Object.assign(this.settings, partial);
    if (this.phase.name === "refused") this.wake();
    const stated = Object.entries(partial).filter(([, value]) => value !== null);
    if (!this.session || this.watching || !stated.length) return;
    const control = Object.fromEntries(stated);
    if (this.peer?.send({ type: "control", ...control })) this.sent.push({ at: performance.now(), revision: null });
    else this.#patch(control);
    this.#assess();
  }

  /** @param {any} control */
  async #patch({ steps, ...rest }) {
    const body = steps === undefined ? rest : { ...rest, num_inference_steps: steps };
    try {
      const answer = await call("PATCH", this.session.duplex_url.replace(/\/duplex$/, ""), body);
      this.#say("applied", answer);
    } catch (error) {
      if (error instanceof ApiError && error.status !== 404 && error.status !== 0) this.#say("problem", error);
    }
  }

  /** Tries again at once. */
  retry() {
    this.wake();
  }

  /** Leaves; the session goes with its maker. */
  stop() {
    this.stopped = true;
    this.peer?.lose("left");
    this.peer?.close();
    if (this.session && !this.watching) forget(`/v1/sessions/${this.session.id}`);
    this.wake();
  }
}
