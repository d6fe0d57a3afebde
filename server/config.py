"""Typed settings of the server: flags over ONBEAT_* environment over a TOML file over defaults.

Unknown keys in the file or among the flags are errors. "auto" values are resolved once at start
(`resolve_threads`) and logged. What it is not: per-request options, or the state of anything.
"""

import os
import tomllib
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_data_path
from pydantic import Field, ValidationError
from pydantic_settings import SettingsConfigDict

from onbeat.server.webhook_settings import WebhookSettings
from onbeat.server.wording import reason, shown

ENV_PREFIX = "ONBEAT_"
CONFIG_VARIABLE = "ONBEAT_CONFIG"
SECRET = ("api_key", "secret", "password", "token")
"""Settings with such a word in their names are never shown."""

PolicyName = Literal[
    "edf-s",
    "edf-greedy",
    "orca",
    "coalesced",
    "static",
    "time-slice",
    "fcfs-chunk",
    "process-per-stream",
]


class SettingsError(ValueError):
    """Settings that cannot be used; the text names field, value and what is allowed."""


class Settings(WebhookSettings):
    """Everything that can be set. Units are in the names or the descriptions."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, extra="forbid", frozen=True, env_ignore_empty=True
    )

    host: str = Field("127.0.0.1", description="address to listen on")
    api_key: str | None = Field(
        None, min_length=8, description="key that requests have to bear; none is asked for if unset"
    )
    allowed_origins: str = Field(
        "", description="origins of other pages that may use the server, separated by commas"
    )
    port: int = Field(8000, ge=0, le=65535, description="TCP port; 0 takes a free one")
    data_dir: Path = Field(
        default_factory=lambda: user_data_path("onbeat"), description="folder of all state"
    )
    database_url: str | None = Field(
        None, description="postgresql:// address of the jobs; a file in the data folder if unset"
    )
    lease_seconds: float = Field(
        30, ge=2, le=3600, description="jobs of a server that is silent for so long go to others"
    )
    model: str = Field("toybox", description="registered model to serve")
    weights: Path | None = Field(None, description="weights file instead of the shipped one")
    policy: PolicyName = Field("edf-s", description="scheduling policy")
    compute_threads: int = Field(0, ge=0, le=256, description="threads of the compute lane; 0 auto")
    decode_threads: int = Field(0, ge=0, le=256, description="threads of the decode lane; 0 auto")
    headroom: float = Field(
        0.75, gt=0, le=1, description="share of the compute lane that admission may promise"
    )
    max_rows: int = Field(24, ge=1, le=256, description="rows of one batch at most")
    plan_ahead: Literal["auto", "on", "off"] = Field(
        "auto", description="plan a tick while the forward before it runs; auto: on a GPU only"
    )
    split_rows: int = Field(
        0, ge=0, description="rows from which a batch runs as two halves; 0 auto"
    )
    pages: int = Field(0, ge=0, description="KV pages; 0 sizes the pool for max_active_sessions")
    host_memory_mib: int = Field(
        1024, ge=0, description="host memory for KV of paused sessions; 0 keeps their latents only"
    )
    max_sessions: int = Field(256, ge=1, le=4096, description="open sessions at most, paused too")
    max_active_sessions: int = Field(
        64, ge=1, le=4096, description="sessions that are generated at the same time at most"
    )
    max_viewers: int = Field(64, ge=1, le=4096, description="connected viewers at most")
    max_jobs_running: int = Field(2, ge=1, le=64, description="jobs generated at the same time")
    max_jobs_queued: int = Field(1000, ge=1, description="jobs waiting at most")
    max_jobs_queued_per_key: int = Field(
        0,
        ge=0,
        description="jobs of one key waiting at most; 0: half of all if it is alone, else less",
    )
    max_video_seconds: float = Field(120, gt=0, le=3600, description="longest video a job makes")
    artifacts: str = Field(
        "", description="where results lie: a folder, or s3://bucket/prefix; empty: in data_dir"
    )
    artifacts_max_mib: int = Field(
        20480, ge=0, description="space of all results, beyond which the oldest go; 0 no limit"
    )
    artifacts_min_free_mib: int = Field(
        512, ge=0, description="disk space below which no job is taken"
    )
    artifacts_keep_hours: float = Field(
        24, ge=0, description="how long a result is kept; 0 for ever"
    )
    artifacts_redirect: bool = Field(
        False, description="send those who download to the bucket itself, by a signed address"
    )
    recordings_max_mib: int = Field(
        10240, ge=0, description="space of all recordings, ended ones too; 0 takes none"
    )
    recordings_min_free_mib: int = Field(
        512, ge=0, description="disk space that recordings leave to others"
    )
    max_recording_seconds: float = Field(
        3600, gt=0, le=86400, description="longest recording of a session"
    )
    idle_session_seconds: float = Field(60, gt=0, description="life of a session nobody watches")
    pause_after_seconds: float = Field(5, gt=0, description="generation pauses without viewers")
    offload_after_seconds: float = Field(
        2, ge=0, description="a session paused this long gives back its KV pages"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="log level")
    log_format: Literal["text", "json"] = Field("text", description="log lines as text or JSON")
    otlp_endpoint: str | None = Field(
        None, description="OpenTelemetry collector (OTLP over HTTP) for traces; none if unset"
    )

    @property
    def origins(self) -> frozenset[str]:
        """`allowed_origins`, apart."""
        return frozenset(filter(None, (each.strip() for each in self.allowed_origins.split(","))))


def read_config_file(path: Path) -> dict[str, Any]:
    """The keys of a TOML settings file. Raises SettingsError if it cannot be read."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"config file {path}: cannot be read ({error.strerror})") from error
    except ValueError as error:  # not TOML, or not even text
        raise SettingsError(f"config file {path}: not valid TOML ({error})") from error


