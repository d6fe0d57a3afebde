// @ts-check
/** One WebRTC connection to the server: media in, and a data channel for control. Not: what is said on it. */
import { forget, offer } from "../shared/api.js";

const GATHER_MS = 250;
const CONNECT_MS = 15000;
const START_MS = 4000;
const DISCONNECT_GRACE_MS = 3000;
const GOODBYE_MS = 1000;

/** Media cannot get to the server and back, though it answers. */
export class NoPath extends Error {
  /** @param {string} why */
  constructor(why) {
    super(`No network path to the server was found: ${why}`);
    this.why = why;
  }
}

/** @param {RTCPeerConnection} pc resolves when all local candidates are known, or soon after */
function gathered(pc) {
  return new Promise((resolve) => {
    if (pc.iceGatheringState === "complete") resolve(undefined);
    pc.addEventListener("icegatheringstatechange", () => pc.iceGatheringState === "complete" && resolve(undefined));
    setTimeout(resolve, GATHER_MS);
  });
}

/** Events: "message" (detail = object), "open" (channel), "lost" (detail = reason in words). */
export class Peer extends EventTarget {
  /**
   * @param {boolean} withControl whether to ask for a data channel @param {RTCIceServer[]} iceServers relays; their
   * candidates need not be awaited: the server learns of them by the checks that come through @param {MediaStream | null} [source] what to send
   */
  constructor(withControl, iceServers, source = null) {
    super();
    this.pc = new RTCPeerConnection({ iceServers });
    this.stream = new MediaStream();
    this.closed = false;
    /** Why it was lost. @type {string | null} */
    this.gone = null;
    /** @type {string | null} */
    this.location = null;
    const picture = source?.getVideoTracks()[0];
    /** @type {RTCRtpTransceiverInit} */
    const both = { direction: picture ? "sendrecv" : "recvonly", ...(source && { streams: [source] }) };
    this.picture = this.pc.addTransceiver(picture ?? "video", both);
    this.sound = this.pc.addTransceiver(source?.getAudioTracks()[0] ?? "audio", both);
    this.pc.addEventListener("track", (event) => this.stream.addTrack(event.track));
    this.pc.addEventListener("connectionstatechange", () => this.#watch());
    this.channel = withControl ? this.pc.createDataChannel("control", { ordered: true }) : null;
    this.channel?.addEventListener("open", () => this.dispatchEvent(new Event("open")));
    this.channel?.addEventListener("close", () => this.lose("The server closed the connection."));
    this.channel?.addEventListener("message", (event) => this.#read(event.data));
  }

  /** Offers itself at `url`; resolves once media can flow. Throws ApiError, NoPath, or Error with a reason in words. @param {string} url */
  async connect(url) {
    await this.pc.setLocalDescription(await this.pc.createOffer());
    await gathered(this.pc);
    const answer = await offer(url, this.pc.localDescription?.sdp ?? "");
    this.location = answer.location;
    await this.pc.setRemoteDescription({ type: "answer", sdp: answer.sdp });
    await this.#connected();
  }

  /** Browsers leave loopback out: without any other address there is nothing to try, and they wait for ever. */
  #connected() {
    return new Promise((resolve, reject) => {
      const check = () => {
        const state = this.pc.connectionState;
        if (this.gone || state === "closed") reject(new Error(this.gone ?? "The connection was closed."));
        if (state === "connected") resolve(undefined);
        if (state === "failed") reject(new NoPath("a firewall may block UDP."));
      };
      const idle = () => this.pc.iceConnectionState === "new" && reject(new NoPath("this browser has no address to send from. Connect this device to any network; a virtual one, as Docker has, will do."));
      this.pc.addEventListener("connectionstatechange", check);
      this.addEventListener("lost", check);
      setTimeout(idle, START_MS);
      setTimeout(() => reject(new NoPath("nothing came through within 15 seconds. A firewall may block UDP.")), CONNECT_MS);
      check();
    });
  }

  #watch() {
    if (this.pc.connectionState === "failed") this.lose("The network path to the server broke.");
    if (this.pc.connectionState === "closed") this.lose("The server closed the connection.");
    if (this.pc.connectionState !== "disconnected") return;
    setTimeout(() => this.pc.connectionState === "disconnected" && this.lose("The server has gone silent."), DISCONNECT_GRACE_MS);
  }

  /** @param {any} data */
  #read(data) {
    if (typeof data !== "string") return;
    this.dispatchEvent(new CustomEvent("message", { detail: JSON.parse(data) }));
  }

  /** Sends another picture, and sound or none, on the same connection. @param {MediaStream} source */
  replace(source) {
    this.sound.sender.replaceTrack(source.getAudioTracks()[0] ?? null);
    return this.picture.sender.replaceTrack(source.getVideoTracks()[0]);
  }

  /** @param {object} message @returns {boolean} whether it was sent */
  send(message) {
    if (this.channel?.readyState !== "open") return false;
    this.channel.send(JSON.stringify(message));
    return true;
  }

  /** @param {string} reason */
  lose(reason) {
    this.gone ??= reason;
    if (!this.closed) this.dispatchEvent(new CustomEvent("lost", { detail: reason }));
  }

  /** Ends it on both sides. */
  close() {
    if (this.closed) return;
    this.closed = true;
    if (!this.location) return this.pc.close();
    setTimeout(() => this.pc.close(), GOODBYE_MS); // whoever has gone already cannot say goodbye
    forget(this.location).finally(() => this.pc.close());
  }
}
