// @ts-check
/** The stages of a frame's way, in order, with one colour name (base.css) and words for each. */

/** What takes time on the server. Waiting for a frame's instant ("pace") is meant, and no part of it. */
export const SERVER_STAGES = ["queue", "denoise", "commit", "decode", "convert", "handover", "encode", "send"];
export const VIEWER_STAGES = ["network", "buffer", "shown"];
/** All of a frame's way, in order: they sum to its latency. */
export const ALL_STAGES = ["queue", "denoise", "commit", "decode", "convert", "handover", "pace", "encode", "send", ...VIEWER_STAGES];

/** @type {Record<string, string>} */
export const STAGE_WORDS = {
  queue: "waiting",
  denoise: "denoising",
  commit: "committing",
  decode: "decoding",
  convert: "converting",
  handover: "handing over",
  pace: "waiting for its instant",
  encode: "encoding",
  send: "sending",
  network: "network",
  buffer: "jitter buffer",
  shown: "decoding and showing",
};
