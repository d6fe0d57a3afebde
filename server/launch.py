"""Resolves settings into what the processes need: engine launch, data folder."""

import logging
import os

from onbeat.server.config import Settings, SettingsError, resolve_threads
from onbeat.server.engine.launch import EngineLaunch

log = logging.getLogger(__name__)


def launch_of(settings: Settings) -> EngineLaunch:
    """The engine's part of the settings, with "auto" resolved and logged."""
    compute, decode = resolve_threads(settings)
    launch = EngineLaunch(
        model=settings.model,
        weights=str(settings.weights) if settings.weights else None,
        policy=settings.policy,
        compute_threads=compute,
        decode_threads=decode,
        headroom=settings.headroom,
        max_rows=settings.max_rows,
        max_streams=settings.max_sessions + settings.max_jobs_running,
        pages=settings.pages,
    )
    log.info("engine: %s", launch)
    return launch


def prepare_data_dir(settings: Settings) -> None:
    """Makes the data folder. Raises SettingsError if it cannot be written."""
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"data_dir: {settings.data_dir} cannot be made ({error.strerror})"
        ) from error
    if not os.access(settings.data_dir, os.W_OK | os.X_OK):
        raise SettingsError(f"data_dir: {settings.data_dir} cannot be written to")
