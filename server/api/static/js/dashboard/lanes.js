// @ts-check
/** A session's last chunks as a lane picture: one bar a chunk, its stages stacked, late ones marked. */
import { colour, make } from "../shared/dom.js";
import { counted, known, ms } from "../shared/format.js";
import { ALL_STAGES, STAGE_WORDS } from "../shared/stages.js";

const STAGES = ALL_STAGES.filter((stage) => stage !== "pace"); // that one is meant: it shows as slack
const LEFT = 44;
const BOTTOM = 30;
const TOP = 10;

/** @param {any} chunk */
const total = (chunk) => STAGES.reduce((sum, stage) => sum + (chunk[stage] ?? 0), 0);

/** @param {any} chunk one entry of a session's `recent` */
export function describe(chunk) {
  const stages = STAGES.filter((stage) => known(chunk[stage])).map((stage) => `${STAGE_WORDS[stage]} ${ms(chunk[stage])}`);
  const steps = `${chunk.steps} step${chunk.steps === 1 ? "" : "s"}`;
  return `Chunk ${chunk.chunk}: ${chunk.on_time ? "on time" : "late"}, ${steps}, ${stages.join(", ")}; ${ms(total(chunk))} ms in all`;
}

export class Lanes {
  constructor() {
    this.canvas = make("canvas", { tabIndex: 0, role: "img" });
    this.caption = make("figcaption");
    this.element = make("figure", {}, this.canvas, this.caption);
    /** @type {any[]} */
    this.chunks = [];
    /** @type {number | null} */
    this.budget = null;
    /** @type {number | null} chunk pointed at */
    this.at = null;
    this.canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => this.#point(this.#hit(event.offsetX)));
    this.canvas.addEventListener("pointerleave", () => this.#point(null));
    this.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#step(event));
  }

  /** @param {any[]} chunks @param {number | null} budget ms that a chunk plays */
  show(chunks, budget) {
    const newest = (/** @type {any[]} */ list) => list[list.length - 1]?.chunk;
    const same = newest(chunks) === newest(this.chunks) && budget === this.budget && this.canvas.width === this.#width;
    this.chunks = chunks;
    this.budget = budget;
    if (same) return;
    this.#draw();
    this.#say();
  }

  get #width() {
    return Math.round(this.canvas.clientWidth * (devicePixelRatio || 1));
  }

  get #slot() {
    return (this.canvas.clientWidth - LEFT) / Math.max(this.#span, 24);
  }

  /** Chunks from the first to the last, those that are missing too. */
  get #span() {
    return this.chunks.length ? this.chunks[this.chunks.length - 1].chunk - this.chunks[0].chunk + 1 : 0;
  }

  /** @param {number} x */
  #hit(x) {
    const index = this.chunks[0]?.chunk + Math.floor((x - LEFT) / this.#slot);
    return this.chunks.some((chunk) => chunk.chunk === index) ? index : null;
  }

  /** @param {KeyboardEvent} event */
  #step(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move || !this.chunks.length) return;
    event.preventDefault();
    const i = this.chunks.findIndex((chunk) => chunk.chunk === this.at);
    this.#point(this.chunks.at(i < 0 ? -1 : Math.min(Math.max(i + move, 0), this.chunks.length - 1)).chunk);
  }

  /** @param {number | null} chunk */
  #point(chunk) {
    this.at = chunk;
    this.#draw();
    this.#say();
  }

  #say() {
    const pointed = this.chunks.find((chunk) => chunk.chunk === this.at);
    const late = this.chunks.filter((chunk) => !chunk.on_time).length;
    const missing = this.#span - this.chunks.length;
    const plain = `${counted(this.chunks.length, "chunk")}, ${late} late${missing ? `, ${missing} dropped` : ""}.${known(this.budget) ? ` The line is what a chunk plays, ${ms(this.budget)} ms; chunks overlap, so a bar may pass it and still be on time.` : ""}`;
    const text = this.chunks.length ? (pointed ? describe(pointed) : plain) : "No chunk yet.";
    this.caption.textContent = text;
    this.canvas.setAttribute("aria-label", `Last chunks of this session. ${text}`);
  }

  #draw() {
    const scale = devicePixelRatio || 1;
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const tones = Object.fromEntries([...STAGES, "faint", "bad", "line", "ink"].map((name) => [name, colour(name)]));
    this.canvas.width = this.#width;
    this.canvas.height = Math.round(h * scale);
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const most = Math.max(...this.chunks.map(total), (this.budget ?? 0) * 1.05, 1) * 1.04;
    const y = (/** @type {number} */ value) => h - BOTTOM - (value / most) * (h - BOTTOM - TOP);
    context.font = `11.5px ${colour("sans")}`;
    axis(context, tones, most, w, y);
    for (const chunk of this.chunks) this.#bar(context, tones, chunk, y, h);
    if (known(this.budget)) budgetLine(context, tones.ink, this.budget, w, y);
  }

  /** @param {any} context @param {any} tones colours by name @param {any} chunk @param {(value: number) => number} y @param {number} h */
  #bar(context, tones, chunk, y, h) {
    const slot = this.#slot;
    const x = LEFT + (chunk.chunk - this.chunks[0].chunk) * slot;
    const [left, width] = [x + slot * 0.14, slot * 0.72];
    let base = 0;
    context.globalAlpha = this.at === null || this.at === chunk.chunk ? 1 : 0.45;
    for (const stage of STAGES) {
      const value = chunk[stage] ?? 0;
      context.fillStyle = tones[stage];
      context.fillRect(left, y(base + value), width, Math.max(y(base) - y(base + value) - 0.75, 0));
      base += value;
    }
    if (!chunk.on_time) mark(context, tones.bad, left, width, y(base), h);
    context.fillStyle = tones.faint;
    for (let i = 0; i < (chunk.steps ?? 0); i++) context.fillRect(left, h - BOTTOM + 5 + i * 5, width, 3);
    context.globalAlpha = 1;
  }
}

/** A late chunk: a cap over its bar and a red foot. @param {any} context @param {string} tone @param {number} left @param {number} width @param {number} top @param {number} h */
function mark(context, tone, left, width, top, h) {
  context.fillStyle = tone;
  context.fillRect(left - 1, top - 4, width + 2, 3);
  context.fillRect(left - 1, h - BOTTOM, width + 2, 3);
}

/** @param {any} context @param {any} tones @param {number} most @param {number} w @param {(value: number) => number} y */
function axis(context, tones, most, w, y) {
  const step = [10, 20, 50, 100, 200, 500, 1000, 5000].find((s) => most / s <= 5) ?? most;
  for (let value = 0; value < most; value += step) {
    context.fillStyle = tones.line;
    context.fillRect(LEFT, y(value), w - LEFT, 1);
    context.fillStyle = tones.faint;
    context.textAlign = "right";
    context.fillText(value ? String(value) : "0 ms", LEFT - 8, y(value) + 4);
  }
  context.fillText("steps", LEFT - 8, y(0) + 16);
}

/** @param {any} context @param {string} tone @param {number} budget @param {number} w @param {(value: number) => number} y */
function budgetLine(context, tone, budget, w, y) {
  context.strokeStyle = tone;
  context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(LEFT, y(budget));
  context.lineTo(w, y(budget));
  context.stroke();
  context.setLineDash([]);
}
