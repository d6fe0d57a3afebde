// @ts-check
/** Joins the parts of the latency page. */
import { byId } from "../shared/dom.js";
import { Charts } from "./charts.js";
import { Feed, chunkTime, history, pointOf } from "./feed.js";
import { startPerfetto } from "./perfetto.js";
import { showSessions } from "./sessions.js";
import { showStages } from "./stages.js";
import { showTiles } from "./tiles.js";

/** @type {Record<string, [string, string]>} */
const WORDS = {
  live: ["good", "Live"],
  waiting: ["wait", "Waiting for numbers"],
  lost: ["bad", "No numbers: server not reached, trying again"],
};

const feed = new Feed();
const charts = new Charts();

/** @type {number | null} */
let chunkMs = null;

async function loadHistory() {
  try {
    charts.load(await history(charts.seconds));
    chunkMs ??= await chunkTime();
  } catch {
    showState("lost"); // the lines start with the next numbers
  }
}

/** @param {string} state */
function showState(state) {
  const [tone, text] = WORDS[state];
  byId("state").dataset.tone = tone;
  byId("state-text").textContent = text;
  byId("board").classList.toggle("stale", state === "lost");
}

feed.addEventListener("overview", (event) => {
  const overview = /** @type {CustomEvent} */ (event).detail;
  showTiles(overview);
  showStages(overview.latency, overview.machine, overview.live);
  showSessions(overview.sessions, chunkMs);
  charts.add(pointOf(overview));
});
feed.addEventListener("state", (event) => {
  const state = /** @type {CustomEvent} */ (event).detail;
  showState(state);
  if (state === "live") loadHistory();
});
document.addEventListener("visibilitychange", () => document.hidden || loadHistory());
for (const button of document.querySelectorAll("[data-range]")) {
  button.addEventListener("click", () => {
    for (const other of document.querySelectorAll("[data-range]")) other.setAttribute("aria-pressed", String(other === button));
    charts.show(Number(/** @type {HTMLElement} */ (button).dataset.range));
    loadHistory();
  });
}
/** @type {any} */ (globalThis).onbeat = { feed, charts }; // for the console and for tests
startPerfetto();
feed.start();
