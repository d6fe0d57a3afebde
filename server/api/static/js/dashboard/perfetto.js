// @ts-check
/** Hands a trace to ui.perfetto.dev in a window of its own; saving it works without a network. */
import { fetchBlob, saveWithKey } from "../shared/api.js";
import { byId } from "../shared/dom.js";
import { toast } from "../shared/toast.js";

const VIEWER = "https://ui.perfetto.dev";
const ASK_MS = 50;
const PATIENCE_MS = 15000;

/** Resolves when the window answers that it is ready to be given a trace. @param {Window} other */
function ready(other) {
  return new Promise((resolve, reject) => {
    const asking = setInterval(() => other.postMessage("PING", VIEWER), ASK_MS);
    const giveUp = setTimeout(() => end(() => reject(new Error("ui.perfetto.dev does not answer. Save the trace instead."))), PATIENCE_MS);
    /** @param {() => void} then */
    const end = (then) => {
      clearInterval(asking);
      clearTimeout(giveUp);
      removeEventListener("message", heard);
      then();
    };
    /** @param {MessageEvent} event */
    const heard = (event) => event.origin === VIEWER && event.data === "PONG" && end(() => resolve(undefined));
    addEventListener("message", heard);
  });
}

async function open() {
  const other = window.open(VIEWER); // at once: only a click may open one
  if (!other) return toast("The browser did not open a window. Save the trace instead.");
  try {
    const [trace] = await Promise.all([fetchBlob("/v1/trace?seconds=2"), ready(other)]);
    const buffer = await trace.arrayBuffer();
    other.postMessage({ perfetto: { buffer, title: `onbeat, ${new Date().toLocaleTimeString("en-GB")}`, keepApiOpen: false } }, VIEWER);
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error));
  }
}

export function startPerfetto() {
  byId("perfetto").addEventListener("click", open);
  byId("trace").addEventListener("click", (/** @type {MouseEvent} */ event) => saveWithKey(event, toast));
}
