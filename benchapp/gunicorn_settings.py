"""How gunicorn serves the pages in a container: `gunicorn -c python:benchapp.gunicorn_settings benchapp.wsgi`.

The project logs requests itself, with ids. gunicorn's own lines go through the same formatter.
"""

from __future__ import annotations

from benchapp.deploy import environ, log_format

bind = f"0.0.0.0:{environ.number('PORT', 8000)}"  # noqa: S104  (a container's own network; what is published is said outside)
workers = environ.number("WEB_PROCESSES", 2)
threads = environ.number("WEB_THREADS", 4)
worker_class = "benchapp.deploy.web_worker.WebWorker"  # threads that never wait for a slow client
worker_connections = 500  # below the usual limit of open files
preload_app = True  # read once, then forked
worker_tmp_dir = "/dev/shm"  # noqa: S108  (heartbeats; a slow disk must not look like a hung process)
timeout = 60
graceful_timeout = 30
keepalive = 5
max_requests, max_requests_jitter = 10_000, 1_000
control_socket_disable = True
forwarded_allow_ips = environ.text("FORWARDED_ALLOW_IPS", "127.0.0.1")
forwarder_headers = ""  # a client behind the proxy must not choose the path prefix (SCRIPT_NAME)

logconfig_dict = log_format.logging_for(environ.text("LOG_FORMAT", "line"), environ.text("LOG_LEVEL", "INFO"))
logconfig_dict["loggers"] = {"gunicorn.error": {"propagate": True}, "gunicorn.access": {"propagate": False}}
