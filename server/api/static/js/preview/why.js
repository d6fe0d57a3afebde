// @ts-check
/** Why is it slow: the stage that costs most, and a sentence about it. A pure function of two reports. */
import { known, ms } from "../shared/format.js";
import { SERVER_STAGES, STAGE_WORDS } from "../shared/stages.js";

/** Milliseconds of each stage that is known, in order of a frame's way.
 * @param {any} status the server's last "status" @param {any} received the viewer's last report @returns {[string, number][]} */
export function stageTimes(status, received) {
  const rtt = received?.rtt_ms;
  /** @type {[string, any][]} */
  const all = [
    ["queue", status?.queue_ms],
    ["denoise", status?.denoise_ms],
    ["commit", status?.commit_ms],
    ["decode", status?.decode_ms],
    ["convert", status?.convert_ms],
    ["encode", status?.encode_ms],
    ["network", known(rtt) ? rtt / 2 : null],
    ["buffer", received?.jitter_buffer_ms],
  ];
  return /** @type {[string, number][]} */ (all.filter(([, value]) => known(value)));
}

/** How old a picture is when it is shown, ms: from the server's sending to the screen; from the camera where one is used. Null = not known.
 * @param {any} status @param {any} received @param {number | null} delay from arrival to screen */
export function glass(status, received, delay) {
  if (!known(delay) || !known(received?.rtt_ms)) return null;
  const input = status?.input?.age_ms; // how old the picture from the camera was when the one made of it was sent
  return known(input) ? input + received.rtt_ms + delay : delay + received.rtt_ms / 2;
}

/** @type {Record<string, string>} */
const REASONS = {
  queue: "chunks wait for their turn",
  commit: "keeping what was made, for the next chunk to go on from, takes most of the time",
  denoise: "the model needs most of the time; fewer steps would be faster",
  decode: "turning latents into pictures and sound takes most of the time",
  convert: "copying and converting the pictures takes most of the time",
  encode: "the video encoder takes most of the time",
  network: "most of the time is the way through the network",
  buffer: "your browser holds frames back to even out the network",
};

/** Who else takes the device; null = nobody. @param {any} status */
function others(status) {
  if (status.machine_taken) return "other programs on the server's machine take its processor";
  return status.sharing > 1 ? `${status.sharing} streams and jobs share the device` : null;
}

/** Whose doing it is: other programs, other streams, or nobody's but the stage's own. @param {string} stage @param {any} status */
function blame(stage, status) {
  const who = others(status);
  if (status.machine_taken) return who;
  return stage === "queue" && who ? `${REASONS.queue}: ${who}` : REASONS[stage];
}

/** @param {[string, number][]} times not empty */
const longest = (times) => times.reduce((a, b) => (b[1] > a[1] ? b : a));

/** What leaves the server late was made late, and the browser's buffer grows because of it: then only the server's stages count.
 * @param {any} status @param {any} received @param {boolean} starved whether far fewer frames are shown than arrive
 * @returns {{stage: string | null, head: string, text: string}} */
export function explain(status, received, starved) {
  const times = stageTimes(status, received);
  if (!times.some(([name]) => SERVER_STAGES.includes(name))) return { stage: null, head: "No numbers yet.", text: "" };
  const onTime = status.on_time_ratio;
  const late = known(onTime) && onTime < 0.98;
  const [stage, cost] = longest(late ? times.filter(([name]) => SERVER_STAGES.includes(name)) : times);
  const part = `${STAGE_WORDS[stage]}, ${ms(cost)} ms`;
  if (late) {
    return { stage, head: `${Math.round((1 - onTime) * 100)} % of frames come late.`, text: `Slowest part: ${part}: ${blame(stage, status)}.` };
  }
  if (starved) {
    return { stage, head: "Frames arrive but are not all shown.", text: "This device or its network cannot keep up; the server is on time." };
  }
  const { lost_ratio: lost } = received ?? {};
  if (known(lost) && lost > 0.02) {
    return { stage: "network", head: `The network loses ${Math.round(lost * 100)} % of the packets.`, text: "The picture may be coarse or jump. A cable or a nearer access point helps." };
  }
  if (status.quality && status.quality !== "full") {
    return { stage, head: `Fewer steps for now: ${status.quality}.`, text: `Because ${others(status) ?? "all of them do not fit at the moment"}. The picture stays on time and gets its steps back by itself.` };
  }
  return { stage, head: "On the beat.", text: `The longest part of a frame's way is ${part}.` };
}
