// Runs one client of somebody else against the server and says what came of it.
// The clients and the WebRTC are theirs; the pattern, the waiting and the counting are ours.

import { WHEPClient } from "./node_modules/whip-whep/whep.js";
import { WHIPClient } from "./node_modules/whip-whep/whip.js";
import { Pattern, readNumbers } from "./pattern.js";
import { load } from "./require.js";

const LIMIT_MS = 40_000;
const requests = [];
const plainFetch = globalThis.fetch.bind(globalThis);
globalThis.fetch = async (url, options = {}) => {
  const answer = await plainFetch(url, options);
  if (!String(url).endsWith("/seen")) requests.push([options.method ?? "GET", answer.status]);
  return answer;
};
// Listeners are there before the connection is: the state comes with the first bytes.
const told = [];
const PlainSource = globalThis.EventSource;
globalThis.EventSource = class extends PlainSource {
  constructor(...given) {
    super(...given);
    for (const name of ["active", "inactive", "viewercount"]) {
      this.addEventListener(name, ({ data }) => told.push([name, JSON.parse(data)]));
    }
  }
};
const peers = [];
const PlainPeer = globalThis.RTCPeerConnection;
globalThis.RTCPeerConnection = class extends PlainPeer {
  constructor(...given) {
    super(...given);
    peers.push(this);
  }
};

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(met, what) {
  const end = performance.now() + LIMIT_MS;
  for (;;) {
    const value = await met();
    if (value) return value;
    if (performance.now() > end) throw new Error(`not in time: ${what}`);
    await sleep(50);
  }
}

async function inbound(pc, kind) {
  for (const each of (await pc.getStats()).values()) {
    if (each.type === "inbound-rtp" && each.kind === kind) return each;
  }
  return null;
}

async function codecOf(pc, direction) {
  const stats = await pc.getStats();
  for (const each of stats.values()) {
    if (each.type === `${direction}-rtp` && each.kind === "video" && each.codecId) {
      return stats.get(each.codecId).mimeType;
    }
  }
  return null;
}

function prefer(transceiver, codec, capabilities) {
  if (!codec) return;
  const wanted = capabilities.codecs.filter((c) => c.mimeType === `video/${codec}`);
  const others = capabilities.codecs.filter((c) => c.mimeType === "video/rtx");
  transceiver.setCodecPreferences([...wanted, ...others]);
}

// ---- watching -------------------------------------------------------------------------------

async function whipWhepViewer({ url, key, codec }) {
  const pc = new RTCPeerConnection({ iceServers: [] });
  pc.addTransceiver("audio", { direction: "recvonly" });
  const video = pc.addTransceiver("video", { direction: "recvonly" });
  prefer(video, codec, RTCRtpReceiver.getCapabilities("video"));
  const stream = new MediaStream();
  pc.ontrack = ({ track }) => stream.addTrack(track);
  document.getElementById("video").srcObject = stream;
  const client = new WHEPClient();
  await client.view(pc, url, key);
  return {
    events: told,
    restart: () => client.restart(),
    stop: async () => {
      client.eventSource?.close();
      await client.stop();
    },
  };
}

async function eyevinnViewer({ url, key }) {
  const { WebRTCPlayer } = load("@eyevinn/webrtc-player");
  const video = document.getElementById("video");
  const player = new WebRTCPlayer({ video, type: "whep", iceServers: [] });
  await player.load(new URL(url), key);
  return { stop: () => player.unload() };
}

const viewers = { "whip-whep": whipWhepViewer, eyevinn: eyevinnViewer };

async function watch(options) {
  const video = document.getElementById("video");
  video.addEventListener("pause", () => video.play().catch(() => {}));
  const numbers = readNumbers(video, document.getElementById("canvas"));
  const client = await viewers[options.client](options);
  await until(() => numbers.length >= options.frames, `${options.frames} pictures`);
  if (options.restart) {
    await client.restart();
    const before = numbers.length;
    await until(() => numbers.length >= before + options.frames, "pictures after the restart");
  }
  if (options.events) await until(() => client.events.length >= 2, "events");
  const pc = peers.at(-1);
  const sound = await until(async () => {
    const found = await inbound(pc, "audio");
    return found && (found.totalAudioEnergy ?? 1) > 0 && found.packetsReceived > 20 ? found : null;
  }, "sound");
  const codec = await codecOf(pc, "inbound");
  const result = { numbers: [...numbers], packets: sound.packetsReceived, codec, events: client.events };
  await client.stop();
  return result;
}

// ---- publishing -----------------------------------------------------------------------------

async function whipWhepPublisher({ url, key, codec }, stream) {
  const pc = new RTCPeerConnection({ iceServers: [] });
  for (const track of stream.getTracks()) {
    const transceiver = pc.addTransceiver(track, { direction: "sendonly", streams: [stream] });
    if (track.kind === "video") {
      prefer(transceiver, codec, RTCRtpSender.getCapabilities("video"));
    }
  }
  const client = new WHIPClient();
  await client.publish(pc, url, key);
  return { restart: () => client.restart(), stop: () => client.stop() };
}

async function eyevinnPublisher({ url, key }, stream) {
  const { WHIPClient: Client } = load("@eyevinn/whip-web-client");
  const client = new Client({ endpoint: url, opts: { authkey: key, iceServers: [] } });
  await client.ingest(stream);
  return { stop: () => client.destroy() };
}

const publishers = { "whip-whep": whipWhepPublisher, eyevinn: eyevinnPublisher };

async function publish(options) {
  const pattern = new Pattern(document.getElementById("canvas"));
  const client = await publishers[options.client](options, await pattern.stream(options.fake));
  const session = new URL(options.url).pathname.split("/")[3];
  const seen = async () => (await (await fetch(`${options.stage}/seen`)).json())[session];
  const enough = async (count) => {
    const found = await seen();
    const heard = !options.sound || found.pitch !== null;
    return found.numbers.length >= count && heard ? found : null;
  };
  let found = await until(() => enough(options.frames), "pictures at the server");
  if (options.restart) {
    await client.restart();
    const before = found.frames;
    found = await until(async () => {
      const now = await seen();
      return now.frames > before + options.frames ? now : null;
    }, "pictures after the restart");
  }
  const codec = await codecOf(peers.at(-1), "outbound");
  await client.stop();
  await until(async () => (await seen()).events.length > 1, "the end at the server");
  return { seen: await seen(), codec };
}

// ---- what is run ----------------------------------------------------------------------------

globalThis.run = async (options) => {
  try {
    const result = await { watch, publish }[options.what](options);
    return { ...result, requests };
  } catch (error) {
    return { error: `${error}\n${error?.stack}`, requests };
  }
};

if (location.hash) {
  const options = JSON.parse(decodeURIComponent(location.hash.slice(1)));
  const body = JSON.stringify(await globalThis.run(options));
  await plainFetch("/result", { method: "POST", body });
}
globalThis.ready = true;
