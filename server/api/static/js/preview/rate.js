// @ts-check
/** How many pictures a second are sent: the model's own rate, or a whole share of it. Shows what the server has taken. */
import { byId, make } from "../shared/dom.js";

export class Rate {
  /** @param {import("./live.js").Live} live @param {(change: {fps: number}) => void} changed */
  constructor(live, changed) {
    this.live = live;
    byId("fps").addEventListener("change", (/** @type {any} */ event) => {
      this.showError("");
      byId("fps-state").textContent = `${event.target.value} asked for.`;
      changed({ fps: Number(event.target.value) });
    });
    live.addEventListener("session", () => this.#offer());
    live.addEventListener("applied", (event) => this.#applied(/** @type {CustomEvent} */ (event).detail));
  }

  #offer() {
    const { model, session, watching } = this.live;
    const rates = watching ? [] : (model?.frame_rates ?? []);
    byId("fps-field").hidden = rates.length < 2;
    if (byId("fps").childElementCount !== rates.length) byId("fps").replaceChildren(...rates.map(choice));
    this.#show(session.fps, null);
  }

  /** @param {any} message what the server has taken: of a control, or a whole session */
  #applied(message) {
    const fps = message.control?.fps ?? message.fps;
    if (!fps || !this.live.session) return;
    this.live.session.fps = fps;
    this.#say(fps, message.chunk ?? null);
  }

  /** @param {number} fps @param {number | null} chunk */
  #show(fps, chunk) {
    for (const radio of document.querySelectorAll("input[name=fps]")) /** @type {HTMLInputElement} */ (radio).checked = /** @type {HTMLInputElement} */ (radio).value === String(fps);
    this.showError("");
    this.#say(fps, chunk);
  }

  /** @param {number} fps @param {number | null} chunk the first one at that rate, if known */
  #say(fps, chunk) {
    byId("fps-state").textContent = chunk === null ? `Now ${fps}.` : `Now ${fps}, from chunk ${chunk} on.`;
  }

  /** The server has not taken it: back to what is. @param {string} message */
  refused(message) {
    this.#show(this.live.session?.fps, null);
    this.showError(message);
  }

  /** @param {string} message "" takes it away */
  showError(message) {
    byId("fps-error").hidden = !message;
    byId("fps-error").textContent = message;
  }
}

/** @param {number} fps */
const choice = (fps) => make("label", {}, make("input", { type: "radio", name: "fps", value: String(fps) }), make("span", {}, String(fps)));
