"""One settings file; every deployment difference is an environment variable (docs/reference/settings.md lists them)."""

from __future__ import annotations

import os
from pathlib import Path

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key

from benchapp.deploy import environ, log_format
from benchapp.deploy.embedded_broker import broker_url
from runner import __version__
from runner.base.var_folder import var_folder

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = __version__

# Everything the installation writes is here: database, keys, broker, logs, sandboxes.
VAR_DIR = var_folder()

try:
    VAR_DIR.mkdir(parents=True, exist_ok=True)
except OSError as error:
    raise ImproperlyConfigured(f"{VAR_DIR}: {error.strerror}; SKILLGLASS_VAR names another folder") from error


def _secret_key() -> str:
    """Return SECRET_KEY, else a key made at the first start and kept in var/, so that sessions survive a restart."""
    if key := environ.secret("SECRET_KEY"):
        return key
    path = VAR_DIR / "secret_key"
    try:
        with path.open("x") as file:
            path.chmod(0o600)
            file.write(get_random_secret_key())
    except FileExistsError:
        pass
    if key := path.read_text().strip():
        return key
    raise ImproperlyConfigured(
        f"{path} is empty: another process is writing it, or one was stopped; remove it if it stays so"
    )


SECRET_KEY = _secret_key()
DEBUG = environ.flag("DEBUG")
ALLOWED_HOSTS = environ.words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1],testserver")
CSRF_TRUSTED_ORIGINS = environ.words("CSRF_TRUSTED_ORIGINS")
# Whose X-Forwarded-For names the client, for counting login attempts.
TRUSTED_PROXIES = environ.networks("FORWARDED_ALLOW_IPS", "127.0.0.1")

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "csp",
    "django_htmx",
    "django_rq",
    # the next one needs its tables; no address of either exists (`inspector/pages/people/sso_view.py`)
    "allauth.account",
    "allauth.socialaccount",
    "benchapp",
    "inspector",
]

MIDDLEWARE = [
    "inspector.web.middleware.RequestLogMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "inspector.web.text.visible.VisibleMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "inspector.web.middleware.NulMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "inspector.web.access.AccessMiddleware",
    "allauth.account.middleware.AccountMiddleware",  # makes no query
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "benchapp.urls"
WSGI_APPLICATION = "benchapp.wsgi.application"

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
                "inspector.web.context_processors.frame",
            ],
        },
    }
]

# SQLite is one file that web and workers write together: with WAL readers continue during a write, IMMEDIATE takes the
# write lock at the start of a transaction instead of failing in its middle.
DATABASES = {
    "default": environ.parse_database(environ.secret("DATABASE_URL") or f"sqlite:///{VAR_DIR / 'skillglass.sqlite3'}")
}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 30,
        "init_command": (
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
            " PRAGMA busy_timeout=30000; PRAGMA cache_size=-32000;"
        ),
    }
else:
    # A host that is cut off answers nothing, not even "gone". Without these limits a thread here waits for a quarter of
    # an hour, and what a vanished worker had locked stays locked for two: longer than any lease. The server gets limits
    # for its side as well. It also compiles queries that it expects to be long: half a second, for a search that then
    # takes twenty milliseconds.
    for name, value in {
        "connect_timeout": 5,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": 20_000,
        "options": (
            "-c jit=off -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=2"
            " -c tcp_user_timeout=20000"
        ),
    }.items():
        DATABASES["default"].setdefault("OPTIONS", {}).setdefault(name, value)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "benchapp.User"

# Everybody logs in, unless one person uses an installation that answers this machine only (`manage.py demo`).
SINGLE_USER = environ.flag("SINGLE_USER")
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

