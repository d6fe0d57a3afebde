// @ts-check
/** Scenes on chips: those to try, and your own, kept in this browser. Each is an address that can be shared. */
import { byId, icon, make } from "../shared/dom.js";
import { keep, kept } from "../shared/store.js";
import { sceneHash } from "./share.js";
import { PRESETS } from "./words.js";

const KEY = "onbeat.scenes";
const MOST = 12;

/** @typedef {import("./share.js").Scene} Scene */

/** What storage holds may be old or made by hand. @returns {Scene[]} */
function own() {
  const found = kept(KEY);
  return Array.isArray(found) ? found.filter((scene) => typeof scene?.prompt === "string").slice(0, MOST) : [];
}

export class Scenes {
  /** @param {() => Scene} current @param {(scene: Scene) => void} use */
  constructor(current, use) {
    this.use = use;
    for (const [label, prompt] of PRESETS) byId("presets").append(this.#chip({ prompt, seed: null, steps: null, transition: null, strength: null }, label));
    byId("save-scene").addEventListener("click", () => this.#save(current()));
    this.#show(own());
  }

  /** @param {Scene} scene */
  #save(scene) {
    const others = own().filter((kept) => sceneHash(kept) !== sceneHash(scene));
    this.#store([scene, ...others].slice(0, MOST));
  }

  /** @param {Scene[]} scenes */
  #store(scenes) {
    keep(KEY, scenes);
    this.#show(scenes);
  }

  /** @param {Scene[]} scenes */
  #show(scenes) {
    byId("own-scenes").hidden = !scenes.length;
    byId("own-scenes").replaceChildren(...scenes.map((scene) => this.#ownChip(scene, scenes)));
  }

  /** @param {Scene} scene @param {Scene[]} scenes */
  #ownChip(scene, scenes) {
    const words = scene.prompt.length > 28 ? `${scene.prompt.slice(0, 27)}…` : scene.prompt;
    const remove = make("button", { type: "button", className: "icon small", "aria-label": `Remove ${scene.prompt}`, title: "Remove" }, icon("close"));
    remove.addEventListener("click", () => {
      this.#store(scenes.filter((other) => other !== scene));
      byId("save-scene").focus();
    });
    return make("span", { className: "pair" }, this.#chip(scene, scene.seed === null ? words : `${words} #${scene.seed}`), remove);
  }

  /** @param {Scene} scene @param {string} label */
  #chip(scene, label) {
    const chip = make("button", { type: "button", className: "chip", title: scene.prompt }, label);
    chip.dataset.prompt = scene.prompt;
    chip.addEventListener("click", () => this.use(scene));
    return chip;
  }

  /** Marks the scenes whose words are in the box. @param {string} prompt */
  mark(prompt) {
    for (const chip of document.querySelectorAll(".chip[data-prompt]")) chip.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (chip).dataset.prompt === prompt));
  }
}
