"""GStreamer's webrtcbin as a WHEP player or a WHIP publisher. One JSON line last.

`python3 gst_client.py {watch,publish} URL SECONDS KEY`, run by a Python that has PyGObject and
GStreamer 1.22 or newer with the plugins base, good, bad and nice. It imports nothing of ours:
`webrtcbin` makes the offer, gathers, plays or sends; only the POST is written here. Watching, it
tells pictures and sounds decoded and the last picture's size; both tell how the connection ended.
"""

import json
import sys
import urllib.error
import urllib.request
from typing import Any

import gi  # type: ignore[import-not-found]

gi.require_version("Gst", "1.0")
gi.require_version("GstWebRTC", "1.0")
gi.require_version("GstSdp", "1.0")
from gi.repository import (  # type: ignore[import-not-found]  # noqa: E402
    GLib,
    Gst,
    GstSdp,
    GstWebRTC,
)

PUBLISH = (
    "webrtcbin name=peer "
    "videotestsrc is-live=true pattern=red ! video/x-raw,width=256,height=256,framerate=20/1 ! "
    "videoconvert ! vp8enc deadline=1 keyframe-max-dist=40 ! rtpvp8pay ! "
    "application/x-rtp,media=video,encoding-name=VP8,payload=96 ! peer. "
    "audiotestsrc is-live=true ! audioconvert ! audioresample ! opusenc ! rtpopuspay ! "
    "application/x-rtp,media=audio,encoding-name=OPUS,payload=97 ! peer."
)
ENOUGH = 50
"""Pictures, and sounds, after which a player has seen enough."""
CAPS = {
    "video": "application/x-rtp,media=video,encoding-name=VP8,payload=96,clock-rate=90000",
    "audio": "application/x-rtp,media=audio,encoding-name=OPUS,payload=97,clock-rate=48000",
}
DECODE = {
    "video": "rtpvp8depay ! vp8dec ! fakesink name=end sync=false signal-handoffs=true",
    "audio": "rtpopusdepay ! opusdec ! fakesink name=end sync=false signal-handoffs=true",
}


class Client:
    """One connection. `run` plays or sends for some seconds and tells what came of it."""

    def __init__(self, kind: str, url: str, seconds: float, key: str) -> None:
        self.url, self.seconds, self.key = url, seconds, key
        self.found: dict[str, Any] = {"video": 0, "audio": 0, "size": None, "status": None}
        self.loop = GLib.MainLoop()
        self.pipe = Gst.parse_launch(PUBLISH) if kind == "publish" else Gst.Pipeline()
        if kind == "watch":
            self.pipe.add(Gst.ElementFactory.make("webrtcbin", "peer"))
        self.peer = self.pipe.get_by_name("peer")
        self.peer.set_property("bundle-policy", GstWebRTC.WebRTCBundlePolicy.MAX_BUNDLE)
        self.peer.connect("pad-added", self.pad_added)
        self.peer.connect("notify::ice-gathering-state", self.gathered)
        if kind == "watch":
            for media in ("video", "audio"):
                direction = GstWebRTC.WebRTCRTPTransceiverDirection.RECVONLY
                self.peer.emit("add-transceiver", direction, Gst.Caps.from_string(CAPS[media]))
        for number in range(2 if kind == "publish" else 0):
            way = self.peer.emit("get-transceiver", number)
            way.set_property("direction", GstWebRTC.WebRTCRTPTransceiverDirection.SENDONLY)
        self.peer.connect("on-negotiation-needed", self.offer)

    def run(self) -> dict[str, Any]:
        self.pipe.set_state(Gst.State.PLAYING)
        GLib.timeout_add(int(1000 * self.seconds), self.loop.quit)
        self.loop.run()
        self.found["state"] = self.peer.get_property("connection-state").value_nick
        self.pipe.set_state(Gst.State.NULL)
        return self.found

    def offer(self, _peer: Any) -> None:
        self.peer.emit("create-offer", None, Gst.Promise.new_with_change_func(self.offered, None))

    def offered(self, promise: Any, _data: Any) -> None:
        reply = promise.get_reply()  # kept: the offer lies in it
        made = reply.get_value("offer")
        self.peer.emit("set-local-description", made, Gst.Promise.new())

    def gathered(self, peer: Any, _spec: Any) -> None:
        state = peer.get_property("ice-gathering-state")
        if state == GstWebRTC.WebRTCICEGatheringState.COMPLETE:
            GLib.idle_add(self.post)

    def post(self) -> bool:
        sdp = self.peer.get_property("local-description").sdp.as_text()
        headers = {"Content-Type": "application/sdp", "Authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(self.url, sdp.encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                self.found["status"], text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            self.found["status"], self.found["error"] = error.code, error.read().decode()
            self.loop.quit()
            return False
        _, message = GstSdp.SDPMessage.new_from_text(text)
        kind = GstWebRTC.WebRTCSDPType.ANSWER
        description = GstWebRTC.WebRTCSessionDescription.new(kind, message)
        self.peer.emit("set-remote-description", description, Gst.Promise.new())
        return False

    def pad_added(self, _peer: Any, pad: Any) -> None:
        if pad.get_direction() != Gst.PadDirection.SRC:
            return
        media = pad.get_current_caps().get_structure(0).get_string("media")
        decoder = Gst.parse_bin_from_description(DECODE[media], True)
        end = decoder.get_by_name("end")
        end.connect("handoff", self.decoded, media)
        self.pipe.add(decoder)
        decoder.sync_state_with_parent()
        pad.link(decoder.get_static_pad("sink"))

    def decoded(self, _sink: Any, _buffer: Any, pad: Any, media: str) -> None:
        self.found[media] += 1
        if self.found["video"] >= ENOUGH and self.found["audio"] >= ENOUGH:
            self.loop.quit()
        if media == "video":
            caps = pad.get_current_caps().get_structure(0)
            self.found["size"] = [caps.get_int("width")[1], caps.get_int("height")[1]]


if __name__ == "__main__":
    Gst.init(None)
    print(json.dumps(Client(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]).run()))
