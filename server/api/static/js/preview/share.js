// @ts-check
/** A scene as the part of the address behind `#`: prompt, seed, steps, transition, strength; or a stream to watch. */

/** @typedef {{prompt: string, seed: number | null, steps: number | null, transition: string | null, strength: number | null}} Scene null: the server's choice */
/** @typedef {Omit<Scene, "prompt"> & {prompt: string | null, watch: string | null}} Shared */

export const TRANSITIONS = ["cut", "recache", "blend"];

/** @param {string | null} text @param {number} low @param {number} high */
function whole(text, low, high) {
  if (text === null || !/^\d{1,10}$/.test(text)) return null;
  const value = Number(text);
  return value >= low && value <= high ? value : null;
}

/** @param {string | null} text */
function share(text) {
  return text !== null && /^(0(\.\d{1,3})?|1(\.0{1,3})?)$/.test(text) ? Number(text) : null;
}

/** @param {string} hash as in location.hash @returns {Shared} what is readable in it; the rest null */
export function parseHash(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const watch = fields.get("watch");
  const transition = fields.get("transition");
  return {
    prompt: fields.get("prompt"),
    seed: whole(fields.get("seed"), 0, 2 ** 32 - 1),
    steps: whole(fields.get("steps"), 1, 64),
    transition: TRANSITIONS.find((known) => known === transition) ?? null,
    strength: share(fields.get("strength")),
    watch: watch && /^[\w-]{1,80}$/.test(watch) ? watch : null,
  };
}

/** @param {Scene} scene */
export function sceneHash({ prompt, ...rest }) {
  const fields = new URLSearchParams({ prompt });
  for (const [name, value] of Object.entries(rest)) if (value !== null && value !== undefined) fields.set(name, String(value));
  return `#${fields}`;
}

/** @param {string} sessionId */
export const watchHash = (sessionId) => `#watch=${sessionId}`;
