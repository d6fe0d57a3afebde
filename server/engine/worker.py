"""The engine process: `python -m onbeat.server.engine.worker JSON`. Started by process.py only.

Reads commands from one ZMQ socket, writes events to another and chunks to the shared ring. It ends
when told to, or when the pipe from its parent closes, so that no engine outlives its server.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import zmq

from onbeat.server.engine.input_store import picture_bytes
from onbeat.server.engine.launch import CANNOT_START, INPUT_SLOTS, WorkerArguments
from onbeat.server.engine.messages import (
    Beat,
    Command,
    Event,
    InputPicture,
    InputRead,
    InputSound,
    ReleaseSlot,
    Shutdown,
)
from onbeat.server.engine.ring import Ring, RingSlots
from onbeat.server.engine.watchdog import BEAT_SECONDS
from onbeat.server.logs import announce, set_up_logging

if TYPE_CHECKING:  # it loads torch, which takes its time
    from onbeat.server.engine.engine import Engine


def main() -> None:
    arguments = msgspec.json.decode(sys.argv[1], type=WorkerArguments)
    set_up_logging(arguments.launch.log_level, arguments.launch.log_format)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(
        target=_exit_with_parent, args=(arguments.parent_descriptor,), daemon=True
    ).start()
    run(arguments)


def run(arguments: WorkerArguments) -> None:
    """Builds the engine and runs it until a Shutdown."""
    from onbeat.server.engine.build import build_engine

    context = zmq.Context()
    events = context.socket(zmq.PUSH)
    events.set_hwm(0)
    events.connect(arguments.events)

    def make_slots(slot_bytes: int) -> RingSlots:
        slots = arguments.launch.ring_slots
        return RingSlots(Ring(arguments.ring_descriptor, slots=slots, slot_bytes=slot_bytes))

    emit = _emitter(events)
    try:
        engine, slots = build_engine(arguments.launch, make_slots, emit)
    except (ValueError, OSError) as error:
        announce(str(error), arguments.launch.log_format, who="onbeat engine", to=sys.stderr)
        Path(arguments.reason).write_text(str(error))
        sys.exit(CANNOT_START)
    signal.signal(signal.SIGTERM, lambda *_: engine.submit(Shutdown()))
    threading.Thread(
        target=_read_commands,
        args=(context, arguments.commands, Receiver(engine, slots, arguments, emit)),
        daemon=True,
    ).start()
    end_beating = start_beating(emit)
    engine.run()
    end_beating()
    events.close(linger=1000)
    context.term()  # the thread that reads commands closes its own socket


class Receiver:
    """Where commands go: pictures and sounds to their tracks, with no need of a tick; slots back to
    their ring; all else to the engine."""

    def __init__(
        self,
        engine: "Engine",
        slots: RingSlots,
        arguments: WorkerArguments,
        emit: Callable[[Event], None],
    ) -> None:
        self._engine, self._slots, self._emit = engine, slots, emit
        size = picture_bytes(engine.spec.width, engine.spec.height)
        self._ring = Ring(arguments.input_descriptor, slots=INPUT_SLOTS, slot_bytes=size)

    def take(self, command: Command) -> None:
        match command:
            case ReleaseSlot():
                self._slots.release(command.slot)
            case InputPicture():
                self._engine.roster.inputs.see(command, self._ring.slot(command.slot))
                self._emit(InputRead(slot=command.slot))
            case InputSound():
                self._engine.roster.inputs.hear(command)
            case _:
                self._engine.submit(command)


def _emitter(socket: "zmq.Socket[bytes]") -> Callable[[Event], None]:
    encoder = msgspec.msgpack.Encoder()
    lock = threading.Lock()

    def emit(event: Event) -> None:
        with lock:
            socket.send(encoder.encode(event))

    return emit


def start_beating(emit: Callable[[Event], None]) -> Callable[[], None]:
    """Tells once a second, beside the loop, how much this process has computed (watchdog.py);
    call what it returns before the events close."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_SECONDS):
            emit(Beat(cpu=time.process_time()))

    def end() -> None:
        over.set()
        thread.join()

    thread = threading.Thread(target=beat, name="beat", daemon=True)
    thread.start()
    return end


def _read_commands(
    context: "zmq.Context[zmq.Socket[bytes]]",
    address: str,
    receiver: Receiver,
) -> None:
    socket = context.socket(zmq.PULL)
    socket.set_hwm(0)
    socket.bind(address)
    decoder = msgspec.msgpack.Decoder(Command)
    while True:
        try:
            command = decoder.decode(socket.recv())
        except zmq.ContextTerminated:
            socket.close(linger=0)
            return
        receiver.take(command)


def _exit_with_parent(descriptor: int) -> None:
    """Blocks until the parent's end of the pipe closes, then ends this process."""
    while os.read(descriptor, 1):
        pass
    time.sleep(0.5)  # a Shutdown on its way gets its chance to end things in order
    os._exit(0)


if __name__ == "__main__":
    main()
