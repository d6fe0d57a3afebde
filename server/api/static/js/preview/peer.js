// @ts-check
/** One WebRTC connection to the server: media in, and a data channel for control. Not: what is said on it. */
import { forget, offer } from "../shared/api.js";

const GATHER_MS = 250;
const CONNECT_MS = 15000;
const DISCONNECT_GRACE_MS = 3000;
const GOODBYE_MS = 1000;

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

  /** Offers itself at `url`; resolves once media can flow. Throws ApiError, or Error with a reason in words. @param {string} url */
  async connect(url) {
    await this.pc.setLocalDescription(await this.pc.createOffer());
    await gathered(this.pc);
    const answer = await offer(url, this.pc.localDescription?.sdp ?? "");
    this.location = answer.location;
    await this.pc.setRemoteDescription({ type: "answer", sdp: answer.sdp });
    await this.#connected();
  }

  #connected() {
    return new Promise((resolve, reject) => {
      const check = () => {
        const state = this.pc.connectionState;
        if (state === "connected") resolve(undefined);
        if (state === "failed" || state === "closed") reject(new Error("No network path to the server was found. A firewall may block UDP."));
      };
      this.pc.addEventListener("connectionstatechange", check);
      setTimeout(() => reject(new Error("The connection was not made within 15 seconds. A firewall may block UDP.")), CONNECT_MS);
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
