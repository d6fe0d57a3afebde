// @ts-check
/** What a watcher hears of a stream that someone else steers: server-sent events, as there is no data channel. */

/** Forwards each event as a message of the data channel would come. @param {string} url @param {(message: any) => void} hear @returns {() => void} ends it */
export function follow(url, hear) {
  const source = new EventSource(url);
  for (const type of ["status", "applied", "queued", "admitted", "ended"]) {
    source.addEventListener(type, (event) => {
      const message = JSON.parse(/** @type {MessageEvent} */ (event).data);
      if (message.type === "ended") source.close();
      hear(message);
    });
  }
  return () => source.close();
}
