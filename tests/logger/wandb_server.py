"""A stand-in for the server of W&B on the loopback interface: keeps the lines that wandb's own client sends of each run."""

import gzip
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HISTORY = "wandb-history.jsonl"


class WandbServer:
    """Files of runs by name, each a list of lines; ``address`` for WANDB_BASE_URL."""

    def __init__(self) -> None:
        self.files: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        self.address = ""

    def answer(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        if path.endswith("/file_stream"):
            for name, chunk in (content.get("files") or {}).items():
                lines, offset = self.files[path.split("/")[-2]][name], chunk["offset"]
                lines[offset : offset + len(chunk["content"])] = chunk["content"]
        query, name = content.get("query", ""), (content.get("variables") or {}).get("name") or ""
        if "RunResumeStatus" in query:
            return {
                "data": {
                    "model": {"id": "p", "name": "neuro", "entity": {"id": "e", "name": "team"}, "bucket": self._bucket(name)}
                }
            }
        if "CreateRunFiles" in query:
            files = [{"name": each, "uploadUrl": f"{self.address}/upload"} for each in content["variables"]["files"]]
            return {"data": {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}}
        if "UpsertBucket" in query:
            project = {"id": "p", "name": "neuro", "entity": {"id": "e", "name": "team"}}
            return {"data": {"upsertBucket": {"bucket": {"id": "b", "name": name, "project": project}, "inserted": True}}}
        return {"data": {}}

    def _bucket(self, name: str) -> dict[str, Any] | None:
        if name not in self.files:
            return None
        history, events = self.files[name][HISTORY], self.files[name]["wandb-events.jsonl"]
        counts = {"historyLineCount": len(history), "eventsLineCount": len(events), "logLineCount": 0}
        tails = {"historyTail": json.dumps(history[-1:]), "eventsTail": json.dumps(events[-1:])}
        rest = {"summaryMetrics": "{}", "displayName": name, "config": "{}", "tags": [], "notes": None, "wandbConfig": "{}"}
        return {"id": "b", "name": name, **counts, **tails, **rest}


@contextmanager
def serving() -> Iterator[WandbServer]:
    """Serve on a free port until the block ends."""
    state = WandbServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            asked = json.loads(body) if self.path.endswith(("/graphql", "/file_stream")) else {}  # others are files and telemetry
            content = json.dumps(state.answer(self.path, asked)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
