"""Resolves settings into what the processes need: engine launch, data folder."""

import fcntl
import logging
import os
from typing import IO

from onbeat.models.registry import model_names
from onbeat.server.config import Settings, SettingsError, resolve_threads
from onbeat.server.engine.launch import EngineLaunch

log = logging.getLogger(__name__)
CALIBRATIONS = "calibration"


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
        max_active=settings.max_active_sessions,
        plan_ahead=settings.plan_ahead,
        split_rows=settings.split_rows,
        pages=settings.pages,
        host_memory=settings.host_memory_mib << 20,
        offload_after_seconds=settings.offload_after_seconds,
        calibration_folder=str(settings.data_dir / CALIBRATIONS),
    )
    log.info("engine: %s", launch)
    return launch


def check_model(settings: Settings) -> None:
    """Raises SettingsError for a model that is not known or weights that are not there."""
    if settings.model not in model_names():
        raise SettingsError(f"model: {settings.model!r}; allowed: {', '.join(model_names())}")
    if settings.weights is not None and not settings.weights.is_file():
        raise SettingsError(f"weights: {settings.weights} is not a file")


def lock_data_dir(settings: Settings) -> IO[str]:
    """Takes the data folder for this process until the returned file is closed or the process ends.

    Raises SettingsError naming the holder if another server has it.
    """
    lock = (settings.data_dir / "lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise SettingsError(
            f"data_dir: {settings.data_dir} is used by another server (process {holder}); "
            "choose another with --data-dir"
        ) from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


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
