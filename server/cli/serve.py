"""`onbeat serve`: the front process (HTTP, WebRTC, jobs) with its engine process."""

import errno
import socket
import sys
import threading
import time
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from onbeat.server.cli.options import with_settings
from onbeat.server.config import Settings, SettingsError
from onbeat.server.logs import announce, set_up_logging
from onbeat.server.tracing import start_tracing

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Server


@with_settings
def serve(
    settings: Settings,
    open_browser: Annotated[
        bool, typer.Option("--open", help="open the preview page in a browser when ready")
    ] = False,
) -> None:
    """Serve the live preview, the API and the dashboard until Ctrl-C."""
    import uvicorn

    from onbeat.server.api.app import create_app
    from onbeat.server.api.memory import set_aside
    from onbeat.server.api.no_http import problem_protocol
    from onbeat.server.engine.process import EngineProcess
    from onbeat.server.jobs.places import open_artifacts
    from onbeat.server.launch import (
        check_database,
        check_model,
        launch_of,
        lock_data_dir,
        prepare_data_dir,
    )

    set_up_logging(settings.log_level, settings.log_format)
    end_tracing = start_tracing(settings.otlp_endpoint) if settings.otlp_endpoint else None
    check_model(settings)
    prepare_data_dir(settings)
    lock = lock_data_dir(settings)
    check_database(settings)
    open_artifacts(settings)  # a place that cannot be used is told before anything starts
    listener = _listen(settings)
    port = listener.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{port}/"
    launch = launch_of(settings)
    places = f"{url} (preview), {url}dashboard (latency); state in {settings.data_dir}"
    announce(places, settings.log_format)
    app = create_app(settings, EngineProcess(launch))
    if open_browser:
        threading.Timer(2.0, webbrowser.open, args=(url,)).start()
    config = uvicorn.Config(
        app,
        http=problem_protocol(),
        log_level=settings.log_level,
        log_config=None,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    threading.Thread(target=_end_if_hopeless, args=(app, server), daemon=True).start()
    set_aside()
    server.run(sockets=[listener])
    lock.close()
    if end_tracing is not None:
        end_tracing()
    if (reason := _never_ready(app)) is not None:
        given = f" (--weights {settings.weights})" if settings.weights else ""
        why = f"the engine could not start{given}: {reason}"
        announce(why, settings.log_format, to=sys.stderr)
        raise typer.Exit(1)


def _never_ready(app: "FastAPI") -> str | None:
    """Why the engine was given up before it was ever ready; None if it was not."""
    front = getattr(app.state, "front", None)
    if front is None or front.hub.state != "failed" or front.hub.ready is not None:
        return None
    return str(front.hub.reason)


def _end_if_hopeless(app: "FastAPI", server: "Server") -> None:
    """Ends a server whose engine cannot start, instead of serving pages that can never play."""
    while _never_ready(app) is None:
        time.sleep(0.2)
    server.should_exit = True


def _listen(settings: Settings) -> socket.socket:
    """A bound socket, so that a taken port is one clear line before anything starts."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except (OSError, UnicodeError) as error:
        listener.close()
        raise _not_bound(settings, error) from error
    return listener


def _not_bound(settings: Settings, error: Exception) -> SettingsError:
    """Names the flag that is to blame."""
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return SettingsError(
            f"host: {settings.host!r} is no address and no known name; "
            "allowed: an address of this machine, 0.0.0.0 or :: for all"
        )
    assert isinstance(error, OSError)
    if error.errno == errno.EADDRNOTAVAIL:
        return SettingsError(
            f"host: {settings.host} is not an address of this machine; "
            "choose another with --host, 0.0.0.0 or :: for all"
        )
    return SettingsError(
        f"port: {settings.port} on {settings.host} cannot be used ({error.strerror}); "
        "choose another with --port, or 0 for a free one"
    )
