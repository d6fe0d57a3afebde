// @ts-check
/** What each phase is called, what it means and what to do about it. Pure functions and one table. */

/** @type {Record<string, {pill: string, title?: string, text?: string, todo?: string, tone: string, action?: string}>} */
export const PHASES = {
  starting: { pill: "Starting", title: "Starting your stream", tone: "wait" },
  connecting: { pill: "Connecting", title: "Connecting", tone: "wait" },
  buffering: { pill: "First picture", title: "First picture in a moment", tone: "wait" },
  playing: { pill: "Live", tone: "good" },
  paused: { pill: "Paused", title: "Paused", text: "The model rests too; others use its time.", tone: "wait", action: "Go on" },
  warming: { pill: "Warming up", title: "The model is warming up", text: "The picture starts by itself.", tone: "wait" },
  busy: { pill: "Engine busy", title: "The engine takes long to answer", tone: "wait", action: "Try now" },
  restarting: { pill: "Restarting", title: "Restarting, picture back in a moment", text: "The engine stopped and starts again. Your stream goes on where it was; there is nothing to do.", tone: "wait" },
  reconnecting: { pill: "Reconnecting", title: "Connection lost, reconnecting", todo: "Your stream is kept for a minute.", tone: "wait", action: "Try now" },
  queued: { pill: "Waiting for a place", title: "No room for this stream at the moment", tone: "wait", action: "Try now" },
  offline: { pill: "Server not reached", title: "The server does not answer", text: "Is it running? Start it with: onbeat serve", tone: "bad", action: "Try now" },
  "no-network": { pill: "No network", title: "This device has no network", text: "Connect it again; the stream comes back by itself.", tone: "bad", action: "Try now" },
  "no-path": { pill: "No network path", title: "No network path to the server was found", tone: "bad", action: "Try now" },
  failed: { pill: "Not running", title: "The engine does not run", text: "See the server's log.", todo: "See the server's log.", tone: "bad", action: "Try now" },
  locked: { pill: "Key needed", title: "This server wants a key", text: "Whoever started it knows it.", tone: "bad", action: "Enter the key" },
  refused: { pill: "Not accepted", title: "The server did not accept this", tone: "bad", todo: "Change it and apply again." },
  unknown: { pill: "Not there", title: "There is no such stream", text: "It has ended, or the link is not whole. Ask whoever sent it.", tone: "bad", action: "Start my own" },
  ended: { pill: "Ended", title: "This stream has ended", text: "Whoever made it has closed it.", tone: "bad", action: "Start my own" },
};

/** As a sentence: a capital first, a full stop last. @param {string} text */
export const finish = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

/** @param {number} position 1 is next */
const before = (position) => (position === 1 ? "You are next." : `${position - 1} ${position === 2 ? "stream" : "streams"} before you.`);

/** @param {number} seconds */
const wait = (seconds) => (seconds < 90 ? `${Math.max(1, Math.ceil(seconds))} s` : `${Math.round(seconds / 60)} min`);

/** How long it still takes, or that it takes longer than it was to. @param {import("./phases.js").Phase} phase @param {number} now ms */
function toGo({ since, ready }, now) {
  if (since === undefined || ready === undefined) return "";
  const left = (ready - now) / 1000;
  return left > 0 ? `About ${wait(left)} to go. Your stream starts by itself.` : `It takes longer than estimated: ${wait((now - since) / 1000)} so far. Your stream starts by itself.`;
}

/** What stands below the title. @param {import("./phases.js").Phase} phase @param {number} [now] ms */
export function sentence(phase, now = Date.now()) {
  const words = PHASES[phase.name];
  const parts = phase.reason ? [finish(phase.reason), words.todo ?? ""] : [words.text ?? ""];
  if (phase.position) parts.push(before(phase.position));
  parts.push(toGo(phase, now));
  const left = phase.until ? Math.ceil((phase.until - now) / 1000) : 0;
  if (left > 0 && left < 600) parts.push(`Trying again in ${left} s.`);
  return parts.filter(Boolean).join(" ");
}
