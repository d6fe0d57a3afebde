// @ts-check
/** What is really shown: counts presented frames and times the first one that follows an event. */

export class FrameMeter {
  /** @param {HTMLVideoElement} video */
  constructor(video) {
    this.video = video;
    /** @type {number[]} times of presentation, ms, last two seconds */
    this.times = [];
    /** @type {((shownAt: number, metadata: any) => boolean)[]} */
    this.waiting = [];
    /** Called at every presented frame. @type {() => void} */
    this.onFrame = () => undefined;
    this.#ask();
  }

  #ask() {
    if (!("requestVideoFrameCallback" in this.video)) return;
    this.video.requestVideoFrameCallback((now, metadata) => {
      this.#seen(metadata.expectedDisplayTime ?? now, metadata);
      this.#ask();
    });
  }

  /** @param {number} at @param {any} metadata */
  #seen(at, metadata) {
    this.times.push(at);
    this.onFrame();
    while (this.times[0] < at - 2000) this.times.shift();
    this.waiting = this.waiting.filter((wants) => !wants(at, metadata));
  }

  /** Calls back once with the display time of the first frame that reached this machine at or after `time` (ms, performance clock).
   * @param {number} time @param {(shownAt: number) => void} callback */
  firstAfter(time, callback) {
    this.waiting.push((at, metadata) => {
      if ((metadata.receiveTime ?? at) < time) return false;
      callback(at);
      return true;
    });
  }

  /** Frames per second over the last second, or null where the browser cannot tell or the page is hidden. */
  get fps() {
    if (!("requestVideoFrameCallback" in this.video) || document.hidden) return null;
    const now = performance.now();
    return this.times.filter((t) => t > now - 1000 && t <= now).length;
  }

  /** Milliseconds since a frame was shown, or null before the first. */
  get age() {
    return this.times.length ? performance.now() - this.times[this.times.length - 1] : null;
  }
}
