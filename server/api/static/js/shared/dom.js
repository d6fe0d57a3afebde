// @ts-check
/** Elements by id and by hand. */

/** @param {string} id @returns {any} the element; its absence is a broken page */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/** @param {string} tag @param {Record<string, any>} [props] properties; keys with a dash become attributes @param {...(Node | string)} children @returns {any} */
export function make(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key.includes("-") || key === "role" || key === "for") element.setAttribute(key, value);
    else /** @type {any} */ (element)[key] = value;
  }
  element.append(...children);
  return element;
}

/** An icon of icons.svg. @param {string} name */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `/static/icons.svg#${name}`);
  svg.append(use);
  return svg;
}

/** A number with its unit in small type; same text, no write. @param {HTMLElement} element @param {string} text @param {string} [unit] */
export function put(element, text, unit = "") {
  const next = unit && text !== "–" ? `${text} ${unit}` : text;
  if (element.textContent === next) return;
  element.replaceChildren(...(next === text ? [text] : [text, " ", make("small", {}, unit)]));
  if (text === "–") element.title = "no data";
  else element.removeAttribute("title");
}

/** @param {string} name of a custom property, as in base.css */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
