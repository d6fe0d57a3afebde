// @ts-check
/** The table of sessions; each row opens to its last chunks. Rows stay while their session does. */
import { byId, make, put } from "../shared/dom.js";
import { count, fixed, known, ms, percent } from "../shared/format.js";
import { SERVER_STAGES, STAGE_WORDS } from "../shared/stages.js";
import { session as fetchSession } from "./feed.js";
import { Lanes } from "./lanes.js";
import { swatch } from "./stages.js";

/** @type {Record<string, string>} */
const TONES = { live: "good", failed: "bad", closed: "bad" };

const RELOAD_MS = 900;

class Row {
  /** @param {any} session */
  constructor(session) {
    this.button = make("button", { type: "button", className: "open", "aria-expanded": "false" }, make("span"));
    this.status = make("span", { className: "tag" }, make("span", { className: "dot" }), make("span"));
    this.cells = Array.from({ length: 6 }, () => make("td", { className: "num" }));
    this.mini = make("div", { className: "mini", role: "img" }, ...SERVER_STAGES.map(swatch));
    this.line = make("tr", {}, make("td", {}, this.button), make("td", {}, this.status), ...this.cells, make("td", {}, this.mini));
    this.lanes = new Lanes();
    this.detail = make("tr", { hidden: true }, make("td", { colSpan: 9, className: "lane" }, this.lanes.element));
    this.session = session;
    this.loaded = 0;
    /** @type {number | null} */
    this.chunkMs = null;
    this.button.addEventListener("click", () => this.#toggle());
  }

  #toggle() {
    this.detail.hidden = !this.detail.hidden;
    this.button.setAttribute("aria-expanded", String(!this.detail.hidden));
    this.#load();
  }

  /** @param {any} s @param {number | null} chunkMs how long a chunk plays */
  show(s, chunkMs) {
    this.session = s;
    this.chunkMs = chunkMs;
    this.button.firstChild.textContent = s.prompt;
    this.button.title = `${s.prompt}\n${s.id}`;
    this.status.dataset.tone = TONES[s.status] ?? "wait";
    this.status.lastChild.textContent = s.status;
    const [onTime, fps, steps, slack, viewers, dropped] = this.cells;
    put(onTime, percent(s.on_time_ratio), "%");
    onTime.classList.toggle("late", known(s.on_time_ratio) && s.on_time_ratio < 0.98);
    put(fps, known(s.fps_generated) || known(s.fps_sent) ? `${fixed(s.fps_generated, 1)}, ${fixed(s.fps_sent, 1)}` : "–");
    put(steps, fixed(s.steps));
    put(slack, ms(s.slack_ms), "ms");
    slack.classList.toggle("late", known(s.slack_ms) && s.slack_ms < 0);
    put(viewers, count(s.viewers));
    put(dropped, count(s.dropped));
    this.#showMini(s.stages_ms ?? {});
    if (Date.now() - this.loaded > RELOAD_MS) this.#load();
  }

  /** @param {any} stages */
  #showMini(stages) {
    const sum = SERVER_STAGES.reduce((all, stage) => all + (stages[stage] ?? 0), 0);
    SERVER_STAGES.forEach((stage, i) => (this.mini.children[i].style.width = sum ? `${(100 * (stages[stage] ?? 0)) / sum}%` : "0"));
    const words = SERVER_STAGES.filter((stage) => known(stages[stage])).map((stage) => `${STAGE_WORDS[stage]} ${ms(stages[stage])} ms`);
    this.mini.title = words.join("\n");
    this.mini.setAttribute("aria-label", words.join(", ") || "no data");
  }

  /** The last chunks are fetched for a row that is open, not for all of them all the time. */
  async #load() {
    if (this.detail.hidden) return;
    this.loaded = Date.now();
    const found = await fetchSession(this.session.id);
    if (found && !this.detail.hidden) this.lanes.show(found.recent, this.chunkMs);
  }
}

/** @type {Map<string, Row>} */
const rows = new Map();

/** @param {any[]} sessions of the overview @param {number | null} chunkMs how long a chunk plays */
export function showSessions(sessions, chunkMs) {
  const body = byId("sessions").tBodies[0];
  const ids = new Set(sessions.map((/** @type {any} */ s) => s.id));
  for (const [id, row] of rows) {
    if (ids.has(id)) continue;
    row.line.remove();
    row.detail.remove();
    rows.delete(id);
  }
  for (const session of sessions) {
    let row = rows.get(session.id);
    if (!row) rows.set(session.id, (row = new Row(session)));
    if (!row.line.isConnected) body.append(row.line, row.detail);
    row.show(session, chunkMs);
  }
  byId("sessions-none").hidden = sessions.length > 0;
}
