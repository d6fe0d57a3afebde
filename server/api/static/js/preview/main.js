// @ts-check
/** Joins the parts of the preview page. */
import { byId } from "../shared/dom.js";
import { keep, kept } from "../shared/store.js";
import { Compare } from "./compare.js";
import { Controls } from "./controls.js";
import { FrameMeter } from "./frames.js";
import { startKeys } from "./keys.js";
import { showLinks, startLinks } from "./links.js";
import { Live } from "./live.js";
import { MixPanel } from "./mix.js";
import { Numbers } from "./numbers.js";
import { snapshot, startFullscreen, startPip } from "./picture.js";
import { PromptPanel } from "./prompt.js";
import { Rate } from "./rate.js";
import { startGlow, startPulse } from "./pulse.js";
import { Recorder } from "./record.js";
import { RenderPanel } from "./render.js";
import { Scenes } from "./scenes.js";
import { parseHash, sceneHash } from "./share.js";
import { Sources } from "./sources.js";
import { Stage } from "./stage.js";
import { PRESETS } from "./words.js";

const shared = parseHash(location.hash);
const settings = { prompt: shared.prompt?.trim() || PRESETS[0][1], seed: shared.seed, steps: shared.steps, strength: shared.strength, fps: null, paused: false };
const video = byId("video");
const meter = new FrameMeter(video);
const live = new Live(settings, meter, shared.watch);
const stage = new Stage(live);
const numbers = new Numbers(live, meter);
const controls = new Controls((change) => steer(change));
const prompt = new PromptPanel((text) => say(text), (text) => {
  scenes.mark(text);
  mix.show(text);
});
const mix = new MixPanel((text) => prompt.write(text), () => prompt.box.value, PRESETS.map(([, words]) => words));
const scenes = new Scenes(scene, use);
const compare = new Compare(live);
const sources = new Sources(live, (change) => steer(change));
const rate = new Rate(live, (change) => steer(change));
const recorder = new Recorder(live);
const fullscreen = startFullscreen(video);
const pip = startPip(video);

/** The scene as it is on the page. @returns {import("./share.js").Scene} */
function scene() {
  return { prompt: settings.prompt, seed: controls.seed, steps: controls.steps, transition: controls.transition, strength: sources.source ? settings.strength : null };
}

/** New words. @param {string} text */
function say(text) {
  steer({ prompt: text, ...(!controls.locked && { seed: controls.draw() }) });
}

/** @param {import("./live.js").Change} change */
function steer(change) {
  if (change.steps === null) change = { ...change, steps: live.model?.default_steps ?? null };
  live.change({ ...change, transition: controls.transition ?? undefined });
  remember();
}

/** Takes a scene over: what it leaves open stays. @param {import("./share.js").Scene} scene */
function use({ prompt: text, seed, steps, transition, strength }) {
  prompt.show(text);
  if (seed !== null) controls.showSeed(seed);
  if (steps !== null) controls.showSteps(steps);
  if (transition !== null) controls.showTransition(transition);
  if (strength !== null) sources.showStrength((settings.strength = strength));
  if (seed === null && steps === null) say(text);
  else steer({ prompt: text, ...(seed !== null && { seed }), ...(steps !== null && { steps }) });
}

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
  set(kept(key) === true);
}

const pixelated = () => byId("pixels").getAttribute("aria-pressed") === "true";
function save() {
  const [shown, url] = compare.holding ? compare.shown : [video, live.session?.snapshot_url];
  snapshot(shown, url, pixelated(), `onbeat-${controls.seed ?? "picture"}-${Date.now()}.png`);
}
const links = () => showLinks(live, scene());

/** @param {{message: string, param?: string | null}} problem */
function showProblem({ message, param }) {
  if (param === "seed") controls.showError(message);
  else if (param === "fps") rate.refused(message);
  else prompt.showError(message);
}

