"""Opens the store of results that the settings name. What it is not: the stores themselves."""

from pathlib import Path

from onbeat.server.config import Settings, SettingsError
from onbeat.server.jobs.artifacts import WORK, Artifacts
from onbeat.server.jobs.file_store import FileStore
from onbeat.server.jobs.keeping import Limits
from onbeat.server.jobs.result_store import ResultStore

FOLDER = "artifacts"


def open_artifacts(settings: Settings) -> Artifacts:
    """Raises SettingsError if the place cannot be used."""
    limits = Limits(
        max_bytes=settings.artifacts_max_mib << 20,
        min_free=settings.artifacts_min_free_mib << 20,
        keep_seconds=settings.artifacts_keep_hours * 3600,
    )
    store = _store(settings.artifacts) if settings.artifacts else None
    shared = Path(settings.artifacts) / WORK if isinstance(store, FileStore) else None
    return Artifacts(settings.data_dir / FOLDER, store=store, work=shared, limits=limits)


def _store(place: str) -> ResultStore:
    if "://" in place:
        from onbeat.server.jobs.object_store import ObjectStore

        return ObjectStore(place)
    try:
        return FileStore(Path(place))
    except OSError as error:
        raise SettingsError(f"artifacts: {place} cannot be used ({error.strerror})") from error
