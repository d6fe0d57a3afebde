// @ts-check
/** A short message at the foot of the page, read out by screen readers. */
import { byId } from "./dom.js";

/** Shows a short message. @param {string} text */
export function toast(text) {
  const element = byId("toast");
  element.textContent = text;
  element.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => element.classList.remove("shown"), 2600);
}
/** @type {any} */
toast.timer = 0;
