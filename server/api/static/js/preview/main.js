// @ts-check
/** Joins the parts of the preview page. */
import { byId } from "../shared/dom.js";
import { Controls } from "./controls.js";
import { FrameMeter } from "./frames.js";
import { startKeys } from "./keys.js";
import { Live } from "./live.js";
import { Numbers } from "./numbers.js";
import { PromptPanel } from "./prompt.js";
import { startGlow, startPulse } from "./pulse.js";
import { RenderPanel } from "./render.js";
import { parseHash, sceneHash, watchHash } from "./share.js";
import { Stage, snapshot, toast } from "./stage.js";
import { PRESETS } from "./words.js";

const shared = parseHash(location.hash);
const settings = { prompt: shared.prompt?.trim() || PRESETS[0][1], seed: shared.seed, steps: shared.steps, paused: false };
const video = byId("video");
const meter = new FrameMeter(video);
const live = new Live(settings, meter, shared.watch);
const stage = new Stage(live);
const numbers = new Numbers(live, meter);
const controls = new Controls((change) => steer(change));
const prompt = new PromptPanel((text) => steer(controls.locked ? { prompt: text } : { prompt: text, seed: controls.draw() }));

/** @param {{prompt?: string, seed?: number, steps?: number | null}} change */
function steer(change) {
  if (change.steps === null) change = { ...change, steps: live.model?.default_steps ?? null };
  live.change(change);
  remember();
}

/** The scene as it is on the page. */
const scene = () => ({ prompt: settings.prompt, seed: controls.seed, steps: controls.steps });

function remember() {
  if (!live.watching) history.replaceState(null, "", sceneHash(scene()));
}

/** @param {string} id @param {string} key @param {(on: boolean) => void} show a button that stays pressed, kept for the next visit */
function toggle(id, key, show) {
  const button = byId(id);
  const set = (/** @type {boolean} */ on) => {
    button.setAttribute("aria-pressed", String(on));
    show(on);
    keep(key, on);
  };
  button.addEventListener("click", () => set(button.getAttribute("aria-pressed") !== "true"));
  set(kept(key));
}

/** @param {string} key */
function kept(key) {
  try {
    return localStorage.getItem(key) === "true";
  } catch {
    return false; // storage may be forbidden
  }
}

/** @param {string} key @param {boolean} on */
function keep(key, on) {
  try {
    localStorage.setItem(key, String(on));
  } catch {
    // kept for this page only
  }
}

const pixelated = () => byId("pixels").getAttribute("aria-pressed") === "true";
const save = () => snapshot(video, pixelated(), `onbeat-${controls.seed ?? "picture"}-${Date.now()}.png`);

function fullscreen() {
  if (document.fullscreenElement) document.exitFullscreen();
  else byId("stage").requestFullscreen?.().catch(() => toast("Full screen is not allowed here"));
}

function showLinks() {
  byId("link-scene").value = new URL(sceneHash(scene()), location.origin).href;
  byId("link-watch").value = live.session ? new URL(watchHash(live.session.id), location.origin).href : "";
  byId("link-dialog").showModal();
}

/** @param {string} id of a field */
async function copy(id) {
  byId(id).select();
  try {
    await navigator.clipboard.writeText(byId(id).value);
    toast("Link copied");
  } catch {
    toast("Press Ctrl C to copy the marked link"); // no clipboard without https or localhost
  }
}

/** @param {{message: string, param?: string | null}} problem */
function showProblem({ message, param }) {
  if (param === "seed") controls.showError(message);
  else prompt.showError(message);
}

live.addEventListener("session", () => {
  if (live.watching) prompt.show(live.session.prompt);
  else controls.limit(live.model);
  if (settings.seed === null) settings.seed = live.session.seed;
  controls.showSeed(live.session.seed);
  prompt.showUnderstood(live.session.recognised);
  remember();
});
live.addEventListener("applied", (event) => {
  const { recognised } = /** @type {CustomEvent} */ (event).detail;
  if (recognised) prompt.showUnderstood(recognised);
});
live.addEventListener("problem", (event) => showProblem(/** @type {CustomEvent} */ (event).detail));

byId("snapshot").addEventListener("click", save);
byId("share").addEventListener("click", showLinks);
byId("fullscreen").addEventListener("click", fullscreen);
byId("help").addEventListener("click", () => byId("help-dialog").showModal());
for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(/** @type {HTMLElement} */ (button).dataset.copy ?? ""));
toggle("pixels", "onbeat.pixels", (on) => video.parentElement.classList.toggle("pixelated", on));
toggle("overlay", "onbeat.overlay", (on) => {
  byId("hud").hidden = !on;
  numbers.show();
});
byId("as-you-type").checked = kept("onbeat.type");
byId("as-you-type").addEventListener("change", () => keep("onbeat.type", byId("as-you-type").checked));

startKeys([
  { keys: ["k", " "], shown: "K", words: "pause, go on", run: () => stage.togglePause() },
  { keys: ["m"], shown: "M", words: "sound on, off", run: () => stage.setMuted(!video.muted) },
  { keys: ["/"], shown: "/", words: "write a prompt (Ctrl Enter applies it)", run: () => byId("prompt").focus() },
  { keys: ["d"], shown: "D", words: "a new seed", run: () => controls.roll() },
  { keys: ["0", "1", "2", "3", "4"], shown: "0 to 4", words: "steps; 0 is auto", run: (key) => setSteps(key) },
  { keys: ["p"], shown: "P", words: "pixelated, smooth", run: () => byId("pixels").click() },
  { keys: ["o"], shown: "O", words: "numbers over the picture", run: () => byId("overlay").click() },
  { keys: ["s"], shown: "S", words: "save a picture", run: save },
  { keys: ["l"], shown: "L", words: "links to share", run: showLinks },
  { keys: ["f"], shown: "F", words: "full screen", run: fullscreen },
  { keys: ["?"], shown: "?", words: "this list", run: () => byId("help-dialog").showModal() },
]);

/** @param {string} key */
function setSteps(key) {
  controls.showSteps(key === "0" ? null : Number(key));
  steer({ steps: controls.steps });
}

addEventListener("pagehide", () => live.stop());
addEventListener("pageshow", (event) => event.persisted && location.reload());
addEventListener("hashchange", () => location.reload());

document.body.classList.toggle("watching", live.watching !== null);
prompt.show(settings.prompt);
controls.showSteps(settings.steps);
if (settings.seed !== null) controls.showSeed(settings.seed);
meter.onFrame = () => live.sawFrame();
startPulse(live, meter);
startGlow(video);
if (!live.watching) new RenderPanel(scene);
/** @type {any} */ (globalThis).onbeat = { live }; // for the console and for tests
live.run();
