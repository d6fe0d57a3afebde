// @ts-check
/** Where pictures for video-to-video come from: camera, screen, or a file. Not: the panel (sources.js), or how they are sent (peer.js). */

const SIDE = 640;
const STILL_MS = 100;

/** @typedef {{stream: MediaStream, label: string, deviceId: string | null, close: () => void}} Source */

/** Whether this browser can at all. @param {string} kind */
export function possible(kind) {
  if (kind === "camera") return Boolean(navigator.mediaDevices?.getUserMedia);
  if (kind === "screen") return "getDisplayMedia" in (navigator.mediaDevices ?? {});
  return "captureStream" in HTMLCanvasElement.prototype;
}

/** @param {MediaStream} stream @param {() => void} [after] @returns {Source} */
function wrap(stream, label = "", after = () => undefined) {
  const [track] = stream.getVideoTracks();
  const close = () => {
    for (const each of stream.getTracks()) each.stop();
    after();
  };
  return { stream, label: label || track.label, deviceId: track.getSettings().deviceId ?? null, close };
}

/** @param {string | null} deviceId null: the browser's choice @param {number} fps of the model @returns {Promise<Source>} */
export async function openCamera(deviceId, fps) {
  const which = deviceId ? { deviceId: { exact: deviceId } } : { facingMode: "user" };
  const video = { ...which, width: { ideal: SIDE }, height: { ideal: SIDE }, frameRate: { ideal: fps } };
  return wrap(await navigator.mediaDevices.getUserMedia({ video }));
}

/** @param {number} fps @returns {Promise<Source>} */
export async function openScreen(fps) {
  return wrap(await navigator.mediaDevices.getDisplayMedia({ video: { frameRate: { ideal: fps } } }), "screen");
}

/** Sound as the room has it: what takes echoes out may take music out, too. @returns {Promise<MediaStream>} */
export function openMicrophone() {
  return navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: true, noiseSuppression: false, autoGainControl: false } });
}

/** A video plays in a loop, a picture stands still; both are drawn on a canvas, which every browser can send.
 * @param {File} file @param {number} fps @returns {Promise<Source>} */
export async function openFile(file, fps) {
  const url = URL.createObjectURL(file);
  const release = () => URL.revokeObjectURL(url);
  try {
    const still = file.type.startsWith("image/");
    return still ? await openStill(url, file.name, release) : await openClip(url, file.name, fps, release);
  } catch (error) {
    release();
    throw error;
  }
}

/** @param {string} url @param {string} name @param {() => void} release */
async function openStill(url, name, release) {
  const image = new Image();
  image.src = url;
  await image.decode();
  return drawn(image, image.naturalWidth, image.naturalHeight, STILL_MS, name, release);
}

/** @param {string} url @param {string} name @param {number} fps @param {() => void} release */
async function openClip(url, name, fps, release) {
  const video = document.createElement("video");
  Object.assign(video, { src: url, loop: true, muted: true, playsInline: true });
  await video.play();
  return drawn(video, video.videoWidth, video.videoHeight, 1000 / fps, name, () => {
    video.removeAttribute("src");
    release();
  });
}

/** @param {CanvasImageSource} picture @param {number} width @param {number} height @param {number} every ms @param {string} name @param {() => void} release @returns {Source} */
function drawn(picture, width, height, every, name, release) {
  const scale = Math.min(1, SIDE / Math.max(width, height));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const draw = () => context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  draw();
  const timer = setInterval(draw, every);
  return wrap(canvas.captureStream(), name, () => {
    clearInterval(timer);
    release();
  });
}

/** What to tell of a source that did not open. @param {unknown} error @param {string} kind */
export function refusal(error, kind) {
  const name = error instanceof DOMException ? error.name : "";
  if (kind === "file") return "This file cannot be shown by the browser. Pictures and videos (MP4, WebM) work.";
  if (name === "NotAllowedError") return `The ${kind} was not allowed. Allow it at the lock beside the address, then choose it again.`;
  if (name === "NotFoundError" || name === "OverconstrainedError") return `No ${kind} was found. Connect one, then choose it again.`;
  if (name === "NotReadableError") return `The ${kind} cannot be read: another program may be using it.`;
  return `The ${kind} could not be opened: ${error instanceof Error ? error.message : error}`;
}
