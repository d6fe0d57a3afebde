// @ts-check
/** The dialog of links: this scene, this stream for watchers, and its address for players. */
import { byId } from "../shared/dom.js";
import { toast } from "../shared/toast.js";
import { crowd } from "./numbers.js";
import { sceneHash, watchHash } from "./share.js";

/** @param {string} path */
const absolute = (path) => new URL(path, location.origin).href;

/** @param {import("./live.js").Live} live @param {import("./share.js").Scene} scene */
export function showLinks(live, scene) {
  const { session } = live;
  byId("link-scene").value = absolute(sceneHash(scene));
  byId("link-watch").value = session ? absolute(watchHash(session.id)) : "";
  byId("link-whep").value = session ? absolute(session.whep_url) : "";
  byId("link-viewers").textContent = session ? crowd(live.status?.viewers).trim() : "The stream is not open yet.";
  byId("link-dialog").showModal();
}

/** @param {string} id of a field */
async function copy(id) {
  byId(id).select();
  try {
    await navigator.clipboard.writeText(byId(id).value);
    toast("Link copied");
  } catch {
    toast("Press Ctrl C to copy the marked link"); // no clipboard without https or localhost
  }
}

/** The buttons beside the links. */
export function startLinks() {
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(/** @type {HTMLElement} */ (button).dataset.copy ?? ""));
}