live.addEventListener("session", () => {
  const { session } = live;
  if (session.prompt !== prompt.applied) prompt.show(session.prompt);
  if (live.watching) settings.prompt = session.prompt;
  else if (live.model) controls.limit(live.model);
  settings.seed ??= session.seed;
  controls.showSeed(session.seed);
  prompt.showUnderstood(session.recognised);
  remember();
});
live.addEventListener("adopted", () => {
  controls.showSteps(settings.steps);
  remember();
});
live.addEventListener("applied", (event) => {
  const { recognised } = /** @type {CustomEvent} */ (event).detail;
  if (recognised) prompt.showUnderstood(recognised);
});
live.addEventListener("problem", (event) => showProblem(/** @type {CustomEvent} */ (event).detail));

byId("snapshot").addEventListener("click", save);
byId("share").addEventListener("click", links);
byId("help").addEventListener("click", () => byId("help-dialog").showModal());
for (const radio of document.querySelectorAll("input[name=transition]")) radio.addEventListener("change", remember);
toggle("pixels", "onbeat.pixels", (on) => byId("stage").classList.toggle("pixelated", on));
toggle("overlay", "onbeat.overlay", (on) => {
  byId("hud").hidden = !on;
  numbers.show();
});
byId("as-you-type").checked = kept("onbeat.type") === true;
byId("as-you-type").addEventListener("change", () => keep("onbeat.type", byId("as-you-type").checked));

startKeys([
  { keys: ["k", " "], shown: "K", words: "pause, go on", run: () => stage.togglePause() },
  { keys: ["m"], shown: "M", words: "sound on, off", run: () => stage.setMuted(!video.muted) },
  { keys: ["/"], shown: "/", words: "write a prompt (Ctrl Enter applies it)", run: () => byId("prompt").focus() },
  { keys: ["d"], shown: "D", words: "a new seed", run: () => controls.roll() },
  { keys: ["0", "1", "2", "3", "4"], shown: "0 to 4", words: "steps; 0 is auto", run: (key) => setSteps(key) },
  { keys: ["c"], shown: "C", words: "keep the stream as A, let it go", run: () => compare.toggle() },
  { keys: ["a"], shown: "A", words: "hold to see A", run: () => compare.hold(true), end: () => compare.hold(false) },
  { keys: ["p"], shown: "P", words: "pixelated, smooth", run: () => byId("pixels").click() },
  { keys: ["o"], shown: "O", words: "numbers over the picture", run: () => byId("overlay").click() },
  { keys: ["r"], shown: "R", words: "record, stop", run: () => recorder.toggle() },
  { keys: ["s"], shown: "S", words: "save a picture", run: save },
  { keys: ["l"], shown: "L", words: "links to share", run: links },
  { keys: ["i"], shown: "I", words: "picture in picture", run: pip },
  { keys: ["f"], shown: "F", words: "full screen", run: fullscreen },
  { keys: ["?"], shown: "?", words: "this list", run: () => byId("help-dialog").showModal() },
]);

/** @param {string} key */
function setSteps(key) {
  controls.showSteps(key === "0" ? null : Number(key));
  steer({ steps: controls.steps });
}

for (const name of ["play", "pause", "enterpictureinpicture", "leavepictureinpicture"]) video.addEventListener(name, () => live.tellPresence());
document.addEventListener("visibilitychange", () => live.tellPresence());
addEventListener("pagehide", () => {
  compare.drop();
  sources.close();
  live.stop();
});
addEventListener("pageshow", (event) => event.persisted && location.reload());
addEventListener("hashchange", () => location.reload());

document.body.classList.toggle("watching", live.watching !== null);
startLinks();
controls.showSteps(settings.steps);
controls.showTransition(shared.transition);
if (shared.strength !== null) sources.showStrength(shared.strength);
prompt.show(settings.prompt);
if (settings.seed !== null) controls.showSeed(settings.seed);
meter.onFrame = () => live.sawFrame();
startPulse(live, meter);
startGlow(video);
if (!live.watching) new RenderPanel(scene);
/** @type {any} */ (globalThis).onbeat = { live }; // for the console and for tests
live.run();
