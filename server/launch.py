"""Resolves settings into what the processes need: engine launch, data folder."""

import fcntl
import logging
import os
from pathlib import Path
from typing import IO

from sqlalchemy.exc import SQLAlchemyError

from onbeat.models.registry import model_names
from onbeat.server.config import Settings, SettingsError, resolve_threads
from onbeat.server.engine.launch import EngineLaunch
from onbeat.server.jobs.database import DatabaseError, open_database

log = logging.getLogger(__name__)
CALIBRATIONS = "calibration"
JOBS_FILE = "jobs.sqlite3"


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
        log_level=settings.log_level,
        log_format=settings.log_format,
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
        there = next((each for each in settings.data_dir.absolute().parents if each.is_dir()), "/")
        raise SettingsError(
            f"data_dir: {settings.data_dir} cannot be made, as {there} takes no new folder "
            f"({error.strerror}); choose another with --data-dir"
        ) from error
    if not os.access(settings.data_dir, os.W_OK | os.X_OK):
        raise SettingsError(
            f"data_dir: {settings.data_dir} cannot be written to; choose another with --data-dir"
        )


def database_of(settings: Settings) -> Path | str:
    """Where the jobs are: a file, or the URL of a Postgres."""
    return settings.database_url or settings.data_dir / JOBS_FILE


def check_database(settings: Settings) -> None:
    """Makes or brings up to date the tables of jobs. Raises SettingsError if that cannot be."""
    try:
        open_database(database_of(settings)).close()
    except DatabaseError as error:
        raise SettingsError(str(error)) from error
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        where = "database_url" if settings.database_url else f"data_dir: {settings.data_dir}"
        raise SettingsError(f"{where}: the jobs cannot be opened ({cause})") from error
