// node werift.mjs URL KEY CODEC: the drafts' WHEP client over werift's peer connection.
// Prints one JSON line: packets of both kinds, the codec, whether a key frame came, the HTTP.

import {
  RTCPeerConnection,
  useH264,
  useOPUS,
  useVP8,
} from "werift";
import { WHEPClient } from "./node_modules/whip-whep/whep.js";

const LIMIT_MS = 60_000;
const [url, key, codec] = process.argv.slice(2);
const statuses = [];
const plainFetch = globalThis.fetch;
globalThis.fetch = async (target, options = {}) => {
  const answer = await plainFetch(target, options);
  statuses.push([options.method ?? "GET", answer.status]);
  return answer;
};
globalThis.EventSource = class {
  close() {}
};

const pc = new RTCPeerConnection({
  codecs: { audio: [useOPUS()], video: [codec === "H264" ? useH264() : useVP8()] },
});
const makeOffer = pc.createOffer.bind(pc);
pc.createOffer = async (options) => {
  const { type, sdp } = await makeOffer(options); // the client writes to it, as to a browser's
  return { type, sdp };
};
const counts = { audio: 0, video: 0 };
let keyframe = false;
for (const kind of ["audio", "video"]) {
  pc.addTransceiver(kind, { direction: "recvonly" }).onTrack.subscribe((track) => {
    track.onReceiveRtp.subscribe((packet) => {
      counts[kind] += 1;
      if (kind === "video") keyframe ||= startsPicture(packet.payload);
    });
  });
}

// VP8: the P bit behind a descriptor with its extensions; H.264: SPS, IDR or an aggregate of them.
function startsPicture(payload) {
  if (codec === "H264") {
    const type = payload[0] & 0x1f;
    return [5, 7, 24].includes(type) || (type === 28 && (payload[1] & 0x1f) === 5);
  }
  let at = 1;
  if (payload[0] & 0x80) {
    const more = payload[1];
    at += 1;
    if (more & 0x80) at += payload[at] & 0x80 ? 2 : 1;
    if (more & 0x40) at += 1;
    if (more & 0x30) at += 1;
  }
  return (payload[0] & 0x10) !== 0 && (payload[at] & 1) === 0;
}

const client = new WHEPClient();
await client.view(pc, url, key);
const end = Date.now() + LIMIT_MS;
while ((counts.audio <= 20 || counts.video <= 20 || !keyframe) && Date.now() < end) {
  await new Promise((resolve) => setTimeout(resolve, 50));
}
const agreed = pc.getTransceivers()[1].codecs[0].mimeType;
await client.stop();
console.log(JSON.stringify({ ...counts, keyframe, codec: agreed, statuses }));
process.exit(0);
