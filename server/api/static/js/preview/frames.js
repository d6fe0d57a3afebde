// @ts-check
/** What is really shown: counts presented frames and times the first one that follows an event. */

const MOST_SEEN = 100;

/** @param {number} value */
const tenth = (value) => Math.round(10 * value) / 10;

export class FrameMeter {
  /** @param {HTMLVideoElement} video */
  constructor(video) {
    this.video = video;
    /** @type {number[]} times of presentation, ms, last two seconds */
    this.times = [];
    /** @type {number[]} ms from a frame's arrival to the screen, of the same frames where known */
    this.delays = [];
    /** @type {[number, number, number, number][]} what the server has not been told: time stamp on the packets, ms in the jitter buffer, ms from there to the screen, when it came */
    this.seen = [];
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
    this.delays.push(metadata.receiveTime ? at - metadata.receiveTime : NaN);
    this.#note(at, metadata);
    this.onFrame();
    while (this.times[0] < at - 2000) {
      this.times.shift();
      this.delays.shift();
    }
    this.waiting = this.waiting.filter((wants) => !wants(at, metadata));
  }

  /** @param {number} at @param {any} metadata of a picture that came over the network */
  #note(at, { rtpTimestamp, receiveTime, processingDuration, presentationTime }) {
    if (rtpTimestamp === undefined || receiveTime === undefined) return;
    const shown = 1000 * (processingDuration ?? 0) + Math.max(at - presentationTime, 0);
    this.seen.push([rtpTimestamp, tenth(Math.max(at - receiveTime - shown, 0)), tenth(shown), receiveTime]);
    if (this.seen.length > MOST_SEEN) this.seen.shift();
  }

  /** The frames shown since the last call, to be told at once: each with how long ago it came, from which the server knows its way. */
  takeSeen() {
    const now = performance.now();
    return this.seen.splice(0).map(([stamp, buffer, shown, came]) => [stamp, buffer, shown, tenth(Math.max(now - came, 0))]);
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

  /** Whether somebody can see the picture, and whether it runs. */
  get presence() {
    const floating = document.pictureInPictureElement === this.video;
    return { visible: !document.hidden || floating, playing: !this.video.paused };
  }

  /** Milliseconds from arrival to screen: the mean of the last two seconds, or null where the browser cannot tell. */
  get delay() {
    const known = this.delays.filter((delay) => delay >= 0);
    return known.length ? known.reduce((sum, delay) => sum + delay, 0) / known.length : null;
  }

  /** Milliseconds since a frame was shown, or null before the first. */
  get age() {
    return this.times.length ? performance.now() - this.times[this.times.length - 1] : null;
  }
}
