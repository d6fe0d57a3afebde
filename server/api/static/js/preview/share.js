// @ts-check
/** A scene as the part of the address behind `#`: prompt, seed, steps; or a stream to watch. */

/** @typedef {{prompt: string | null, seed: number | null, steps: number | null, watch: string | null}} Shared */

/** @param {string | null} text @param {number} low @param {number} high */
function whole(text, low, high) {
  if (text === null || !/^\d{1,10}$/.test(text)) return null;
  const value = Number(text);
  return value >= low && value <= high ? value : null;
}

/** @param {string} hash as in location.hash @returns {Shared} what is readable in it; the rest null */
export function parseHash(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const watch = fields.get("watch");
  return {
    prompt: fields.get("prompt"),
    seed: whole(fields.get("seed"), 0, 2 ** 32 - 1),
    steps: whole(fields.get("steps"), 1, 4),
    watch: watch && /^[\w-]{1,80}$/.test(watch) ? watch : null,
  };
}

/** @param {{prompt: string, seed: number | null, steps: number | null}} scene */
export function sceneHash(scene) {
  const fields = new URLSearchParams({ prompt: scene.prompt });
  if (scene.seed !== null) fields.set("seed", String(scene.seed));
  if (scene.steps !== null) fields.set("steps", String(scene.steps));
  return `#${fields}`;
}

/** @param {string} sessionId */
export const watchHash = (sessionId) => `#watch=${sessionId}`;
