// @ts-check
/** The panel that chooses what the model works on: words alone, camera, screen or a file, with a microphone or without; and how strongly it changes it. */
import { byId, make } from "../shared/dom.js";
import { openCamera, openFile, openMicrophone, openScreen, possible, refusal } from "./source.js";

export class Sources {
  /** @param {import("./live.js").Live} live @param {(change: {strength: number}) => void} changed */
  constructor(live, changed) {
    this.live = live;
    this.changed = changed;
    /** @type {import("./source.js").Source | null} */
    this.source = null;
    /** @type {MediaStream | null} */
    this.microphone = null;
    this.asked = 0;
    for (const radio of this.#radios()) radio.addEventListener("change", () => this.#choose(radio.value, null));
    byId("camera").addEventListener("change", () => this.#choose("camera", byId("camera").value));
    byId("source-file").addEventListener("change", () => this.#choose("file", null));
    byId("microphone").addEventListener("change", () => this.#listen(byId("microphone").checked));
    byId("strength").addEventListener("input", () => this.#strength());
    live.addEventListener("session", () => this.offer(live.model));
  }

  /** @returns {HTMLInputElement[]} */
  #radios() {
    return [...document.querySelectorAll("input[name=source]")].map((radio) => /** @type {HTMLInputElement} */ (radio));
  }

  /** Shows only what the model and the browser can. @param {any} model */
  offer(model) {
    const able = Boolean(model?.modes?.includes("video-to-video"));
    byId("source-card").hidden = !able;
    for (const radio of this.#radios()) /** @type {HTMLElement} */ (radio.parentElement).hidden = radio.value !== "words" && !possible(radio.value);
    if (this.live.settings.strength === null && model?.default_strength) this.showStrength(model.default_strength);
    byId("source-words").hidden = Boolean(this.source);
  }

  /** @param {string} kind @param {string | null} deviceId */
  async #choose(kind, deviceId) {
    const asked = ++this.asked; // a later choice overtakes one that waits for permission
    this.#fail("");
    byId("file-row").hidden = kind !== "file";
    const file = byId("source-file").files[0];
    if (kind === "file" && !file) return;
    try {
      const source = kind === "words" ? null : await this.#open(kind, deviceId, file);
      if (asked !== this.asked) return void source?.close();
      this.#use(source, kind);
    } catch (error) {
      if (asked !== this.asked) return;
      this.#use(null, "words");
      this.#fail(refusal(error, kind));
    }
  }

  /** @param {string} kind @param {string | null} deviceId @param {File} file */
  #open(kind, deviceId, file) {
    const fps = this.live.model?.fps ?? 20;
    if (kind === "camera") return openCamera(deviceId, fps);
    return kind === "screen" ? openScreen(fps) : openFile(file, fps);
  }

  /** @param {import("./source.js").Source | null} source @param {string} kind */
  #use(source, kind) {
    const before = this.source;
    this.source = source;
    for (const radio of this.#radios()) radio.checked = radio.value === kind;
    byId("file-row").hidden = kind !== "file";
    byId("source-live").hidden = byId("strength-field").hidden = !source;
    byId("source-words").hidden = Boolean(source);
    byId("self-view").srcObject = source?.stream ?? null;
    byId("source-label").textContent = source?.label ?? "";
    source?.stream.getVideoTracks()[0].addEventListener("ended", () => this.#ended(source, kind));
    if (!source) this.#mute();
    this.#send();
    before?.close();
    this.#cameras(kind === "camera" ? source : null);
  }

  /** Picture and microphone, if any, as one stream. */
  #send() {
    const { source, microphone } = this;
    const tracks = source ? [...source.stream.getVideoTracks(), ...(microphone?.getAudioTracks() ?? [])] : [];
    this.live.setSource(source && new MediaStream(tracks));
  }

  /** @param {boolean} on */
  async #listen(on) {
    this.#fail("");
    this.#mute();
    if (!on) return this.#send();
    byId("microphone").checked = true;
    try {
      const microphone = await openMicrophone();
      if (!this.source || this.microphone || !byId("microphone").checked) return stop(microphone);
      this.microphone = microphone;
      microphone.getAudioTracks()[0].addEventListener("ended", () => this.microphone === microphone && this.#listen(false));
      this.#send();
    } catch (error) {
      this.#mute();
      this.#fail(refusal(error, "microphone"));
    }
  }

  /** The microphone is let go, and not sent from the next #send on. */
  #mute() {
    stop(this.microphone);
    this.microphone = null;
    byId("microphone").checked = false;
  }

  /** The browser or a cable has ended it. @param {import("./source.js").Source} source @param {string} kind */
  #ended(source, kind) {
    if (this.source !== source) return;
    this.#use(null, "words");
    this.#fail(`The ${kind} has stopped; the stream goes on from the words alone.`);
  }

  /** The list of cameras, once one is open: names are not told before. @param {import("./source.js").Source | null} source */
  async #cameras(source) {
    byId("camera-row").hidden = true;
    if (!source) return;
    const cameras = (await navigator.mediaDevices.enumerateDevices()).filter(({ kind }) => kind === "videoinput");
    byId("camera").replaceChildren(...cameras.map(({ deviceId, label }) => make("option", { value: deviceId, selected: deviceId === source.deviceId }, label || "camera")));
    byId("camera-row").hidden = cameras.length < 2;
  }

  #strength() {
    const strength = byId("strength").valueAsNumber;
    this.showStrength(strength);
    this.changed({ strength });
  }

  /** @param {number} strength shown but not told of */
  showStrength(strength) {
    byId("strength").value = String(strength);
    byId("strength-value").textContent = strength.toFixed(2);
  }

  /** @param {string} message "" takes it away */
  #fail(message) {
    byId("source-error").hidden = !message;
    byId("source-error").textContent = message;
  }

  /** Lets camera, file and microphone go. */
  close() {
    stop(this.microphone);
    this.source?.close();
  }
}

/** @param {MediaStream | null} stream */
function stop(stream) {
  for (const track of stream?.getTracks() ?? []) track.stop();
}
