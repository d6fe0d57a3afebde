// @ts-check
/** Scenes to try and the words the embedded model was trained on, for the page's chips. */

/** What stands on the chip, and the prompt behind it. @type {[string, string][]} */
export const PRESETS = [
  ["Red ball, sea", "a red ball bouncing over the sea"],
  ["Blue ring, sunset", "a blue ring floating at sunset"],
  ["Green star, snow", "a small green star pulsing in the snow"],
  ["Yellow heart, desert", "a big yellow heart rolling through the desert"],
  ["Purple square, stars", "a purple square orbiting among the stars"],
  ["Two balls, rain", "a white ball and an orange ball bouncing in the rain"],
];

/** @type {[string, string[]][]} */
export const WORDS = [
  ["colours", ["red", "orange", "yellow", "green", "cyan", "blue", "purple", "white"]],
  ["shapes", ["ball", "ring", "star", "square", "heart"]],
  ["motions", ["bouncing", "floating", "orbiting", "rolling", "pulsing"]],
  ["places", ["stars", "sunset", "sea", "meadow", "desert", "snow", "city", "rain"]],
  ["sizes", ["small", "big"]],
];
