"""All renditions of one codec of one broadcast, and who gets which of them.

Encoders are made when the first member needs them and go with the last. It hands shots to them and
pictures to members, and moves viewers between renditions; it knows no clock ticks and no sound.
"""

from collections.abc import Callable, Sequence

from onbeat.webrtc.encoders import EncoderPool
from onbeat.webrtc.made import Made, Member
from onbeat.webrtc.rate import LinkRate
from onbeat.webrtc.renditions import Rendition, encode_rate, level_for
from onbeat.webrtc.shared import SharedVideo
from onbeat.webrtc.tally import Ticket


class CodecVideo:
    """`delivered(made, ticket, reached)` after each picture; reached: whether anybody got it."""

    def __init__(
        self,
        codec: str,
        ladder: Sequence[Rendition],
        fps: int,
        pool: EncoderPool,
        delivered: Callable[[Made, Ticket | None, bool], None],
        clock: Callable[[], float],
    ) -> None:
        self.codec = codec
        self.moved = self.keyframe_requests = 0
        self._ladder, self._fps, self._pool = ladder, fps, pool
        self._delivered, self._clock = delivered, clock
        self._members: list[Member] = []
        self._links: dict[str, LinkRate] = {}
        self._shared: dict[int, SharedVideo] = {}

    # ---- who gets it -------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        self._members.append(member)
        self._links[member.id] = LinkRate(self._ladder[0].nominal)
        self._settle()

    def remove(self, member: Member) -> None:
        self._members.remove(member)
        self._links.pop(member.id)
        self._settle()

    def start(self, member: Member) -> None:
        """It can take packets now: a fresh keyframe and what followed it, or a new keyframe."""
        group = self._shared[member.wanted].group()
        for made in group:
            member.offer_video(made, self._clock())
        if not group:
            self.request_keyframe(member)

    def request_keyframe(self, member: Member) -> None:
        """It lost its picture (PLI, FIR, overflow) or has none yet."""
        self.keyframe_requests += 1
        self._shared[member.wanted].gate.request()

    # ---- how much it carries -----------------------------------------------------------------

    def estimate(self, member: Member, bits_per_second: int) -> None:
        """A receiver's estimate of its link (REMB)."""
        sent = self._shared[member.level].sent_rate()
        self._links[member.id].estimate(bits_per_second, sent, self._clock())
        self._settle()

    def lost(self, member: Member, fraction: float) -> None:
        """The share of packets that a receiver missed since its last report."""
        self._links[member.id].lost(fraction, self._clock())
        self._settle()

    def _settle(self) -> None:
        """Everybody on the rendition that fits, encoders for those that are needed, their rates."""
        for member in self._members:
            self._place(member)
        self._forget_left()
        for level, shared in self._shared.items():
            targets = [self._links[m.id].target for m in self._members if m.wanted == level]
            if targets:
                shared.bitrate = encode_rate(self._ladder[level], targets, shared.bitrate)

    def _place(self, member: Member) -> None:
        level = level_for(self._ladder, self._links[member.id].target, member.wanted)
        for each in {level, member.level}:
            if each not in self._shared:
                self._shared[each] = SharedVideo(
                    self.codec,
                    self._ladder[each],
                    self._fps,
                    self._pool,
                    self._deliver,
                    self._clock,
                )
        if level == member.wanted:
            return
        self.moved += 1
        member.wanted = level
        if member.connected and level != member.level:
            self._shared[level].gate.request()

    # ---- pictures ----------------------------------------------------------------------------

    def lanes(self) -> list[SharedVideo]:
        """The encoders whose pictures somebody can take now."""
        here = [member for member in self._members if member.connected]
        levels = {level for member in here for level in (member.level, member.wanted)}
        return [shared for level, shared in self._shared.items() if level in levels]

    @property
    def keyframe_due(self) -> bool:
        """Whether a keyframe is asked for that may be made now."""
        now = self._clock()
        return any(s.gate.wanted and not s.gate.closed(now) for s in self.lanes())

    def bitrates(self) -> dict[str, int]:
        """Bits per second asked of each encoder: "VP8", "VP8/1" and so on, best first."""
        names = {level: f"{self.codec}/{level}" if level else self.codec for level in self._shared}
        return {names[level]: self._shared[level].bitrate for level in sorted(self._shared)}

    def close(self) -> None:
        for shared in self._shared.values():
            shared.close()
        self._shared.clear()
        self._members.clear()

    def _deliver(self, made: Made, ticket: Ticket | None) -> None:
        now = self._clock()
        got = [member.offer_video(made, now) for member in self._members]
        self._delivered(made, ticket, any(got))
        if made.keyframe:
            self._forget_left()  # viewers move with keyframes

    def _forget_left(self) -> None:
        needed = {level for member in self._members for level in (member.level, member.wanted)}
        for level in [level for level in self._shared if level not in needed]:
            self._shared.pop(level).close()
