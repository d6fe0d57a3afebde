// @ts-check
/**
 * Changes of a running stream: sent by the data channel (by PATCH while there is none), matched with the server's
 * acknowledgements, and timed from the key to the first picture made under them. Not: the connection.
 */
import { ApiError, call } from "../shared/api.js";

const HALF_FRAME_MS = 25;

/** @typedef {{at: number, revision: number | null, control: Record<string, any>}} Sent */

export class Steering {
  /** @param {import("./live.js").Live} live */
  constructor(live) {
    this.live = live;
    /** @type {Sent[]} on their way, oldest first */
    this.sent = [];
  }

  /** A new connection knows nothing of what was sent before. */
  forget() {
    this.sent = [];
  }

  /** @param {Record<string, any>} control fields of the data channel's control message */
  send(control) {
    if (this.live.peer?.send({ type: "control", ...control })) this.sent.push({ at: performance.now(), revision: null, control });
    else this.#patch(control);
  }

  /** @param {Record<string, any>} control */
  async #patch(control) {
    try {
      this.live.say("applied", await call("PATCH", `/v1/sessions/${this.live.session.id}`, control));
    } catch (error) {
      if (error instanceof ApiError && error.status !== 404 && error.status !== 0) this.live.say("problem", error);
    }
  }

  /** @param {any} message */
  accepted(message) {
    const first = this.sent.find((control) => control.revision === null);
    if (first) first.revision = message.revision;
    this.live.say("accepted", message);
  }

  /** @param {any} message */
  applied(message) {
    const control = this.sent.find((c) => c.revision === message.revision);
    const taken = this.sent.filter((c) => c.revision !== null && c.revision <= message.revision);
    this.sent = this.sent.filter((c) => !taken.includes(c));
    this.live.say("applied", { ...message, control: Object.assign({}, ...taken.map((c) => c.control)) });
    if (!control) return;
    const due = performance.now() + Math.max(message.due_in_ms ?? 0, 0) - HALF_FRAME_MS;
    this.live.meter.firstAfter(due, (shownAt) => this.live.say("photon", { ms: shownAt - control.at }));
  }

  /** @param {{message: string, param?: string | null}} error */
  refused(error) {
    const first = this.sent.findIndex((control) => control.revision === null);
    if (first >= 0) this.sent.splice(first, 1);
    this.live.say("problem", error);
  }
}
