"""Settings. The defaults run everything embedded in one data folder; environment variables override them.

Every variable is listed in ``.env.example``.
"""

import os
import secrets
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from elevata.accounts.single_sign_on_provider import provider_of_environment
from elevata.audit.signatures import SHORTEST
from elevata.bootstrap import java
from elevata.core import data_folder
from elevata.core.errors import MetadataError
from elevata.core.installation import IS_INSTALLED, PROJECT_DIR
from elevata.core.trigrams import SIMILAR
from elevata.notifications import mail
from elevata.ops.logging import logging_settings
from loader.domain.catalogs.catalog_setting import EMBEDDED, is_catalog, is_prefix
from metadata.domain.sources.locations import Roots, split_roots
from metadata.domain.sources.secret_names import listed_secrets

BASE_DIR = PROJECT_DIR
DATA_DIR = data_folder.data_dir()
os.umask(data_folder.UMASK)
# Logged once logging is set up (``elevata.apps``).
MENDED_FILES = data_folder.make_private(DATA_DIR)


def _flag(name: str, default: bool = False) -> bool:
    value = os.environ.get(name, "")
    if value.strip() == "":
        return default
    if value.strip().lower() in {"1", "true", "yes", "on"}:
        return True
    if value.strip().lower() in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be true or false, not {value!r}")


def _kept_key(name: str) -> str:
    """Return a key that is created once and stored in the data folder, readable by its owner."""
    path = DATA_DIR / name
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        DATA_DIR.mkdir(parents=True, exist_ok=True)
        # Linked once it is whole, so a process that starts at the same time never reads half a key.
        pending = DATA_DIR / f".{name}.{os.getpid()}"
        with os.fdopen(os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
        try:
            os.link(pending, path)
        except FileExistsError:
            pass
        finally:
            pending.unlink()
        return path.read_text().strip()


def _file_at(place: str | None) -> str:
    """Return the text of the file that a variable names; empty without the variable."""
    try:
        return Path(place).read_text(encoding="utf-8").strip() if place else ""
    except (OSError, UnicodeDecodeError) as problem:
        raise ImproperlyConfigured(f"{place}: cannot be read: {problem}") from None


def _long_enough(key: str, name: str) -> str:
    if len(key) < SHORTEST:
        raise ImproperlyConfigured(f"{name}: a key must have at least {SHORTEST} characters")
    return key


DEBUG = _flag("ELEVATA_DEBUG")
SECRET_KEY = os.environ.get("ELEVATA_SECRET_KEY") or _kept_key("secret_key")
SECRET_KEY_IS_GIVEN = bool(os.environ.get("ELEVATA_SECRET_KEY"))

# --- audit chain: docs/use/change_log.md ------------------------------------------------------------
_given_key = os.environ.get("ELEVATA_AUDIT_KEY") or _file_at(os.environ.get("ELEVATA_AUDIT_KEY_FILE"))
AUDIT_KEY = _long_enough(_given_key or _kept_key("audit_key"), "ELEVATA_AUDIT_KEY")
AUDIT_KEY_IS_GIVEN = bool(_given_key)
# Former keys: their signatures are still accepted.
_former = os.environ.get("ELEVATA_AUDIT_KEYS_FORMER") or _file_at(os.environ.get("ELEVATA_AUDIT_KEYS_FORMER_FILE"))
AUDIT_KEYS_FORMER = tuple(_long_enough(key, "ELEVATA_AUDIT_KEYS_FORMER") for key in _former.replace(",", " ").split())
# Recorded heads of the chain, and exports, outside the database.
AUDIT_FOLDER = Path(os.environ.get("ELEVATA_AUDIT_FOLDER") or DATA_DIR / "audit").expanduser().resolve()

ALLOWED_HOSTS = [
    h.strip() for h in os.environ.get("ELEVATA_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",") if h.strip()
]
CSRF_TRUSTED_ORIGINS = [o.strip() for o in os.environ.get("ELEVATA_TRUSTED_ORIGINS", "").split(",") if o.strip()]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "django_filters",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "knox",
    "axes",
    "elevata",
    "elevata.accounts",
    "elevata.audit",
    "elevata.notifications",
    "elevata.comments",
    "elevata.lists",
    "elevata.jobs",
    "elevata.api",
    "elevata.web",
    "elevata.ops",
    "metadata",
    "architecture",
    "loader",
]

MIDDLEWARE = [
    "elevata.web.middleware.RequestIdMiddleware",
    "elevata.ops.access_log.AccessMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "elevata.web.middleware.CacheControlMiddleware",
    "elevata.web.request_limits.LimitsMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "elevata.web.middleware.ActorMiddleware",
    "elevata.web.middleware.SignInFirstMiddleware",
    "elevata.web.middleware.ReadersOnlyMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "elevata.web.middleware.OwnPasswordFirstMiddleware",
    "elevata.web.middleware.DatabaseDownMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "elevata.urls"
WSGI_APPLICATION = "elevata.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "elevata.page_frame.shell",
            ],
        },
    },
]

