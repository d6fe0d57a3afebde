// @ts-check
/** The picture, what lies over it, and the buttons below it. */
import { byId, icon } from "../shared/dom.js";
import { askKey } from "../shared/key.js";
import { PHASES, sentence } from "./wording.js";

export class Stage {
  /** @param {import("./live.js").Live} live */
  constructor(live) {
    this.live = live;
    this.video = byId("video");
    this.frame = this.video.parentElement;
    live.addEventListener("phase", () => this.showPhase());
    live.addEventListener("stream", (event) => this.#play(/** @type {CustomEvent} */ (event).detail));
    setInterval(() => (live.phase.until || live.phase.ready) && this.showPhase(), 500);
    byId("veil-action").addEventListener("click", () => this.#act());
    byId("unmute").addEventListener("click", () => this.setMuted(false));
    byId("mute").addEventListener("click", () => this.setMuted(!this.video.muted));
    byId("pause").addEventListener("click", () => this.togglePause());
    byId("volume").addEventListener("input", () => this.#volume());
    this.video.volume = 0.8;
  }

  showPhase() {
    const { phase } = this.live;
    const words = PHASES[phase.name];
    byId("state").dataset.tone = words.tone;
    if (byId("state-text").textContent !== words.pill) byId("state-text").textContent = words.pill;
    byId("veil").classList.toggle("gone", !words.title);
    byId("veil").classList.toggle("still", words.tone === "bad" || phase.name === "paused");
    this.frame.classList.toggle("dim", Boolean(words.title) && phase.name !== "paused");
    if (!words.title) return this.#showSound();
    byId("veil-title").textContent = words.title;
    byId("veil-text").textContent = sentence(phase);
    const action = this.live.watching && phase.name === "paused" ? "" : (words.action ?? "");
    byId("veil-action").hidden = !action;
    byId("veil-action").textContent = action;
    this.#showSound();
  }

  #act() {
    if (this.live.phase.name === "paused") this.togglePause();
    else if (["ended", "unknown"].includes(this.live.phase.name)) location.assign("/");
    else if (this.live.phase.name === "locked") askKey();
    else this.live.retry();
  }

  /** @param {MediaStream} stream */
  async #play(stream) {
    this.video.srcObject = stream;
    try {
      await this.video.play();
    } catch (error) {
      if (!(error instanceof DOMException) || error.name !== "AbortError") this.#offerPlay();
    }
  }

  /** The browser wants a tap first. */
  #offerPlay() {
    byId("veil").classList.remove("gone");
    byId("veil-title").textContent = "Tap to play";
    byId("veil-text").textContent = "This browser starts video only after a tap.";
    byId("veil-action").hidden = false;
    byId("veil-action").textContent = "Play";
    byId("veil-action").addEventListener("click", () => this.video.play(), { once: true });
  }

  /** @param {boolean} muted */
  setMuted(muted) {
    this.video.muted = muted;
    const button = byId("mute");
    button.setAttribute("aria-pressed", String(muted));
    button.setAttribute("aria-label", muted ? "Muted" : "Sound on");
    button.replaceChildren(icon(muted ? "mute" : "sound"));
    this.#showSound();
  }

  #volume() {
    this.video.volume = byId("volume").valueAsNumber;
    if (this.video.muted && this.video.volume > 0) this.setMuted(false);
  }

  #showSound() {
    byId("unmute").hidden = !this.video.muted || this.live.phase.name !== "playing";
  }

  togglePause() {
    if (this.live.watching) return;
    const paused = !this.live.settings.paused;
    this.live.change({ paused });
    byId("pause").setAttribute("aria-pressed", String(paused));
    byId("pause").setAttribute("aria-label", paused ? "Go on" : "Pause");
    byId("pause").replaceChildren(icon(paused ? "play" : "pause"));
  }
}
