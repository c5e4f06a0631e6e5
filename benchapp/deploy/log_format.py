"""Formats of a log line: for people, or one JSON object a line for programs that collect logs."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import orjson

from benchapp.record.visible import visible

FORMATS = ("line", "json")


class Line(logging.Formatter):
    """`2026-01-31 12:00:00,000 INFO benchapp.experiments.work.advance done [episode=... run=...]`; a line break
    inside a message is written as \\n and what nobody could see is written out, so that no text from elsewhere can
    look like a line of its own. Tracebacks keep theirs."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        ids = " ".join(f"{name}={value}" for name, value in getattr(record, "ids", {}).items())
        text = visible(super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n"))
        return f"{text} [{ids}]" if ids else text


class JsonLine(logging.Formatter):
    """One object: time (UTC, ISO 8601), level, logger, message, every id of the moment, and a traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        payload: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "ids", {}),
            **getattr(record, "facts", {}),
            "process": record.process,
        }
        if record.exc_info:
            payload["traceback"] = self.formatException(record.exc_info)
        for name, value in payload.items():
            if isinstance(value, str):  # halves of surrogate pairs, which JSON cannot hold, become question marks
                payload[name] = value.encode(errors="replace").decode()
        return orjson.dumps(payload, default=str).decode()


def logging_for(form: str, level: str) -> dict[str, object]:
    """Return the `logging.config` dictionary of the web process, the workers and the commands."""
    formatter = {"line": "benchapp.deploy.log_format.Line", "json": "benchapp.deploy.log_format.JsonLine"}[form]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"ids": {"()": "benchapp.record.log_context.AddIds"}},
        "formatters": {"chosen": {"()": formatter}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "chosen", "filters": ["ids"]}},
        "root": {"handlers": ["console"], "level": level},
        # At DEBUG they write whole headers, and a server may quote its key there.
        "loggers": {name: {"level": "INFO"} for name in ("httpcore", "httpx", "openai", "LiteLLM")},
    }