_sqlite = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": DATA_DIR / "control.sqlite3",
    "OPTIONS": {
        # Writers wait for each other instead of failing: see docs/understand/design.md.
        "transaction_mode": "IMMEDIATE",
        "timeout": 30,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
    },
}
DATABASES: dict[str, Any] = {
    "default": dj_database_url.parse(os.environ["DATABASE_URL"], conn_max_age=60, conn_health_checks=True)
    if os.environ.get("DATABASE_URL")
    else _sqlite
}
if DATABASES["default"]["ENGINE"].endswith("postgresql"):
    # Pages run many small queries: JIT compilation takes PostgreSQL longer than answering. Names whose parts are as
    # similar to a text as the threshold are found for it (elevata.core.lookups.Resembles).
    _options = f"-c jit=off -c pg_trgm.word_similarity_threshold={SIMILAR}"
    DATABASES["default"].setdefault("OPTIONS", {}).setdefault("options", _options)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
# --- sign-in -----------------------------------------------------------------------------------
SINGLE_SIGN_ON = provider_of_environment()
PASSWORD_SIGN_IN = _flag("ELEVATA_PASSWORD_SIGN_IN", default=True)
if not PASSWORD_SIGN_IN and SINGLE_SIGN_ON is None:
    raise ImproperlyConfigured("ELEVATA_PASSWORD_SIGN_IN=false needs ELEVATA_OIDC_ISSUER: nobody could sign in")
AUTHENTICATION_BACKENDS = [
    # Counts and limits wrong passwords.
    "axes.backends.AxesStandaloneBackend",
    "elevata.accounts.sign_in.AccountBackend",
    *(["elevata.accounts.openid_connect.ProviderBackend"] if SINGLE_SIGN_ON is not None else []),
]
# The header in which a proxy passes the client's address, and the number of trusted proxies; none is trusted by
# default, because any client can send one.
CLIENT_ADDRESS_HEADER = os.environ.get("ELEVATA_CLIENT_ADDRESS_HEADER", "").strip()
CLIENT_ADDRESS_PROXIES = max(1, int(os.environ.get("ELEVATA_CLIENT_ADDRESS_PROXIES") or 1))
# Contact for users without a role: a name, an address, a channel.
CONTACT = os.environ.get("ELEVATA_CONTACT", "").strip()
# Address of the folder docs, with a slash at the end; without it the product shows the chapters itself.
DOCS_URL = os.environ.get("ELEVATA_DOCS_URL", "").strip()
DOCS_URL = f"{DOCS_URL.rstrip('/')}/" if DOCS_URL else ""
if DOCS_URL and not DOCS_URL.startswith(("https://", "http://")):
    raise ImproperlyConfigured(f"ELEVATA_DOCS_URL must be an address with https://, not {DOCS_URL!r}")
