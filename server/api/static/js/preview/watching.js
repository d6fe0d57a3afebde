// @ts-check
/** What a watcher hears of a stream that someone else steers: server-sent events, as there is no data channel. */
import { openEvents } from "../shared/events.js";

/** Forwards each event as a message of the data channel would come. @param {string} url @param {(message: any) => void} hear @returns {() => void} ends it */
export function follow(url, hear) {
  const source = openEvents(url);
  for (const type of ["status", "applied", "queued", "admitted", "ended"]) {
    source.addEventListener(type, (event) => {
      const message = JSON.parse(event.data);
      if (message.type === "ended") source.close();
      hear(message);
    });
  }
  return () => source.close();
}
