// @ts-check
/** The phases of a stream as pure functions: which one follows from what is known, and from what failed. Not: their words (words are in wording.js). */
import { ApiError } from "../shared/api.js";
import { NoPath } from "./peer.js";

const LONGEST_WAIT_S = 8;
const FOR_EVER_S = 3600;
/** The phases of refusals that are not for want of room. @type {Record<string, string>} */
const UNREADY = { engine_starting: "warming", engine_busy: "busy", engine_failed: "failed" };

/** @typedef {{name: string, reason?: string, param?: string | null, position?: number | null, estimate?: number | null, until?: number, since?: number, ready?: number}} Phase */
/** @typedef {{phase: Phase | null, seconds: number, gone?: boolean, problem?: {message: string, param: string | null}}} Plan */

/** @param {Phase} a @param {Phase} b */
export const samePhase = (a, b) => /** @type {const} */ (["name", "reason", "until", "position", "ready"]).every((key) => a[key] === b[key]);

/** A wait that goes on keeps when it began and, in the same place, when it was to end: an estimate that is told anew each second would stay as it is, and only
 * one that ends earlier counts. @param {Phase} phase as told @param {Phase} before the phase so far @param {number} now ms @returns {Phase} */
export function reckoned(phase, before, now) {
  if (phase.name !== "queued" || !phase.estimate) return phase;
  const told = now + phase.estimate * 1000;
  const known = before.name === phase.name && before.position === phase.position ? before.ready : undefined;
  return { ...phase, since: before.since ?? now, ready: Math.min(known ?? told, told) };
}

/** The phase of a connected stream. @param {any} status the server's last "status" @param {boolean} resting @param {boolean} picture whether one was shown @returns {Phase} */
export function connectedPhase(status, resting, picture) {
  const engine = status?.engine_state;
  if (engine === "restarting" || engine === "failed") return { name: engine };
  if (resting && picture) return { name: "paused" };
  if (status?.status === "queued") return { name: "queued", position: status.queue_position, estimate: status.estimated_wait_s };
  if (engine === "starting") return { name: "warming" };
  return { name: picture ? "playing" : "buffering" };
}

/** What to show after a failure, how long to wait, and whether the session is gone.
 * @param {unknown} error @param {number} failures before this one @param {boolean} watching @param {boolean} found whether the session was ever there @returns {Plan} */
export function afterFailure(error, failures, watching, found) {
  const backoff = Math.min(2 ** failures * 0.5, LONGEST_WAIT_S);
  const reason = error instanceof Error ? error.message : String(error);
  if (error instanceof NoPath) return { phase: { name: "no-path", reason: error.why }, seconds: backoff };
  if (!(error instanceof ApiError)) return { phase: { name: "reconnecting", reason }, seconds: backoff };
  const seconds = error.retryAfter || backoff;
  if (error.status === 0) return { phase: { name: navigator.onLine ? "offline" : "no-network", reason: "" }, seconds: backoff };
  if (error.status === 404 || error.status === 410) {
    return watching ? { phase: { name: found ? "ended" : "unknown" }, seconds: FOR_EVER_S, gone: true } : { phase: null, seconds: backoff / 4, gone: true };
  }
  if (error.status === 401) return { phase: { name: "locked", reason: "" }, seconds: FOR_EVER_S };
  if (error.status === 503 || error.status === 429) {
    return { phase: { name: UNREADY[error.code] ?? "queued", reason, position: error.queuePosition }, seconds };
  }
  if (error.code === "already_publishing") return { phase: { name: "reconnecting", reason }, seconds };
  if (error.status >= 500) return { phase: { name: "failed", reason }, seconds: Math.max(seconds, 2) };
  return { phase: { name: "refused", reason, param: error.param }, seconds: FOR_EVER_S, problem: { message: reason, param: error.param } };
}
