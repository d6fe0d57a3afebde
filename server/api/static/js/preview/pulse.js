// @ts-check
/** A minute of frames shown, one bar a second; and the glow around the picture. */
import { byId, colour } from "../shared/dom.js";
import { known } from "../shared/format.js";

const SECONDS = 60;

/** @param {import("./live.js").Live} live @param {import("./frames.js").FrameMeter} meter */
export function startPulse(live, meter) {
  /** @type {{fps: number | null, late: boolean}[]} */
  const bars = [];
  const canvas = byId("pulse");
  setInterval(() => {
    const ratio = live.status?.on_time_ratio;
    bars.push({ fps: live.peer ? meter.fps : null, late: known(ratio) && ratio < 0.98 });
    if (bars.length > SECONDS) bars.shift();
    if (!document.hidden) draw(canvas, bars, live.session?.fps ?? 20);
  }, 1000);
}

/** @param {HTMLCanvasElement} canvas @param {{fps: number | null, late: boolean}[]} bars @param {number} full frames per second of a full bar */
function draw(canvas, bars, full) {
  const scale = devicePixelRatio || 1;
  const [w, h] = [canvas.clientWidth * scale, canvas.clientHeight * scale];
  if (canvas.width !== Math.round(w)) canvas.width = Math.round(w);
  if (canvas.height !== Math.round(h)) canvas.height = Math.round(h);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.clearRect(0, 0, canvas.width, canvas.height);
  const [good, warn, empty] = [colour("accent"), colour("warn"), colour("line")];
  const step = w / SECONDS;
  for (let i = 0; i < SECONDS; i++) {
    const bar = bars[bars.length - SECONDS + i];
    const share = bar && known(bar.fps) ? Math.min(bar.fps / full, 1) : 0;
    const tall = Math.max(share * h, 3 * scale);
    context.fillStyle = !share ? empty : bar.late || share < 0.85 ? warn : good;
    context.beginPath();
    context.roundRect(i * step + step * 0.2, (h - tall) / 2, step * 0.6, tall, step);
    context.fill();
  }
  const last = bars[bars.length - 1];
  canvas.setAttribute("aria-label", `Frames shown, second by second, over the last minute; now ${last && known(last.fps) ? `${last.fps} a second` : "none"}`);
}

/** The picture's colours as a soft light behind it: a few pixels, scaled up by the page. Still under reduced motion.
 * @param {HTMLVideoElement} video */
export function startGlow(video) {
  const context = byId("glow").getContext("2d");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let drawn = false;
  setInterval(() => {
    if (document.hidden || !video.videoWidth || document.fullscreenElement || (calm.matches && drawn)) return;
    context.clearRect(0, 0, 20, 20);
    context.drawImage(video, 0, 0, 20, 20);
    fade(context);
    drawn = true;
  }, 500);
}

/** Lets the light end softly on all sides. @param {CanvasRenderingContext2D} context of 20 x 20 pixels */
function fade(context) {
  const [flat, edge] = ["rgb(0 0 0 / 100%)", "rgb(0 0 0 / 0%)"];
  context.globalCompositeOperation = "destination-in";
  for (const [x, y] of [[20, 0], [0, 20]]) {
    const gradient = context.createLinearGradient(0, 0, x, y);
    [[0.02, edge], [0.28, flat], [0.72, flat], [0.98, edge]].forEach(([at, tone]) => gradient.addColorStop(Number(at), String(tone)));
    context.fillStyle = gradient;
    context.fillRect(0, 0, 20, 20);
  }
  context.globalCompositeOperation = "source-over";
}