AXES_FAILURE_LIMIT = int(os.environ.get("ELEVATA_SIGN_IN_FAILURES") or 5)
AXES_COOLOFF_TIME = timedelta(minutes=int(os.environ.get("ELEVATA_SIGN_IN_LOCK_MINUTES") or 15))
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
# Wider limits, for the same time: for a name from any address, for an address on any name.
AXES_HANDLER = "elevata.accounts.lockouts.Handler"
SIGN_IN_FAILURES_OF_NAME = max(1, int(os.environ.get("ELEVATA_SIGN_IN_FAILURES_OF_NAME") or 50))
SIGN_IN_FAILURES_OF_ADDRESS = max(1, int(os.environ.get("ELEVATA_SIGN_IN_FAILURES_OF_ADDRESS") or 50))
AXES_RESET_ON_SUCCESS = True
# Attempts during a lock neither extend it nor write anything.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_CLIENT_IP_CALLABLE = "elevata.accounts.lockouts.address_of"
AXES_WHITELIST_CALLABLE = "elevata.accounts.lockouts.is_no_guess"
AXES_LOCKOUT_CALLABLE = "elevata.accounts.lockouts.locked_out"
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "csrfmiddlewaretoken"]
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "sign_in"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Hashed, compressed names once static files were collected; plain ones before, and always in a wheel.
_collecting = sys.argv[1:2] == ["collectstatic"]
STATIC_ROOT = None if IS_INSTALLED and not _collecting else BASE_DIR / "staticfiles"
_collected = not IS_INSTALLED and (BASE_DIR / "staticfiles" / "staticfiles.json").is_file() and not DEBUG
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "elevata.web.storage.ModuleStaticFilesStorage"
        if _collecting or _collected
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
# A checkout whose static files were not collected yet still shows its pages whole.
WHITENOISE_USE_FINDERS = not _collected

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
BEHIND_HTTPS = _flag("ELEVATA_HTTPS")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_HTTPS
if BEHIND_HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 31_536_000
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_SSL_REDIRECT = True
    # Requested beside the process, not through the proxy.
    SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
# Preloading is the domain owner's decision, and hard to revert.
SILENCED_SYSTEM_CHECKS = ["security.W021"]

REST_FRAMEWORK = {
    # The token first: it counts even if a cookie is sent, too.
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "elevata.accounts.authentication.PersonalTokenAuthentication",
        "elevata.accounts.authentication.BrowserAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.DjangoModelPermissions"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["elevata.api.parsers.StrictJson"],
    "DEFAULT_FILTER_BACKENDS": ["elevata.api.requests.KnownValues"],
    "DEFAULT_PAGINATION_CLASS": "elevata.api.paging.Paging",
    "DEFAULT_SCHEMA_CLASS": "elevata.api.openapi.DescribedSchema",
    "EXCEPTION_HANDLER": "elevata.api.errors.problem_json",
    "LIST_SERIALIZER_ERRORS_AS_DICT": True,
    "PAGE_SIZE": 50,
}
# Personal tokens: ``Authorization: Token elv_…``
KNOX_TOKEN_MODEL = "accounts.PersonalToken"
# The library's own migrations would create a second table.
MIGRATION_MODULES = {"knox": None}
REST_KNOX = {"TOKEN_MODEL": KNOX_TOKEN_MODEL, "TOKEN_PREFIX": "elv_", "TOKEN_TTL": timedelta(days=90)}
SPECTACULAR_SETTINGS = {
    "TITLE": "elevata",
    "DESCRIPTION": "Metadata, load runs and history of a metadata-driven warehouse.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    # Choices that several answers share have one name in the description.
    "ENUM_NAME_OVERRIDES": {
        "SystemKindEnum": "metadata.models.System.Kind",
        "ScopeKindEnum": "metadata.domain.scope.REQUESTED",
        "ScheduleKindEnum": "loader.models.Schedule.Kind",
        "ReportStatusEnum": "architecture.models.ChangeReport.Status",
        "ExecutionStatusEnum": "architecture.models.Execution.STATUSES",
        "JobStatusEnum": "loader.models.ReadRequest.STATUSES",
        "ReadKindEnum": "loader.api.reads.KINDS",
        "ColumnKindEnum": "metadata.api.lineage.COLUMN_KINDS",
        "DatasetKindEnum": "metadata.api.serializers.DATASET_KINDS",
        "WebhookFormatEnum": "elevata.notifications.models.Webhook.Format",
        "SourceFormatEnum": "metadata.models.SourceDataset.Format",
        "UnknownParentEnum": "metadata.models.lineage.UNKNOWN_PARENTS",
        "ColumnRoleEnum": "metadata.models.TargetColumn.Role",
        "CheckOutcomeEnum": "loader.contract.check_outcomes.OUTCOME_CHOICES",
        "QualityCheckKindEnum": "metadata.models.quality.KINDS",
        "ExposureKindEnum": "metadata.models.exposures.KINDS",
        "SeverityEnum": "metadata.models.quality.SEVERITIES",
        "FindingSeverityEnum": "architecture.models.health.SEVERITIES",
        "RoleEnum": "elevata.accounts.api.ROLE_NAMES",
    },
}

