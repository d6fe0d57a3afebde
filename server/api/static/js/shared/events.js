// @ts-check
/** Server-sent events, also from a server that wants a key: a browser's EventSource cannot send one. */
import { heldKey, keyHeader } from "./key.js";

/** What of EventSource the pages use. @typedef {Pick<EventSource, "close" | "readyState"> & {addEventListener: (type: string, heard: (event: any) => void) => void}} Events */

/** @param {string} url @returns {Events} */
export const openEvents = (url) => (heldKey() ? new KeyedEvents(url) : new EventSource(url));

class KeyedEvents extends EventTarget {
  /** @param {string} url */
  constructor(url) {
    super();
    /** @type {number} */
    this.readyState = EventSource.OPEN;
    this.ending = new AbortController();
    this.#read(url).catch(() => undefined).finally(() => (this.readyState = EventSource.CLOSED));
  }

  /** @param {string} url */
  async #read(url) {
    const answer = await fetch(url, { headers: { ...keyHeader(), Accept: "text/event-stream" }, signal: this.ending.signal });
    if (!answer.ok || !answer.body) return;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? "";
      blocks.forEach((block) => this.#event(block));
    }
  }

  /** @param {string} block the lines of one event */
  #event(block) {
    const lines = block.split(/\r?\n/);
    const all = (/** @type {string} */ name) => lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart());
    const data = all("data").join("\n");
    if (data) this.dispatchEvent(new MessageEvent(all("event")[0] ?? "message", { data }));
  }

  close() {
    this.readyState = EventSource.CLOSED;
    this.ending.abort();
  }
}
