// @ts-check
/** The prompt box, the words the model knows, and what it understood. Not: scenes on chips (scenes.js). */
import { byId, make } from "../shared/dom.js";
import { WORDS } from "./words.js";

const TYPING_MS = 350;

export class PromptPanel {
  /** @param {(prompt: string) => void} apply called with a prompt that is not blank @param {(prompt: string) => void} changed called with what the box holds */
  constructor(apply, changed) {
    this.apply = apply;
    this.changed = changed;
    this.box = byId("prompt");
    this.applied = "";
    this.timer = 0;
    byId("prompt-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.submit();
    });
    this.box.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      this.submit();
    });
    this.box.addEventListener("input", () => this.#typed());
    this.#fill();
  }

  #fill() {
    for (const [title, words] of WORDS) {
      const chips = words.map((word) => this.#chip(word, () => this.#add(word)));
      byId("words").append(make("p", { className: "kind" }, title), make("div", { className: "chips" }, ...chips));
    }
  }

  /** @param {string} text @param {() => void} pressed */
  #chip(text, pressed) {
    const chip = make("button", { type: "button", className: "chip" }, text);
    chip.addEventListener("click", pressed);
    return chip;
  }

  /** @param {string} word appended at the caret's end */
  #add(word) {
    this.box.value = `${this.box.value.trimEnd()} ${word}`.trimStart();
    this.#typed();
  }

  #typed() {
    this.showError("");
    this.#mark();
    clearTimeout(this.timer);
    if (byId("as-you-type").checked) this.timer = setTimeout(() => this.box.value.trim() && this.submit(), TYPING_MS);
  }

  /** Puts words into the box and applies them. @param {string} prompt */
  write(prompt) {
    this.box.value = prompt;
    this.submit();
  }

  submit() {
    clearTimeout(this.timer);
    const prompt = this.box.value.trim();
    if (!prompt) return this.showError("Say in a few words what should happen.");
    this.showError("");
    this.applied = prompt;
    this.#mark();
    this.apply(prompt);
  }

  #mark() {
    this.changed(this.box.value.trim());
  }

  /** @param {string} prompt shown without applying it */
  show(prompt) {
    this.box.value = prompt;
    this.applied = prompt;
    this.#mark();
  }

  /** @param {string[] | null} words that the model knows of the prompt; null: it has not told yet */
  showUnderstood(words) {
    const line = byId("understood");
    if (words === null) return line.replaceChildren();
    line.classList.toggle("none", words.length === 0);
    if (words.length) line.replaceChildren("understood: ", make("b", {}, words.join(", ")));
    else line.replaceChildren("The model knows none of these words, so it shows whatever comes. See below for the words it knows.");
  }

  /** @param {string} message "" takes it away */
  showError(message) {
    byId("prompt-error").hidden = !message;
    byId("prompt-error").textContent = message;
    this.box.toggleAttribute("aria-invalid", false);
    if (message) this.box.setAttribute("aria-invalid", "true");
  }
}
