// @ts-check
/** The viewer's half of the latency record, from getStats. Units: ms, frames, kbit/s; null = not known. */

/** @typedef {{at: number, frames_decoded: number | null, frames_dropped: number | null, freeze_count: number | null,
 *  freezes_ms: number | null, av_skew_ms: number | null, jitter_buffer_ms: number | null, audio_jitter_buffer_ms: number | null, rtt_ms: number | null,
 *  packets: number, packets_lost: number | null, lost_ratio: number | null, kbps: number | null, raw: any}} Received */

/** @param {any} now @param {any} before @param {string} total @param {string} count mean of the interval, in ms */
function interval(now, before, total, count) {
  if (!now || now[count] === undefined || !now[count]) return null;
  const n = now[count] - (before?.[count] ?? 0);
  return n > 0 ? (1000 * (now[total] - (before?.[total] ?? 0))) / n : null;
}

/** @param {RTCStatsReport} report */
function pick(report) {
  /** @type {any} */
  const found = {};
  for (const entry of report.values()) {
    if (entry.type === "inbound-rtp") found[entry.kind] = entry;
    if (entry.type === "candidate-pair" && entry.nominated && entry.state === "succeeded") found.pair = entry;
  }
  return found;
}

/** @param {any} v @param {any} before */
function rate(v, before) {
  if (!v || !before || v.timestamp <= before.timestamp) return null;
  return (8 * (v.bytesReceived - before.bytesReceived)) / (v.timestamp - before.timestamp);
}

/** Share of the packets since the last report that were lost and not sent again. @param {any} v @param {any} before */
function loss(v, before) {
  if (!v || !before) return null;
  const [lost, received] = [v.packetsLost - before.packetsLost, v.packetsReceived - before.packetsReceived];
  return lost + received > 0 ? Math.max(lost, 0) / (Math.max(lost, 0) + received) : null;
}

/** How far the picture is ahead of the sound, ms. @param {any} video @param {any} audio */
function skew(video, audio) {
  const [picture, sound] = [video?.estimatedPlayoutTimestamp, audio?.estimatedPlayoutTimestamp];
  return picture && sound ? picture - sound : null;
}

/** @param {RTCPeerConnection} pc @param {Received | null} previous @returns {Promise<Received>} */
export async function readReceiver(pc, previous) {
  const raw = pick(await pc.getStats());
  const { video, audio, pair } = raw;
  return {
    at: performance.now(),
    frames_decoded: video?.framesDecoded ?? null,
    frames_dropped: video?.framesDropped ?? null,
    freeze_count: video?.freezeCount ?? null,
    freezes_ms: video?.totalFreezesDuration !== undefined ? 1000 * video.totalFreezesDuration : null,
    av_skew_ms: skew(video, audio),
    jitter_buffer_ms: interval(video, previous?.raw.video, "jitterBufferDelay", "jitterBufferEmittedCount"),
    audio_jitter_buffer_ms: interval(audio, previous?.raw.audio, "jitterBufferDelay", "jitterBufferEmittedCount"),
    rtt_ms: pair?.currentRoundTripTime !== undefined ? pair.currentRoundTripTime * 1000 : null,
    packets: (video?.packetsReceived ?? 0) + (audio?.packetsReceived ?? 0),
    packets_lost: video?.packetsLost ?? null,
    lost_ratio: loss(video, previous?.raw.video),
    kbps: rate(video, previous?.raw.video),
    raw,
  };
}