# --- warehouse -------------------------------------------------------------------------------
ENVIRONMENT = os.environ.get("ELEVATA_ENVIRONMENT", "dev")
WAREHOUSE = os.environ.get("ELEVATA_WAREHOUSE") or str(DATA_DIR / "warehouse")
SPARK_MASTER = os.environ.get("SPARK_MASTER") or "local[*]"
# The installation's own settings of Spark: docs/operate/spark.md
SPARK_CONF = os.environ.get("ELEVATA_SPARK_CONF", "").strip()
SPARK_PACKAGES = os.environ.get("ELEVATA_SPARK_PACKAGES", "").strip()
SPARK_JARS = os.environ.get("ELEVATA_SPARK_JARS") or str(Path(sys.prefix) / "spark-jars")
# Where names are published for others: nowhere (embedded), in a Hive metastore, or in a catalog of Spark's settings.
CATALOG = os.environ.get("ELEVATA_CATALOG") or EMBEDDED
if not is_catalog(CATALOG):
    raise ImproperlyConfigured(
        f"ELEVATA_CATALOG is {CATALOG!r}: it must be embedded, hive (a metastore that Hive's own settings name), the "
        "addresses of a metastore such as thrift://host:9083, with commas between them, or spark:NAME for the catalog "
        "that spark.sql.catalog.NAME in ELEVATA_SPARK_CONF defines"
    )
# Precedes the schemas of published names, so that environments can share a catalog.
CATALOG_PREFIX = os.environ.get("ELEVATA_CATALOG_PREFIX", "")
if not is_prefix(CATALOG_PREFIX):
    raise ImproperlyConfigured(
        f"ELEVATA_CATALOG_PREFIX is {CATALOG_PREFIX!r}: it must begin with a lower-case letter, and have lower-case "
        "letters, digits and underscores only, at most 30"
    )
# How rows are committed to tables: auto (direct where Delta's own classes allow it), direct or public.
COMMITS = os.environ.get("ELEVATA_COMMITS") or "auto"
if COMMITS not in ("auto", "direct", "public"):
    raise ImproperlyConfigured(f"ELEVATA_COMMITS is {COMMITS!r}: it must be auto, direct or public")
