// @ts-check
/** Small choices kept for the next visit. Storage may be forbidden; then they last as long as the page. */

/** @param {string} key @returns {any} what was kept, or null */
export function kept(key) {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null");
  } catch {
    return null;
  }
}

/** @param {string} key @param {any} value */
export function keep(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // lasts as long as the page
  }
}
