"""The default `EngineClient`: the engine in its own process, restarted when it dies or hangs.

Open live streams go on from their snapshot (the latents of the window, which the client keeps as
chunks pass by); job streams end with reason "engine_lost" and are the job worker's to start again.
"""

import queue
import shutil
import threading
import time
from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import zmq

from onbeat.server.engine.client import ChunkPayload
from onbeat.server.engine.input_store import picture_bytes
from onbeat.server.engine.launch import (
    CANNOT_START,
    INPUT_SLOTS,
    Child,
    EngineLaunch,
    end_child,
    ended_why,
    make_folder,
    start_child,
)
from onbeat.server.engine.messages import (
    Beat,
    ChunkReady,
    Command,
    EngineDown,
    EngineReady,
    Event,
    InputPicture,
    InputRead,
    ReleaseSlot,
    Shutdown,
)
from onbeat.server.engine.registry import StreamRegistry
from onbeat.server.engine.ring import Ring, RingSlots
from onbeat.server.engine.watchdog import Watchdog

POLL_SECONDS = 0.05
START_SECONDS = 120.0
MAX_CRASHES = 5
CRASH_WINDOW_SECONDS = 60.0


class EngineProcess:
    """Starts, watches and replaces one engine process. See `EngineClient` for the calls."""

    def __init__(self, launch: EngineLaunch) -> None:
        self._launch = launch
        self._lock = threading.Lock()
        self._local: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._payloads: dict[tuple[str, int], ChunkPayload] = {}
        self._registry = StreamRegistry()
        self._crashes: deque[float] = deque(maxlen=MAX_CRASHES)
        self._decoder = msgspec.msgpack.Decoder(Event)
        self._encoder = msgspec.msgpack.Encoder()
        self._child: Child | None = None
        self._ring: Ring | None = None
        self._inputs: RingSlots | None = None
        self._reading = threading.Lock()
        self._closed = False
        self.restarts = 0

    # ---- EngineClient --------------------------------------------------------------------------

    def start(self) -> None:
        with self._lock:
            assert self._child is None, "started twice"
            self._spawn()

    def send(self, command: Command) -> None:
        with self._lock:
            if self._closed:
                return
            self._registry.note(command)
            if self._ring is not None:
                self._push(command)

    def feed(self, streams: Sequence[str], picture: npt.NDArray[np.uint8], at: float) -> bool:
        with self._lock:
            place = self._inputs.acquire() if self._inputs is not None else None
            if place is None or self._closed:
                return False
            slot, data = place
            data[:] = picture.reshape(-1).data
            data.release()
            self._push(InputPicture(streams=list(streams), slot=slot, at=at))
        return True

    @property
    def inputs_on_their_way(self) -> int:
        """Slots of the ring of pictures that the engine has not read yet."""
        return self._inputs.used if self._inputs is not None else 0

    def receive(self, timeout: float) -> Event | None:
        deadline = time.monotonic() + timeout
        while not self._closed:
            left = deadline - time.monotonic()
            with self._reading:
                event = None if self._closed else self._next(min(POLL_SECONDS, left))
            if event is not None or left <= 0:
                return event
        return None

    def take(self, event: ChunkReady) -> ChunkPayload:
        return self._payloads.pop((event.stream_id, event.chunk))

    def close(self) -> None:
        with self._lock:
            running, self._closed = self._child is not None and not self._closed, True
            if running:
                self._push(Shutdown())
        if running:
            with self._reading, self._lock:
                self._end(grace=3.0)
                self._payloads.clear()

    # ---- events --------------------------------------------------------------------------------

    def _next(self, timeout: float) -> Event | None:
        """The next event of the engine or of its supervision within `timeout` seconds."""
        if not self._local.empty():
            return self._local.get()
        if self._child is None:  # given up: nothing will come any more
            time.sleep(max(0.0, timeout))
            return None
        if self._events.poll(max(0, int(1000 * timeout))):
            return self._seen(self._decoder.decode(self._events.recv()))
        self._watchdog.looked(time.monotonic())
        self._watch()
        return None

    def _seen(self, event: Event) -> Event | None:
        """Keeps the books; None for what ends here, and a chunk of a stream that was closed."""
        if isinstance(event, Beat):
            self._watchdog.beat(event.cpu, time.monotonic())
            self._watch()
            return None
        if not isinstance(event, InputRead):  # its loop has no part in that
            self._watchdog.heard(time.monotonic())
        match event:
            case EngineReady():
                self._attach(event)
            case ChunkReady():
                return event if self._copy_out(event) else None
            case InputRead():
                if self._inputs is not None:
                    self._inputs.release(event.slot)
                return None
            case _:
                with self._lock:
                    self._registry.observe(event)
        return event

    def _attach(self, event: EngineReady) -> None:
        """The engine is warm: map its ring, hand it every stream that should be running."""
        with self._lock:
            assert self._child is not None
            self._ring = Ring(
                self._child.ring_descriptor,
                slots=event.ring_slots,
                slot_bytes=event.ring_slot_bytes,
            )
            self._input_ring = Ring(
                self._child.input_descriptor,
                slots=INPUT_SLOTS,
                slot_bytes=picture_bytes(event.width, event.height),
            )
            self._inputs = RingSlots(self._input_ring)
            self._width = event.width
            self._registry.window_chunks = event.window_chunks
            self._registry.prompt_transition = event.prompt_transition
            self._launch = msgspec.structs.replace(self._launch, known=event.calibration)
            for command in self._registry.reopen():
                self._push(command)

    def _copy_out(self, event: ChunkReady) -> bool:
        """Copies pictures, sound and latents out of the ring and frees the slot at once.

        False if nobody wants the chunk any more.
        """
        assert self._ring is not None
        pixels = event.frames * event.frame_bytes
        sound = 2 * event.samples
        data = self._ring.read(event.slot, pixels + sound + event.latent_bytes)
        with self._lock:
            self._push(ReleaseSlot(slot=event.slot))
            if event.stream_id not in self._registry:
                return False
            latents = data[pixels + sound :]
            self._registry.delivered(event, latents)
        rows = event.frame_bytes // self._width
        self._payloads[(event.stream_id, event.chunk)] = ChunkPayload(
            frames=np.frombuffer(data, np.uint8, pixels).reshape(event.frames, rows, self._width),
            audio=np.frombuffer(data, np.int16, event.samples, offset=pixels),
            latents=latents,
        )
        return True

    # ---- supervision ---------------------------------------------------------------------------

    def _watch(self) -> None:
        """Replaces an engine that has ended, does not start, or has gone silent."""
        with self._lock:
            if self._closed or self._child is None:
                return
            reason = self._failure(self._child)
            if reason is not None:
                self._replace(reason)

    def _failure(self, child: Child) -> str | None:
        code = child.process.poll()
        if code is not None:
            return ended_why(child, code)
        if self._ring is None:
            silent = self._watchdog.silent
            return None if silent < START_SECONDS else f"it did not start in {silent:.0f} s"
        return self._watchdog.verdict()

    def _replace(self, reason: str) -> None:
        assert self._child is not None
        hopeless = self._crash_loop() or self._child.process.poll() == CANNOT_START
        self._local.put(EngineDown(reason=reason, restarting=not hopeless))
        self._end(grace=0.0)
        for event in self._registry.engine_lost(hopeless=hopeless):
            self._local.put(event)
        if not hopeless:
            self.restarts += 1
            self._spawn()

    def _crash_loop(self) -> bool:
        """Counts a crash; whether there were too many of late."""
        now = time.monotonic()
        self._crashes.append(now)
        full = len(self._crashes) == MAX_CRASHES
        return full and now - self._crashes[0] < CRASH_WINDOW_SECONDS

    def _spawn(self) -> None:
        self._context = zmq.Context()
        folder = make_folder()
        self._commands = self._context.socket(zmq.PUSH)
        self._events = self._context.socket(zmq.PULL)
        for socket in (self._commands, self._events):
            socket.set_hwm(0)
        # The sender connects: a bound one refuses what it is given before a peer is there.
        self._commands.connect(f"ipc://{folder}/commands")
        self._events.bind(f"ipc://{folder}/events")
        self._watchdog = Watchdog(time.monotonic())
        self._child = start_child(self._launch, folder)

    def _push(self, command: Command) -> None:
        """Queued without limit until the engine listens; lost with an engine that has died, whose
        streams the registry knows."""
        self._commands.send(self._encoder.encode(command), zmq.DONTWAIT)

    def _end(self, *, grace: float) -> None:
        assert self._child is not None
        child, self._child = self._child, None
        if self._ring is not None:
            self._ring.close()
            self._input_ring.close()
            self._ring = self._inputs = None
        end_child(child, grace=grace)
        self._context.destroy(linger=0)
        shutil.rmtree(child.folder, ignore_errors=True)