METASTORE_VERSION = os.environ.get("ELEVATA_METASTORE_VERSION", "")
METASTORE_JARS = os.environ.get("ELEVATA_METASTORE_JARS", "")
# The Java that set-up settled on need not be on PATH.
JAVA_HOME = java.java_home()
DRIVER_MEMORY = os.environ.get("ELEVATA_DRIVER_MEMORY") or "1g"
DRIVER_JAVA_OPTIONS = os.environ.get("ELEVATA_DRIVER_JAVA_OPTIONS", "")
# The runner that answers users' reads: its memory, its master (default: this machine), the seconds without a read after
# which it ends (0: never), and the number of unfinished reads that a user may have.
READS_MEMORY = os.environ.get("ELEVATA_READS_MEMORY") or "768m"
READS_MASTER = os.environ.get("ELEVATA_READS_MASTER", "").strip()
READS_IDLE_SECONDS = 60 * int(os.environ.get("ELEVATA_READS_IDLE_MINUTES") or 15)
READS_PER_USER = max(1, int(os.environ.get("ELEVATA_READS_PER_USER") or 20))
POLICY_DEFAULTS = {
    "drop_columns": _flag("ELEVATA_ALLOW_AUTO_DROP_COLUMNS"),
    "drop_history_columns": _flag("ELEVATA_ALLOW_AUTO_DROP_HIST_COLUMNS"),
    "drop_tables": _flag("ELEVATA_ALLOW_AUTO_DROP_TABLES"),
    "type_alter": _flag("ELEVATA_ALLOW_TYPE_ALTER"),
}
# Who must be able to read every table: spark, or open (DuckDB, delta-rs and Polars, too).
READERS = os.environ.get("ELEVATA_READERS") or "spark"
# Names that most engines need quotes for, when a user saves one (metadata.domain.quoted_names).
QUOTED_NAMES = os.environ.get("ELEVATA_QUOTED_NAMES") or "ask"
if QUOTED_NAMES not in ("allow", "ask", "refuse"):
    raise ImproperlyConfigured(f"ELEVATA_QUOTED_NAMES is {QUOTED_NAMES!r}: it must be allow, ask or refuse")
# A full snapshot that would close more than this share of the open keys, and more than so many, needs a decision.
DELETES_SHARE = float(os.environ.get("ELEVATA_DELETES_SHARE") or 0.2)
DELETES_KEYS = int(os.environ.get("ELEVATA_DELETES_KEYS") or 1000)
# Datasets of up to so many rows are loaded together by one Spark job; 0: each by itself.
SMALL_TABLE_ROWS = int(os.environ.get("ELEVATA_SMALL_TABLE_ROWS") or 50_000)

# --- sources that pages read -------------------------------------------------------------------
# Places below which files are listed, sampled and loaded, and hosts of databases: an editor may type any location.
SOURCE_ROOTS = split_roots(os.environ.get("ELEVATA_SOURCE_ROOTS", "")) or [
    str(DATA_DIR / "landing"),
    str(BASE_DIR / "examples"),
]
try:
    Roots.of(SOURCE_ROOTS, folder=str(BASE_DIR))
except MetadataError as problem:
    raise ImproperlyConfigured(f"ELEVATA_SOURCE_ROOTS: {problem.message}") from None
# Places below which copies of datasets are written: DuckDB files and folders of Delta tables.
COPY_ROOTS = split_roots(os.environ.get("ELEVATA_COPY_ROOTS", "")) or [str(DATA_DIR / "copies")]
try:
    Roots.of(COPY_ROOTS, folder=str(BASE_DIR))
except MetadataError as problem:
    raise ImproperlyConfigured(f"ELEVATA_COPY_ROOTS: {problem.message}") from None
SOURCE_HOSTS = [host.strip() for host in os.environ.get("ELEVATA_SOURCE_HOSTS", "").split(",") if host.strip()]
# Variables with passwords that systems may name, besides those that begin with ELEVATA_SOURCE_.
try:
    SOURCE_SECRETS = listed_secrets(os.environ.get("ELEVATA_SOURCE_SECRETS", ""))
except MetadataError as problem:
    raise ImproperlyConfigured(f"ELEVATA_SOURCE_SECRETS: {problem.message}") from None
