// @ts-check
/** What can be done with the picture that is shown: save it, full screen, picture in picture. Not offered where the browser cannot. */
import { fetchBlob, save } from "../shared/api.js";
import { byId, make } from "../shared/dom.js";
import { toast } from "../shared/toast.js";

const LARGE = 512;

/** The picture as the model made it, without the traces of the codec; or as it is shown, where the server does not give it.
 * @param {HTMLVideoElement} video @param {string | undefined} url @returns {Promise<HTMLVideoElement | ImageBitmap>} */
async function picture(video, url) {
  if (!url) return video;
  try {
    return await createImageBitmap(await fetchBlob(`${url}?format=png`));
  } catch {
    return video; // between two streams the server has none, the screen has
  }
}

/** Saves the picture as a PNG, small ones four times their size, smooth or in pixels as it is shown.
 * @param {HTMLVideoElement} video @param {string | undefined} url the server's picture @param {boolean} pixelated @param {string} name */
export async function snapshot(video, url, pixelated, name) {
  if (!video.videoWidth) return toast("There is no picture yet");
  const source = await picture(video, url);
  const [width, height] = source instanceof ImageBitmap ? [source.width, source.height] : [source.videoWidth, source.videoHeight];
  const scale = Math.max(width, height) < LARGE ? 4 : 1;
  const canvas = make("canvas", { width: width * scale, height: height * scale });
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = !pixelated;
  context.imageSmoothingQuality = "high";
  context.drawImage(source, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((/** @type {Blob} */ blob) => {
    save(blob, name);
    toast("Picture saved");
  }, "image/png");
}

/** The button of full screen; telephones of Apple know it for the video only. @param {any} video @returns {() => void} the command */
export function startFullscreen(video) {
  const stage = byId("stage");
  const button = byId("fullscreen");
  button.hidden = !(stage.requestFullscreen || video.webkitEnterFullscreen);
  const toggle = () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else if (stage.requestFullscreen) stage.requestFullscreen().catch(() => toast("Full screen is not allowed here"));
    else video.webkitEnterFullscreen?.();
  };
  button.addEventListener("click", toggle);
  return toggle;
}

/** The button of picture in picture. @param {HTMLVideoElement} video @returns {() => void} the command */
export function startPip(video) {
  const button = byId("pip");
  button.hidden = !document.pictureInPictureEnabled;
  const pressed = (/** @type {boolean} */ on) => button.setAttribute("aria-pressed", String(on));
  video.addEventListener("enterpictureinpicture", () => pressed(true));
  video.addEventListener("leavepictureinpicture", () => pressed(false));
  const toggle = async () => {
    try {
      if (document.pictureInPictureElement) await document.exitPictureInPicture();
      else await video.requestPictureInPicture();
    } catch (error) {
      toast(video.videoWidth ? "The browser does not allow picture in picture here" : "There is no picture yet");
    }
  };
  button.addEventListener("click", toggle);
  return toggle;
}
