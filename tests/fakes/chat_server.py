"""A real HTTP server that speaks chat completions from a script, as strict as the strictest provider.

In a test:

    with ChatServer(script) as server:
        model = OpenAIChatModel("any", transport, server.url)

For a subprocess: `python -m tests.fakes.chat_server --port 0 --script FILE` prints its port and serves until
it is ended. The script is the one of the scripted model; the conversation's agent is found by the line
`You are the agent "<label>".` in the system prompt.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import json
import select
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

import attrs

from agents.models.base import FinishChunk
from agents.models.provider_errors import Asked
from agents.models.script import Play, Script, read_script
from agents.models.scripted import load_script
from tests.fakes.chat_wire import complaint, label_of, streamed_answer, to_request, whole_answer

_ASKED = Asked(model="the fake server", address="loopback", key_variable="OPENAI_API_KEY")


class Gone(Exception):
    """The client has closed the connection."""


@attrs.frozen
class Recorded:
    """One request, as it came in."""

    label: str
    """The agent that asked; empty where the body was refused."""
    body: Any
    headers: dict[str, str]
    status: int
    """What it was answered with."""


@attrs.define
class Behaviour:
    """How the server answers, beside what the script says. May be changed between requests."""

    as_json: bool = False
    """One JSON body instead of a stream."""
    pause_ms: int = 0
    """Wait between two events of a stream."""
    require_key: str | None = None
    """Answer 401 to every other key."""
    record: Path | None = None
    """Append every request body to this file, one JSON object a line."""
    close_after_answer: bool = False
    """Close the connection after an answer that had promised to keep it."""


class ChatServer:
    """The server and what it saw."""

    def __init__(
        self, script: Script | dict[str, Any] | str | Path, *, port: int = 0, **behaviour: Any
    ) -> None:
        """`script` is a checked script, its document, or its file; `behaviour` are fields of `Behaviour`."""
        if isinstance(script, dict):
            script = read_script(script, "script")
        self.script = script if isinstance(script, Script) else load_script(script)
        self.behaviour = Behaviour(**behaviour)
        self.requests: list[Recorded] = []
        self.connections = 0
        """How many were accepted so far."""
        self.disconnected = threading.Event()
        """A client has left in the middle of an answer."""
        self._attempts: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="chat-server")

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.hang_up()
        self._server.server_close()

    def hang_up(self) -> None:
        """Close every connection that is open."""
        self._server.hang_up()

    def play(self, body: dict[str, Any], label: str) -> Play:
        """What the script says to `body`. Its attempt is how often these very messages have come."""
        digest = hashlib.sha256(json.dumps([label, body["messages"]]).encode()).hexdigest()
        with self._lock:
            self._attempts[digest] += 1
            attempt = self._attempts[digest]
        return self.script.play(to_request(body, label, attempt), _ASKED)

    def note(self, recorded: Recorded) -> None:
        with self._lock:
            self.requests.append(recorded)
            if self.behaviour.record is not None:
                with self.behaviour.record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(recorded.body) + "\n")

    def count_connection(self) -> None:
        with self._lock:
            self.connections += 1


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 256

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._connected: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connected.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connected.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for connection in list(self._connected):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    """The handler class of one server."""

    class Handler(_Exchange):
        chat = server

    return Handler


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    chat: ChatServer

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.chat.count_connection()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: the tests look at `requests`."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        try:
            self._answer(raw)
            if self.chat.behaviour.close_after_answer:
                self.close_connection = True
        except (Gone, ConnectionError):
            self.chat.disconnected.set()
            self.close_connection = True

    def _answer(self, raw: bytes) -> None:
        try:
            body = json.loads(raw.decode("utf-8"))
        except ValueError:
            return self._refuse(None, "", 400, "the body is not JSON in UTF-8")
        behaviour = self.chat.behaviour
        if behaviour.require_key not in (
            None,
            (self.headers.get("authorization") or "").removeprefix("Bearer "),
        ):
            return self._refuse(body, "", 401, "incorrect API key provided")
        if not self.path.endswith("/chat/completions"):
            return self._refuse(body, "", 404, f"nothing is served at {self.path}")
        if (problem := complaint(body)) is not None:
            return self._refuse(body, "", 400, problem)
        label = label_of(body)
        play = self.chat.play(body, label)
        self._wait(play.delay_ms / 1000)
        if play.error is not None:
            return self._fail(body, label, play)
        self._note(body, label, 200)
        if behaviour.as_json or not body.get("stream"):
            return self._send_whole(play, body["model"])
        return self._send_stream(play, body["model"])

    def _fail(self, body: Any, label: str, play: Play) -> None:
        fault = play.fault
        if fault is not None and isinstance(fault.error, int):
            headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
            return self._refuse(body, label, fault.error, fault.message, headers)
        if fault is not None:  # the network or the stream fails: hang up without an answer
            self._note(body, label, 0)
            raise Gone
        return self._refuse(body, label, 400, "" if play.error is None else play.error.message)

    def _refuse(
        self, body: Any, label: str, status: int, message: str, headers: dict[str, str] | None = None
    ) -> None:
        self._note(body, label, status)
        answer = {"error": {"message": message, "type": "fake_error", "code": None}}
        self._send(status, json.dumps(answer).encode(), headers or {})

    def _note(self, body: Any, label: str, status: int) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.chat.note(Recorded(label, body, headers, status))

    def _send(
        self, status: int, body: bytes, headers: dict[str, str], *, promised: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body) if promised is None else promised))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _send_whole(self, play: Play, model: str) -> None:
        answer = json.dumps(whole_answer(play.chunks, self._answer_id(), model)).encode()
        if _is_cut(play):
            self._send(200, answer[: len(answer) // 2], {}, promised=len(answer))
            self.close_connection = True
        else:
            self._send(200, answer, {})

    def _send_stream(self, play: Play, model: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in streamed_answer(play.chunks, self._answer_id(), model):
            self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            self.wfile.flush()
            self._wait(self.chat.behaviour.pause_ms / 1000)
        if _is_cut(play):
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()

    def _answer_id(self) -> str:
        return f"chatcmpl-{len(self.chat.requests)}"

    def _wait(self, seconds: float) -> None:
        """Sleep; raises Gone as soon as the client leaves."""
        if seconds <= 0:
            return
        readable, _, _ = select.select([self.connection], [], [], seconds)
        if readable and self.connection.recv(1, socket.MSG_PEEK) == b"":
            raise Gone


def _is_cut(play: Play) -> bool:
    return not any(isinstance(chunk, FinishChunk) for chunk in play.chunks)


def main() -> None:
    """Serve a script until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--json", action="store_true", help="answer with one JSON body")
    parser.add_argument("--pause-ms", type=int, default=0, help="wait between two events of a stream")
    parser.add_argument("--require-key", help="answer 401 to every other key")
    parser.add_argument("--record", type=Path, help="append every request body to this file")
    options = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with ChatServer(
        options.script,
        port=options.port,
        as_json=options.json,
        pause_ms=options.pause_ms,
        require_key=options.require_key,
        record=options.record,
    ) as server:
        print(server.port, flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