def load_settings(config_file: Path | None = None, **flags: Any) -> Settings:
    """Settings from flags that are not None, environment, file, defaults.

    The file is `config_file` or else what ONBEAT_CONFIG names.

    Raises SettingsError naming each wrong field, its value and what is allowed.
    """
    unknown = _unknown_environment()
    if unknown:
        raise SettingsError(f"environment: unknown {', '.join(unknown)}; allowed: {_allowed()}")
    path = config_file or os.environ.get(CONFIG_VARIABLE)
    values = read_config_file(Path(path)) if path else {}
    values = {k: v for k, v in values.items() if ENV_PREFIX + k.upper() not in os.environ}
    values |= {k: v for k, v in flags.items() if v is not None}
    try:
        return Settings(**values)
    except ValidationError as error:
        raise SettingsError("\n".join(_describe(e) for e in error.errors())) from error


def _unknown_environment() -> list[str]:
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields} | {CONFIG_VARIABLE}
    known |= {"ONBEAT_SERVER"}  # of the clients
    known |= {"ONBEAT_REQUIRE_BROWSER"}  # of the tests, like those for generated cases
    known |= {"ONBEAT_FUZZ_SEED", "ONBEAT_FUZZ_STEPS", "ONBEAT_FUZZ_SHRINK"}
    return sorted(name for name in os.environ if name.startswith(ENV_PREFIX) and name not in known)


def _allowed() -> str:
    return ", ".join(sorted(ENV_PREFIX + name.upper() for name in Settings.model_fields))


def _describe(error: Any) -> str:
    field = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{field}: unknown setting; allowed: {', '.join(sorted(Settings.model_fields))}"
    hidden = error["input"] is not None and any(word in field for word in SECRET)
    known = "unset" if error["input"] is None else shown(error["input"])
    value = "the value given" if hidden else known
    return f"{field}: {value} is not allowed; {reason(error)}"


def resolve_threads(settings: Settings) -> tuple[int, int]:
    """Threads of the compute and decode lanes; auto shares the cores with the media process."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    compute = settings.compute_threads or max(1, cores // 2)
    decode = settings.decode_threads or max(1, cores // 4)
    return compute, decode
