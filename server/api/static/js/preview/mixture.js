// @ts-check
/** Several weighted texts on one line, as the server writes them: "a red ball (0.7) + a blue ring (0.3)". Pure functions. */

export const MOST = 8;
const PART = /^(\S.*) \((\d+(?:\.\d+)?)\)$/s;
const HEAVIEST = 10;

/** @typedef {{text: string, weight: number}} Part */

/** @param {string} text @returns {Part[]} two or more; none if it is a plain text */
export function parts(text) {
  const found = text.split(" + ").map((part) => PART.exec(part.trim()));
  const read = found.map((match) => ({ text: match?.[1].trim() ?? "", weight: Number(match?.[2]) }));
  const good = read.every(({ text: words, weight }) => words && weight > 0 && weight <= HEAVIEST);
  return good && read.length > 1 && read.length <= MOST ? read : [];
}

/** The line that says the same. @param {Part[]} mixed */
export function joined(mixed) {
  if (mixed.length < 2) return mixed[0]?.text ?? "";
  return mixed.map(({ text, weight }) => `${text} (${Number(weight.toFixed(2))})`).join(" + ");
}

/** As the server takes it. @param {string} text @returns {string | Part[]} */
export function asPrompt(text) {
  const mixed = parts(text);
  return mixed.length ? mixed : text;
}