# Folder in which pages of REST APIs land before they are loaded, and the number of runs of a dataset whose pages stay.
LANDING = str(Path(os.environ.get("ELEVATA_LANDING") or DATA_DIR / "landed").expanduser().resolve())
LANDING_RUNS = max(1, int(os.environ.get("ELEVATA_LANDING_RUNS") or 3))
# Streams of events that a process of the web server has open at once: each takes one of its threads.
API_STREAMS = int(os.environ.get("ELEVATA_API_STREAMS") or 2)
# Limit per user, service accounts included.
API_STREAMS_EACH = int(os.environ.get("ELEVATA_API_STREAMS_EACH") or 1)
# Uploaded files of history batches: their folder, and the limits of a request and of an unpacked file.
BATCH_FOLDER = os.environ.get("ELEVATA_BATCH_FOLDER") or str(DATA_DIR / "landing" / "history-batches")
BATCH_MAX_BYTES = int(os.environ.get("ELEVATA_BATCH_MAX_MB") or 256) * 2**20
BATCH_MAX_UNPACKED_BYTES = int(os.environ.get("ELEVATA_BATCH_MAX_UNPACKED_MB") or 4096) * 2**20
# Folder of exported rows, which a worker writes and the web process sends.
EXPORT_FOLDER = os.environ.get("ELEVATA_EXPORT_FOLDER") or str(DATA_DIR / "exports")
# Folder with the unit tests of models that ``test_models`` runs without a file.
MODEL_TESTS = os.environ.get("ELEVATA_MODEL_TESTS") or str(BASE_DIR / "examples")
# How long a body may be: JSON, a form, an import. Files of history batches have their own limit.
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 2**20
# How long the address of a request may be, with its query; gunicorn.conf.py takes longer ones, so that these are
# refused by an answer of ours.
LONGEST_ADDRESS = 4000
# A source of some hundred columns is one form.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000
# An import by page has a file for each dataset.
DATA_UPLOAD_MAX_NUMBER_FILES = 1_000

# --- notifications -----------------------------------------------------------------------------
# The public address of the pages; without it, messages have paths only.
PUBLIC_URL = os.environ.get("ELEVATA_PUBLIC_URL", "").strip().rstrip("/")
# Networks that webhooks may reach although they are not public.
WEBHOOK_ALLOW = [entry.strip() for entry in os.environ.get("ELEVATA_WEBHOOK_ALLOW", "").split(",") if entry.strip()]
_mail = mail.settings_of(os.environ.get("ELEVATA_EMAIL_URL", ""))
EMAIL_ENABLED = _mail["EMAIL_ENABLED"]
globals().update(_mail)
DEFAULT_FROM_EMAIL = SERVER_EMAIL = os.environ.get("ELEVATA_EMAIL_FROM") or "elevata@localhost"

# --- queue -----------------------------------------------------------------------------------
# A message is only a wake-up with an id; the row decides. So messages are acknowledged early,
# results are not stored, and the sweep sends lost messages again.
BROKER_FOLDER = DATA_DIR / "broker"
CELERY_BROKER_URL = os.environ.get("CELERY_BROKER_URL") or "filesystem://localhost//"
if CELERY_BROKER_URL.startswith("filesystem://"):
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(BROKER_FOLDER / "messages"),
        "data_folder_out": str(BROKER_FOLDER / "messages"),
        "control_folder": str(BROKER_FOLDER / "control"),
        # Seconds after which an unanswered wake-up counts as lost.
        "polling_interval": 0.2,
    }
else:
    CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_connect_timeout": 3, "socket_timeout": 10}
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_PUBLISH_RETRY = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "celerybeat-schedule")

# --- monitoring --------------------------------------------------------------------------------
# Networks from which metrics may be read without signing in or a token.
METRICS_ALLOW = [entry.strip() for entry in os.environ.get("ELEVATA_METRICS_ALLOW", "").split(",") if entry.strip()]
LOG_FORMAT = os.environ.get("ELEVATA_LOG_FORMAT") or "plain"
if LOG_FORMAT not in ("plain", "json"):
    raise ImproperlyConfigured(f"ELEVATA_LOG_FORMAT must be plain or json, not {LOG_FORMAT!r}")
LOGGING = logging_settings(LOG_FORMAT, os.environ.get("ELEVATA_LOG_LEVEL") or "WARNING")
