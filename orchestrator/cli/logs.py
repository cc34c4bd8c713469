"""The log file: what nobody foresaw is written there, never on the screen."""

from __future__ import annotations

import logging
import logging.handlers
import os
from io import TextIOWrapper
from pathlib import Path

FILE = Path("log/orchestrator.log")
"""In the data directory."""
MAX_BYTES = 1024 * 1024
KEPT = 3
FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """Rotating, readable by its owner alone, opened with the first record."""

    def _open(self) -> TextIOWrapper:
        Path(self.baseFilename).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return TextIOWrapper(
            os.fdopen(descriptor, "ab", buffering=0), "utf-8", "backslashreplace", write_through=True
        )

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        """A log that cannot be written costs nothing else."""


def current_log() -> Path | None:
    """The file that records go to, if `open_log` was called."""
    own = [handler for handler in logging.getLogger().handlers if isinstance(handler, _PrivateFile)]
    return Path(own[0].baseFilename) if own else None


def open_log(data_dir: Path) -> Path:
    """Send the process's log records to the file in `data_dir`; its path. None reaches the screen."""
    path = data_dir / FILE
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    handler = _PrivateFile(path, maxBytes=MAX_BYTES, backupCount=KEPT, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter(FORMAT))
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("orchestrator").setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    return path
