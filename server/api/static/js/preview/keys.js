// @ts-check
/** Single-key commands while no text field has the focus, and their list in the help dialog. */
import { byId, make } from "../shared/dom.js";

/** `end` is run when the key is let go. @typedef {{keys: string[], shown: string, words: string, run: (key: string) => void, end?: () => void}} Command */

/** @param {EventTarget | null} target */
const takesText = (target) => target instanceof HTMLElement && target.matches("input:not([type=radio]):not([type=checkbox]), textarea, select");

/** Space presses the button that has the focus. @param {KeyboardEvent} event */
const pressesButton = (event) => event.key === " " && event.target instanceof HTMLElement && event.target.matches("button, a, summary, input");

/** @param {Command[]} commands */
export function startKeys(commands) {
  for (const { shown, words } of commands) byId("keys").append(make("dt", {}, make("kbd", {}, shown)), make("dd", {}, words));
  const find = (/** @type {KeyboardEvent} */ event) => commands.find(({ keys }) => keys.includes(event.key.toLowerCase()));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || takesText(event.target) || pressesButton(event)) return;
    if (document.querySelector("dialog[open]")) return;
    const command = find(event);
    if (!command) return;
    event.preventDefault();
    if (!event.repeat) command.run(event.key);
  });
  document.addEventListener("keyup", (event) => find(event)?.end?.());
}
