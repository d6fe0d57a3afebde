// @ts-check
/**
 * One live stream from the viewer's side: makes the session, connects, watches, and comes back after any loss.
 * Not: the page. It says what happens by events; the page shows it.
 *
 * Events: "phase" (this.phase changed), "session" (this.session changed), "status" (the server's or the
 * viewer's numbers changed), "adopted" (this.session is another one), "accepted", "applied" ({recognised, revision, chunk, control: what was asked}), "problem" ({message, param}),
 * "photon" ({ms}), "stream" (a new MediaStream to show).
 */
import { ApiError, call, forget } from "../shared/api.js";
import { asPrompt } from "./mixture.js";
import { Peer } from "./peer.js";
import { afterFailure, connectedPhase, reckoned, samePhase } from "./phases.js";
import { readReceiver } from "./receiver.js";
import { relays } from "./relays.js";
import { Steering } from "./steering.js";
import { follow } from "./watching.js";

const TICK_MS = 1000;
const SEEN_MS = 500;
const PONG_LIMIT_MS = 6000;
const MEDIA_LIMIT_MS = 7000;
const QUEUE_S = 1;

/** @typedef {{prompt: string, seed: number | null, steps: number | null, strength: number | null, fps: number | null, paused: boolean}} Settings */
/** @typedef {Partial<Settings> & {transition?: string}} Change */
/** @typedef {import("./phases.js").Phase} Phase */

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
    /** Whether its session was ever there. */
    this.found = false;
    this.stopped = false;
    this.picture = false;
    this.steering = new Steering(this);
    /** Ends the watcher's feed. @type {() => void} */
    this.unfollow = () => undefined;
    /** What the model works on, beside the words. @type {MediaStream | null} */
    this.source = null;
    /** The server has ended the session. */
    this.over = false;
    /** The connection was let go on purpose: what follows does not wait. */
    this.moving = false;
    this.heard = { pong: 0, packets: 0, media: 0 };
    /** Ends the wait that is going on. @type {() => void} */
    this.wake = () => undefined;
    /** @type {any} the served model and its limits, once known */
    this.model = null;
  }

  /** @param {string} name @param {any} [detail] */
  say(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  /** @param {Phase} phase */
  #enter(phase) {
    const next = reckoned(phase, this.phase, Date.now());
    const same = samePhase(next, this.phase);
    this.phase = next;
    if (!same) this.say("phase");
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
    const teller = setInterval(() => this.#tellSeen(), SEEN_MS);
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
    clearInterval(teller);
  }

  /** @returns {Promise<void>} */
  async #join() {
    const servers = relays(); // asked for while the session is made
    servers.catch(() => undefined); // told where it is awaited
    if (!this.session) {
      if (!this.phase.until) this.#enter({ name: "starting" });
      this.session = this.watching ? await call("GET", `/v1/sessions/${this.watching}`) : await this.#create();
      this.found = true;
      this.say("session");
    }
    await this.#untilAdmitted();
    if (!this.session) return this.#join(); // it was left for another kind
    const stays = ["reconnecting", "no-path", ...(this.watching ? ["queued"] : [])]; // why it is tried again
    if (!stays.includes(this.phase.name)) this.#enter({ name: "connecting" });
    this.picture = false;
    this.peer = new Peer(!this.watching, await servers, this.source);
    this.peer.addEventListener("message", (event) => this.#hear(/** @type {CustomEvent} */ (event).detail));
    await this.peer.connect(this.watching ? this.session.whep_url : this.session.duplex_url);
    this.received = null;
    this.steering.forget();
    this.heard = { pong: performance.now(), packets: 0, media: performance.now() };
    if (this.watching) this.unfollow = follow(this.session.events_url, (message) => this.#hear(message));
    this.say("stream", this.peer.stream);
    this.#assess();
  }

  async #create() {
    this.model ??= (await call("GET", "/v1/models")).data[0];
    const { prompt, seed, steps, strength, fps } = this.settings;
    return call("POST", "/v1/sessions", {
      prompt: asPrompt(prompt),
      ...(seed !== null && { seed }),
      ...(steps !== null && { num_inference_steps: steps }),
      ...(fps !== null && { fps }),
      ...(this.source && { mode: "video-to-video", ...(strength !== null && { strength }) }),
      wait: true,
    });
  }

  /** While the device is full the session waits in line; asking keeps its place. It may be left meanwhile: then it is not asked for any more. */
  async #untilAdmitted() {
    while (this.session?.status === "queued" && !this.stopped) {
      const { id, queue_position: position, estimated_wait_s: estimate } = this.session;
      this.#enter({ name: "queued", position, estimate });
      await this.#wait(QUEUE_S);
      if (this.session?.id !== id || this.stopped) continue;
      const found = await call("GET", `/v1/sessions/${id}`);
      if (this.session?.id === id) this.session = found;
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
    this.unfollow();
    this.peer?.close();
    this.peer = null;
    this.status = null;
    this.received = null;
    this.say("status");
  }

  /** Waits as long as the kind of failure asks for. @param {unknown} error @param {number} failures */
  async #recover(error, failures) {
    this.#drop();
    if (this.stopped) return;
    if (this.moving) {
      this.moving = false;
      return;
    }
    const cause = this.over ? new ApiError(410, null) : error;
    this.over = false;
    const { phase, seconds, gone, problem } = afterFailure(cause, failures, this.watching !== null, this.found);
    if (gone) this.session = null;
    if (problem) this.say("problem", problem);
    return phase ? this.#pause(phase, seconds) : this.#wait(seconds);
  }

  /** @param {Phase} phase @param {number} seconds */
  #pause(phase, seconds) {
    this.#enter({ ...phase, until: Date.now() + seconds * 1000 });
    return this.#wait(seconds);
  }

  /** The phase that follows from what was heard last. */
  #assess() {
    if (!this.peer || this.stopped) return;
    this.#enter(connectedPhase(this.status, this.#resting(), this.picture));
  }

  /** Whether nothing is generated because someone wants it so. */
  #resting() {
    return this.watching ? this.status?.status === "paused" : this.settings.paused;
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
    this.say("status");
  }

  /** @param {Peer} peer */
  #report(peer) {
    const { raw, at, ...numbers } = /** @type {import("./receiver.js").Received} */ (this.received);
    peer.send({ type: "stats", ...numbers, ...this.meter.presence, fps_shown: this.meter.fps });
  }

  /** What was shown of late, for the latency record of each frame. */
  #tellSeen() {
    if (this.peer?.channel?.readyState !== "open") return;
    const frames = this.meter.takeSeen();
    if (frames.length) this.peer.send({ type: "seen", frames });
  }

  /** A stream that nobody sees rests; the server is told at once when that changes. */
  tellPresence() {
    if (this.session?.recordings_url) this.peer?.send({ type: "presence", ...this.meter.presence });
  }

  /** @param {Peer} peer */
  #watchdog(peer) {
    const now = performance.now();
    const packets = this.received?.packets ?? 0;
    if (packets !== this.heard.packets) this.heard = { ...this.heard, packets, media: now };
    const resting = this.#resting() || this.status?.status === "paused" || (this.status && (this.status.engine_state !== "ready" || this.status.status === "queued"));
    if (peer.channel && now - this.heard.pong > PONG_LIMIT_MS) peer.lose("The server has not answered for 6 seconds.");
    else if (!resting && now - this.heard.media > MEDIA_LIMIT_MS) peer.lose("No picture has come for 7 seconds.");
  }

  /** @param {any} message */
  #hear(message) {
    this.heard.pong = performance.now();
    const handlers = {
      status: () => this.#heardStatus(message),
      accepted: () => this.steering.accepted(message),
      applied: () => this.#heardApplied(message),
      error: () => this.steering.refused(message.error ?? message),
      ended: () => this.#heardEnded(message),
      recording: () => this.say("recording", message),
    };
    handlers[/** @type {keyof typeof handlers} */ (message.type)]?.();
  }

  /** @param {any} message */
  #heardStatus(message) {
    this.status = message;
    this.#assess();
    this.say("status");
  }

  /** @param {any} message */
  #heardApplied(message) {
    if (this.watching) this.#look();
    else this.steering.applied(message);
  }

  /** A watcher sees what the stream is now: its words may have changed. */
  async #look() {
    try {
      this.session = await call("GET", `/v1/sessions/${this.watching}`);
      this.say("session");
    } catch {
      // the connection tells if it is gone
    }
  }

  /** @param {any} message the stream is over on the server; a new one is made */
  #heardEnded(message) {
    this.over = true;
    if (this.peer) this.peer.location = null; // it is gone with the session
    this.peer?.lose(message.error?.message ?? "The server ended this stream.");
  }

  /** Changes the running stream, or the one that is being made. @param {Change} change null fields: as they are */
  change({ transition, ...partial }) {
    Object.assign(this.settings, partial);
    if (this.phase.name === "refused") this.wake();
    /** @type {Record<string, any>} */
    const stated = Object.fromEntries(Object.entries(partial).filter(([, value]) => value !== null));
    if (!this.session || this.watching || !Object.keys(stated).length) return;
    if (partial.prompt) stated.prompt = asPrompt(partial.prompt);
    this.steering.send({ ...stated, ...(transition && stated.prompt !== undefined && { transition }) });
    this.#assess();
  }

  /** Goes on with another session of ours; the one so far is closed. @param {any} session */
  adopt(session) {
    const left = this.session;
    const { prompt, seed, num_inference_steps: steps, fps } = session;
    Object.assign(this.settings, { prompt, seed, steps, fps, paused: false });
    this.#leave(left);
    this.session = session;
    this.say("session");
    this.say("adopted");
    this.#move();
  }

  /** Words alone and pictures need sessions of their own; another picture goes the same way. @param {MediaStream | null} source */
  setSource(source) {
    const same = Boolean(source) === Boolean(this.source);
    this.source = source;
    if (!this.session) return;
    if (same) {
      if (source) this.peer?.replace(source);
      return;
    }
    this.#leave(this.session);
    this.session = null;
    this.#move();
  }

  /** Closes a session of ours; its viewers go with it. @param {any} session */
  #leave(session) {
    if (this.peer) this.peer.location = null;
    if (session && !this.watching) forget(`/v1/sessions/${session.id}`);
  }

  /** Connects anew at once. */
  #move() {
    this.moving = this.peer !== null;
    this.peer?.lose("moved");
    this.wake();
  }

  /** Tries again at once. */
  retry() {
    this.wake();
  }

  /** Leaves; the session goes with its maker. */
  stop() {
    this.stopped = true;
    this.unfollow();
    this.#leave(this.session);
    this.peer?.lose("left");
    this.peer?.close();
    this.wake();
  }
}
