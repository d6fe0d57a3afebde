// @ts-check
/** The stages of a frame's way, in order, with one colour name (base.css) and words for each. */

export const SERVER_STAGES = ["queue", "denoise", "decode", "convert", "encode", "send"];

/** @type {Record<string, string>} */
export const STAGE_WORDS = {
  queue: "waiting",
  denoise: "denoising",
  decode: "decoding",
  convert: "converting",
  encode: "encoding",
  send: "sending",
  network: "network",
  buffer: "jitter buffer",
};
