// @ts-check
/** Numbers as people read them. A missing number is a dash, never a zero. */

export const NONE = "–";

/** @param {unknown} value @returns {value is number} */
export const known = (value) => typeof value === "number" && Number.isFinite(value);

/** @param {unknown} value */
export const fixed = (value, digits = 0) => (known(value) ? value.toFixed(digits) : NONE);

/** A share as a percentage; only a true 1 is "100". @param {unknown} ratio */
export function percent(ratio) {
  if (!known(ratio)) return NONE;
  if (ratio >= 1) return "100";
  const shown = Math.floor(ratio * 1000) / 10;
  return shown.toFixed(1);
}

/** @param {unknown} value milliseconds */
export function ms(value) {
  if (!known(value)) return NONE;
  if (Math.abs(value) < 10) return value.toFixed(1);
  return Math.round(value).toString();
}

/** @param {unknown} bytes */
export const gib = (bytes) => (known(bytes) ? (bytes / 2 ** 30).toFixed(1) : NONE);

/** @param {unknown} seconds */
export function duration(seconds) {
  if (!known(seconds)) return NONE;
  const s = Math.floor(seconds);
  const [h, m] = [Math.floor(s / 3600), Math.floor(s / 60) % 60];
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min ${s % 60} s` : `${s} s`;
}

/** An instant by the clock here; the day too unless it is today's. @param {number} unix seconds */
export function clock(unix) {
  const at = new Date(unix * 1000);
  const time = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${time}`;
}

/** @param {unknown} value */
export const count = (value) => (known(value) ? value.toLocaleString("en") : NONE);

/** A number and its noun. @param {unknown} value @param {string} one @param {string} [many] */
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;
