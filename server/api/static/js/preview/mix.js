// @ts-check
/** Sliders for a prompt that is mixed from several. What the box says is the truth: rows follow it, and write it. */
import { byId, icon, make } from "../shared/dom.js";
import { MOST, joined, parts } from "./mixture.js";

const MOVING_MS = 150;

export class MixPanel {
  /** @param {(text: string) => void} write puts a line into the box and applies it @param {() => string} read what the box holds @param {string[]} others words to begin another row with */
  constructor(write, read, others) {
    this.write = write;
    this.read = read;
    this.others = others;
    this.timer = 0;
    /** @type {import("./mixture.js").Part[]} */
    this.rows = [];
    byId("mix-add").addEventListener("click", () => this.#add());
  }

  /** The box holds another line. @param {string} text */
  show(text) {
    const mixed = parts(text);
    if (joined(mixed) === joined(this.rows) && mixed.length === this.rows.length) return;
    this.rows = mixed;
    if (mixed.length) byId("mix").open = true;
    this.#draw();
  }

  #draw() {
    byId("mix-rows").replaceChildren(...this.rows.map((row, number) => this.#row(row, number)));
    byId("mix-add").disabled = this.rows.length >= MOST;
  }

  /** @param {import("./mixture.js").Part} row @param {number} number from 0 */
  #row(row, number) {
    const words = make("input", { value: row.text, maxLength: 200, spellcheck: false, "aria-label": `Words ${number + 1}` });
    const weight = make("input", { type: "range", min: "0.05", max: "1", step: "0.05", value: String(Math.min(1, row.weight)), "aria-label": `Weight of words ${number + 1}` });
    const shown = make("output", {}, row.weight.toFixed(2));
    const remove = make("button", { type: "button", className: "icon small", "aria-label": `Take words ${number + 1} out of the mixture`, title: "Take out" }, icon("close"));
    words.addEventListener("change", () => {
      row.text = words.value.trim().replaceAll(" + ", " and ") || row.text;
      words.value = row.text;
      this.#say(0);
    });
    weight.addEventListener("input", () => {
      row.weight = weight.valueAsNumber;
      shown.textContent = row.weight.toFixed(2);
      this.#say(MOVING_MS);
    });
    remove.addEventListener("click", () => this.#remove(row));
    return make("div", { className: "mix-row" }, words, weight, shown, remove);
  }

  #add() {
    const text = this.read().trim();
    if (!this.rows.length) this.rows = text ? [{ text: text.replaceAll(" + ", " and "), weight: 0.5 }] : [];
    const used = this.rows.map((row) => row.text);
    this.rows.push({ text: this.others.find((words) => !used.includes(words)) ?? this.others[0], weight: 0.5 });
    this.#draw();
    /** @type {HTMLInputElement | null} */ (byId("mix-rows").lastElementChild?.querySelector("input"))?.select();
    this.#say(0);
  }

  /** @param {import("./mixture.js").Part} row */
  #remove(row) {
    const line = joined(this.rows.filter((other) => other !== row));
    this.rows = parts(line);
    this.#draw();
    byId("mix-add").focus();
    this.write(line);
  }

  /** Writes what the rows say, at once or when a slider rests. @param {number} after ms */
  #say(after) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(joined(this.rows)), after);
  }
}
