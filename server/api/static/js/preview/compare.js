// @ts-check
/**
 * A/B: the stream as it is now goes on by itself as A (a fork on the server), while you steer B; hold a key or a
 * button to see A. Not: how a fork is made; the server does that.
 */
import { ApiError, call, forget } from "../shared/api.js";
import { byId } from "../shared/dom.js";
import { toast } from "../shared/toast.js";
import { Peer } from "./peer.js";
import { relays } from "./relays.js";

export class Compare {
  /** @param {import("./live.js").Live} live */
  constructor(live) {
    this.live = live;
    this.video = byId("video-a");
    /** @type {any} A's session */
    this.session = null;
    /** @type {Peer | null} */
    this.peer = null;
    this.busy = this.resting = this.adopting = this.sounding = this.early = false;
    byId("compare-keep").addEventListener("click", () => this.toggle());
    byId("compare-drop").addEventListener("click", () => this.drop());
    byId("compare-adopt").addEventListener("click", () => this.#adopt());
    holdable(byId("compare-hold"), (on) => this.hold(on), () => this.holding);
    live.addEventListener("stream", () => this.#adopted());
    live.addEventListener("phase", () => {
      this.#rest(live.settings.paused);
      if (this.early && live.phase.name === "playing") this.#fail("");
    });
  }

  /** A rests with B. @param {boolean} paused */
  async #rest(paused) {
    if (!this.session || paused === this.resting) return;
    this.resting = paused;
    try {
      await call("PATCH", `/v1/sessions/${this.session.id}`, { paused });
    } catch {
      // its connection tells if it is gone
    }
  }

  get holding() {
    return !this.video.hidden;
  }

  /** What is seen while A is held: its video, and the address of its picture. @returns {[HTMLVideoElement, string | undefined]} */
  get shown() {
    return [this.video, this.session?.snapshot_url];
  }

  toggle() {
    if (this.session) this.drop();
    else this.#keep();
  }

  async #keep() {
    if (this.busy || this.live.watching) return;
    this.busy = true;
    this.#fail("");
    try {
      this.early = !this.live.session || this.live.phase.name !== "playing";
      if (this.early) throw new Error("There is no running picture to keep yet.");
      const session = await call("POST", `/v1/sessions/${this.live.session.id}/fork`, {});
      this.session = session;
      await this.#watch(session);
      this.#show();
    } catch (error) {
      this.drop();
      const why = error instanceof Error ? error.message : String(error);
      this.#fail(error instanceof ApiError && error.code === "capacity" ? `There is no room to keep A beside this stream: ${why}` : why);
    }
    this.busy = false;
  }

  /** @param {any} session */
  async #watch(session) {
    const peer = new Peer(false, await relays());
    this.peer = peer;
    peer.addEventListener("lost", () => this.peer === peer && this.#lost());
    await peer.connect(session.whep_url);
    this.video.srcObject = peer.stream;
    await this.video.play();
  }

  #lost() {
    this.drop();
    this.#fail("A is gone: its stream has ended.");
  }

  /** Shows or hides A; its sound comes with it. @param {boolean} on */
  hold(on) {
    if (!this.session || on === this.holding) return;
    const main = byId("video");
    if (on) this.sounding = !main.muted;
    this.video.hidden = byId("a-badge").hidden = !on;
    this.video.volume = main.volume;
    this.video.muted = !on || !this.sounding;
    main.muted = on || !this.sounding;
    byId("compare-hold").setAttribute("aria-pressed", String(on));
  }

  #show() {
    const { session } = this;
    byId("compare").hidden = !session;
    byId("compare-keep").setAttribute("aria-pressed", String(Boolean(session)));
    if (session) byId("compare-what").textContent = `A: ${session.prompt}, seed ${session.seed}`;
    if (session) toast("Kept as A. Change something, then hold A to compare");
  }

  /** A becomes the stream that is steered. It stays in sight until that plays. */
  #adopt() {
    if (!this.session) return;
    this.hold(true);
    this.live.adopt(this.session);
    this.adopting = true;
  }

  /** The adopted stream is connected as the main one. */
  #adopted() {
    if (!this.adopting) return;
    this.adopting = false;
    byId("video").addEventListener("loadeddata", () => this.drop(true), { once: true });
  }

  /** @param {boolean} [keep] the session goes on, as the main one */
  drop(keep = false) {
    if (this.session) this.hold(false);
    const { peer, session } = this;
    this.peer = this.session = null;
    if (peer && session && !keep) peer.location = null; // it goes with its session
    peer?.close();
    if (session && !keep) forget(`/v1/sessions/${session.id}`);
    this.video.srcObject = null;
    this.#show();
  }

  /** @param {string} message "" takes it away */
  #fail(message) {
    byId("compare-error").hidden = !message;
    byId("compare-error").textContent = message;
  }
}

/** Pressed as long as it is held by pointer or key; a screen reader's click switches.
 * @param {HTMLElement} button @param {(on: boolean) => void} hold @param {() => boolean} holding */
function holdable(button, hold, holding) {
  const keys = ["Enter", " "];
  button.addEventListener("pointerdown", (event) => {
    button.setPointerCapture(event.pointerId);
    hold(true);
  });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture", "blur"]) button.addEventListener(end, () => hold(false));
  button.addEventListener("contextmenu", (event) => event.preventDefault());
  button.addEventListener("keydown", (event) => {
    if (!keys.includes(event.key)) return;
    event.preventDefault();
    hold(true);
  });
  button.addEventListener("keyup", (event) => {
    if (!keys.includes(event.key)) return;
    event.preventDefault();
    hold(false);
  });
  button.addEventListener("click", (event) => {
    if (event.detail === 0) hold(!holding());
  });
}
