// @ts-check
/** The picture, what lies over it, and the buttons below it. */
import { byId, icon, make } from "../shared/dom.js";

/** What each phase is called, what to do about it, and its tone. @type {Record<string, {pill: string, title?: string, text?: string, tone: string, action?: string}>} */
const PHASES = {
  starting: { pill: "Starting", title: "Starting your stream", tone: "wait" },
  connecting: { pill: "Connecting", title: "Connecting", tone: "wait" },
  buffering: { pill: "First picture", title: "First picture in a moment", tone: "wait" },
  playing: { pill: "Live", tone: "good" },
  paused: { pill: "Paused", title: "Paused", text: "The model rests too; others use its time.", tone: "wait", action: "Go on" },
  warming: { pill: "Warming up", title: "The model is warming up", text: "The picture starts by itself.", tone: "wait" },
  restarting: { pill: "Restarting", title: "Restarting, picture back in a moment", text: "The engine stopped and starts again. Your stream goes on where it was; there is nothing to do.", tone: "wait" },
  reconnecting: { pill: "Reconnecting", title: "Connection lost, reconnecting", tone: "wait", action: "Try now" },
  queued: { pill: "Waiting for a place", title: "All places are taken", tone: "wait", action: "Try now" },
  offline: { pill: "Server not reached", title: "The server does not answer", text: "Is it running? Start it with: onbeat serve", tone: "bad", action: "Try now" },
  failed: { pill: "Not running", title: "The engine does not run", text: "See the server's log.", tone: "bad", action: "Try now" },
  refused: { pill: "Not accepted", title: "The server did not accept this", tone: "bad" },
  ended: { pill: "Ended", title: "This stream has ended", text: "Whoever made it has closed it.", tone: "bad", action: "Start my own" },
};

/** As a sentence: a capital first, a full stop last. @param {string} text */
const finish = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

/** @param {number} position 1 is next */
const before = (position) => (position === 1 ? "You are next." : `${position - 1} ${position === 2 ? "stream" : "streams"} before you.`);

/** @param {number} seconds */
const wait = (seconds) => (seconds < 90 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`);

/** @param {import("./live.js").Phase} phase */
function sentence(phase) {
  const parts = [phase.reason ? finish(phase.reason) : (PHASES[phase.name].text ?? "")];
  if (phase.name === "failed" && phase.reason) parts.push("See the server's log.");
  if (phase.position) parts.push(before(phase.position));
  if (phase.estimate) parts.push(`About ${wait(phase.estimate)} to go. Your stream starts by itself.`);
  const left = phase.until ? Math.ceil((phase.until - Date.now()) / 1000) : 0;
  if (left > 0 && left < 600) parts.push(`Trying again in ${left} s.`);
  return parts.filter(Boolean).join(" ");
}

export class Stage {
  /** @param {import("./live.js").Live} live */
  constructor(live) {
    this.live = live;
    this.video = byId("video");
    this.frame = this.video.parentElement;
    live.addEventListener("phase", () => this.showPhase());
    live.addEventListener("stream", (event) => this.#play(/** @type {CustomEvent} */ (event).detail));
    setInterval(() => live.phase.until && this.showPhase(), 500);
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
    byId("veil-action").hidden = !words.action;
    byId("veil-action").textContent = words.action ?? "";
    this.#showSound();
  }

  #act() {
    if (this.live.phase.name === "paused") this.togglePause();
    else if (this.live.phase.name === "ended") location.assign("/");
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

/** Shows a short message. @param {string} text */
export function toast(text) {
  const element = byId("toast");
  element.textContent = text;
  element.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => element.classList.remove("shown"), 2600);
}
/** @type {any} */
toast.timer = 0;

/** Saves the picture as a PNG, four times its size, smooth or in pixels as it is shown. @param {HTMLVideoElement} video @param {boolean} pixelated @param {string} name */
export function snapshot(video, pixelated, name) {
  if (!video.videoWidth) return toast("There is no picture yet");
  const canvas = make("canvas", { width: video.videoWidth * 4, height: video.videoHeight * 4 });
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = !pixelated;
  context.imageSmoothingQuality = "high";
  context.drawImage(video, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((/** @type {Blob} */ blob) => {
    const link = make("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 5000);
    toast("Picture saved");
  }, "image/png");
}