# Logging in at a provider of OpenID Connect: all of the first three, or none of them.
OIDC_ISSUER = environ.text("OIDC_ISSUER").removesuffix("/.well-known/openid-configuration").rstrip("/")
OIDC_CLIENT_ID = environ.text("OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = environ.secret("OIDC_CLIENT_SECRET")
OIDC_NAME = environ.text("OIDC_NAME") or "single sign-on"  # "Log in with ..."
OIDC_LEVEL = environ.text("OIDC_LEVEL") or "none"  # of somebody who comes without an invitation
OIDC_DOMAINS = [domain.lower().removeprefix("@") for domain in environ.words("OIDC_DOMAINS")]
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_ADAPTER = "inspector.pages.people.sso_view.SocialAccountAdapter"
environ.check(OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET, OIDC_LEVEL)

# Where alerts go when an experiment ends, waits for an operator or has spent its budget. The first may hold a secret.
ALERT_WEBHOOK = environ.secret("ALERT_WEBHOOK")
if ALERT_WEBHOOK and not ALERT_WEBHOOK.startswith(("https://", "http://")):
    raise ImproperlyConfigured("ALERT_WEBHOOK: expected an address that begins with https:// or http://")
ALERT_EMAIL = environ.words("ALERT_EMAIL")
ALERT_ORIGIN = environ.text("ALERT_ORIGIN").rstrip("/")  # of links in alerts, as in https://skillglass.example.org
EMAIL_HOST = environ.text("EMAIL_HOST", "localhost")
EMAIL_PORT = environ.number("EMAIL_PORT", 25)
EMAIL_HOST_USER = environ.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = environ.secret("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = environ.flag("EMAIL_USE_TLS")
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = environ.text("EMAIL_FROM", "skillglass@localhost")

# Without REDIS_URL: the embedded broker that `manage.py demo` starts, on a private socket below var/.
REDIS_URL = environ.secret("REDIS_URL") or broker_url(VAR_DIR / "valkey")
EMBEDDED_BROKER = not environ.secret("REDIS_URL")
RQ = {"COMMIT_MODE": "auto"}  # hints are given after the commit, and a lost one is made up for
RQ_QUEUES = {"default": {"URL": REDIS_URL, "DEFAULT_TIMEOUT": 3600}}

# An episode whose owner has not renewed its lease for this long may be taken over.
LEASE_SECONDS = environ.number("LEASE_SECONDS", 60)
# The number of machine failures in a row that are retried, with growing pauses, before an episode waits for an
# operator.
INFRASTRUCTURE_RETRIES = environ.number("INFRASTRUCTURE_RETRIES", 5)
# A running attempt that has shown no step for this long is called stuck on pages. Only its limits end it.
STUCK_SECONDS = environ.number("STUCK_SECONDS", 900)
# An experiment is planned as rows before its first trial starts: more than this is a typing error.
MAX_TRIALS = environ.number("MAX_TRIALS", 200_000)
# Nothing an episode does between two recordings may take longer. Agents and verifiers have much lower limits.
JOB_SECONDS = environ.number("JOB_SECONDS", 4 * 3600)
# The runner reads these two (runner.models.wire.call_slots); an invalid value stops the start here.
environ.number("SKILLGLASS_MODEL_WAIT_SECONDS", 600)
environ.number("SKILLGLASS_MODEL_CALL_SECONDS", 3_600)

# Folders of this machine that operators may import from by path. Without the variable, the local user of single-user
# mode may use the home folder, because that person can already read it. Invited people may not.
IMPORT_ROOTS = [Path(root) for root in environ.text("IMPORT_ROOTS").split(os.pathsep) if root]
IMPORTS_FROM_HOME = SINGLE_USER and "IMPORT_ROOTS" not in os.environ
# Limits of one upload, and of one person's open uploads. Pieces fit into DATA_UPLOAD_MAX_MEMORY_SIZE.
UPLOAD_BYTES = environ.number("UPLOAD_BYTES", 20 * 1024**3)
UPLOAD_FILES = environ.number("UPLOAD_FILES", 40_000)
UPLOAD_PATH_LENGTH = environ.number("UPLOAD_PATH_LENGTH", 500)
UPLOADS_OPEN = environ.number("UPLOADS_OPEN", 3)
UPLOAD_HOURS = environ.number("UPLOAD_HOURS", 48)

STATIC_URL = "static/"
STATIC_ROOT = Path(environ.text("SKILLGLASS_STATIC") or VAR_DIR / "static")  # an image brings its own, collected
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
LANGUAGE_CODE = "en"

SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = environ.flag("HTTPS_ONLY")
# The largest body of a request, files included: the web worker refuses a longer one unread. Saving a review takes up to
# 4 MiB, the file of a codebook 512 KiB; everything else is small.
DATA_UPLOAD_MAX_MEMORY_SIZE = 5 * 1024 * 1024
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# Nothing inline, nothing from elsewhere. `data:` and `blob:` images are what a chart's PNG export needs.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:", "blob:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

LOG_FORMAT = environ.text("LOG_FORMAT", "line")
if LOG_FORMAT not in log_format.FORMATS:
    raise ImproperlyConfigured(f"LOG_FORMAT={LOG_FORMAT!r}: expected one of {', '.join(log_format.FORMATS)}")
LOGGING = log_format.logging_for(LOG_FORMAT, environ.text("LOG_LEVEL", "INFO"))
