// @ts-check
/** Seed (lock, dice), steps, and how a change of words comes about. */
import { byId, icon } from "../shared/dom.js";

const SEEDS = 2 ** 32;

export class Controls {
  /** @param {(change: {seed?: number, steps?: number | null}) => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.input = byId("seed");
    this.locked = true;
    this.input.addEventListener("change", () => this.#typed());
    byId("dice").addEventListener("click", () => this.roll());
    byId("lock").addEventListener("click", () => this.setLocked(!this.locked));
    for (const radio of this.#radios()) radio.addEventListener("change", () => changed({ steps: this.steps }));
  }

  /** @returns {HTMLInputElement[]} */
  #radios(name = "steps") {
    return [...document.querySelectorAll(`input[name=${name}]`)].map((radio) => /** @type {HTMLInputElement} */ (radio));
  }

  #typed() {
    const text = this.input.value.trim();
    const good = /^\d+$/.test(text) && Number(text) < SEEDS;
    this.showError(good ? "" : `A whole number from 0 to ${SEEDS - 1}.`);
    if (good) this.changed({ seed: Number(text) });
  }

  /** @param {string} message "" takes it away */
  showError(message) {
    byId("seed-error").hidden = !message;
    byId("seed-error").textContent = message;
    this.input.setAttribute("aria-invalid", String(Boolean(message)));
  }

  /** A new seed, and tells of it. */
  roll() {
    this.changed({ seed: this.draw() });
  }

  /** A new seed, shown but not told of. */
  draw() {
    const seed = crypto.getRandomValues(new Uint32Array(1))[0];
    this.showSeed(seed);
    return seed;
  }

  /** @param {number} seed */
  showSeed(seed) {
    this.input.value = String(seed);
    this.showError("");
  }

  /** @param {boolean} locked */
  setLocked(locked) {
    this.locked = locked;
    byId("lock").setAttribute("aria-pressed", String(locked));
    byId("lock").replaceChildren(icon(locked ? "lock" : "unlock"));
    byId("seed-hint").textContent = locked ? "Kept when the words change" : "Drawn anew when the words change";
  }

  /** @param {any} model what it does not allow is not offered */
  limit(model) {
    for (const radio of this.#radios()) radio.disabled = Number(radio.value) > model.max_steps;
    for (const radio of this.#radios("transition")) {
      if (radio.value === "blend") /** @type {HTMLElement} */ (radio.parentElement).hidden = !model.controls?.includes("blend_chunks");
    }
    if (model.max_seconds) byId("seconds").max = String(model.max_seconds);
  }

  get seed() {
    const text = this.input.value.trim();
    return /^\d+$/.test(text) && Number(text) < SEEDS ? Number(text) : null;
  }

  /** @returns {number | null} null = auto */
  get steps() {
    const chosen = this.#radios().find((radio) => radio.checked);
    return chosen && chosen.value !== "auto" ? Number(chosen.value) : null;
  }

  /** @returns {string | null} null: the model's way */
  get transition() {
    const chosen = this.#radios("transition").find((radio) => radio.checked);
    return chosen && chosen.value !== "auto" ? chosen.value : null;
  }

  /** @param {string | null} transition */
  showTransition(transition) {
    for (const radio of this.#radios("transition")) radio.checked = radio.value === (transition ?? "auto");
  }

  /** @param {number | null} steps shown but not told of */
  showSteps(steps) {
    for (const radio of this.#radios()) radio.checked = radio.value === String(steps ?? "auto");
  }
}
