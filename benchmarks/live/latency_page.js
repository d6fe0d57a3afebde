// A camera that draws the time, and a screen that reads it: what benchmarks/live/latency.py runs in a page.
// The time (ms, 16 bits) is drawn as 4 x 4 cells, black or white, and read back from the shown video; a picture of
// one grey is one that a strength of 1 has made. Not: any part of the product's page.
async ({ duplex, session, fps, width, height }) => {
  const SIDE = 4;
  const stage = Object.assign(document.createElement("canvas"), { width, height });
  const pen = stage.getContext("2d");
  const cell = [width / SIDE, height / SIDE];
  const draw = () => {
    const stamp = Math.round(performance.now()) & 0xffff;
    for (let bit = 0; bit < SIDE * SIDE; bit += 1) {
      pen.fillStyle = (stamp >> bit) & 1 ? "#fff" : "#000";
      pen.fillRect((bit % SIDE) * cell[0], Math.floor(bit / SIDE) * cell[1], cell[0], cell[1]);
    }
  };
  setInterval(draw, 1000 / fps);
  draw();
  const pc = new RTCPeerConnection({ iceServers: [] });
  const camera = stage.captureStream(fps);
  pc.addTransceiver(camera.getVideoTracks()[0], { direction: "sendrecv", streams: [camera] });
  const shown = new MediaStream();
  pc.addEventListener("track", (event) => shown.addTrack(event.track));
  await pc.setLocalDescription();
  await new Promise((done) => {
    if (pc.iceGatheringState === "complete") done();
    pc.addEventListener("icegatheringstatechange", () => pc.iceGatheringState === "complete" && done());
    setTimeout(done, 2000);
  });
  const headers = { "content-type": "application/sdp" };
  const reply = await fetch(duplex, { method: "POST", headers, body: pc.localDescription.sdp });
  if (reply.status !== 201) throw new Error(`${reply.status}: ${await reply.text()}`);
  await pc.setRemoteDescription({ type: "answer", sdp: await reply.text() });
  const video = Object.assign(document.createElement("video"), { muted: true, srcObject: shown });
  document.body.replaceChildren(video);
  video.play();
  const seen = { ages: [], controls: [], unread: 0, grey: false, changed: null };
  const screen = new OffscreenCanvas(SIDE * 8, SIDE * 8);
  const eye = screen.getContext("2d", { willReadFrequently: true });
  const look = (now, meta) => {
    eye.drawImage(video, 0, 0, SIDE * 8, SIDE * 8);
    const { data } = eye.getImageData(0, 0, SIDE * 8, SIDE * 8);
    let stamp = 0;
    let weakest = 255;
    for (let bit = 0; bit < SIDE * SIDE; bit += 1) {
      const x = (bit % SIDE) * 8 + 4;
      const y = Math.floor(bit / SIDE) * 8 + 4;
      const level = data[4 * (y * SIDE * 8 + x)];
      weakest = Math.min(weakest, Math.abs(level - 127));
      if (level > 127) stamp |= 1 << bit;
    }
    const at = Math.max(now, meta.expectedDisplayTime ?? now);
    const grey = weakest < 24;
    if (seen.changed && grey === seen.changed.grey) {
      seen.controls.push(at - seen.changed.asked);
      seen.changed = null;
    }
    seen.grey = grey;
    if (grey) seen.unread += 1;
    else seen.ages.push([at, (Math.round(at) - stamp) & 0xffff]);
    video.requestVideoFrameCallback(look);
  };
  video.requestVideoFrameCallback(look);
  globalThis.latency = {
    pc,
    take: () => {
      const taken = { ages: seen.ages, controls: seen.controls, unread: seen.unread, waits: !!seen.changed };
      seen.ages = [];
      seen.controls = [];
      return taken;
    },
    steer: async (strength, grey) => {
      seen.changed = { asked: performance.now(), grey };
      const body = JSON.stringify({ strength });
      const options = { method: "PATCH", headers: { "content-type": "application/json" }, body };
      const answer = await fetch(session, options);
      if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
    },
  };
}
