"""Tokens, the proofs of rights in a cluster: one for each delivery of a task, and one for each run."""

import hashlib
import hmac
import os
import secrets
from contextlib import suppress

from neuro_cli.core.errors import UserError
from neuro_cli.tls.task_cluster import user_folder

NONCE, MAC = 8, 16  # bytes of a delivery's token
RUN_TOKEN = 32  # bounds of its bytes


class Deliveries:
    """Tokens of a broker's deliveries; ``secret`` stays the same for the broker's life.

    A worker whose broker was restarted, or that counted as lost, may still offer its result: its token remains valid.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def token(self, run: str, task_id: str) -> bytes:
        """Return a new proof that this task was handed out."""
        nonce = secrets.token_bytes(NONCE)
        return nonce + self._mac(nonce, run, task_id)

    def holds(self, token: bytes, run: str, task_id: str) -> bool:
        """Return whether ``token`` belongs to a delivery of this task."""
        return len(token) == NONCE + MAC and hmac.compare_digest(token[NONCE:], self._mac(token[:NONCE], run, task_id))

    def _mac(self, nonce: bytes, run: str, task_id: str) -> bytes:
        named = run.encode()
        text = nonce + len(named).to_bytes(4, "big") + named + task_id.encode()
        return hashlib.blake2b(text, key=self._secret, digest_size=MAC).digest()


def run_token(run: str) -> bytes:
    """Return the token of a named run, random and stored for this user, who may return to the run. Raises UserError."""
    folder = user_folder() / "runs"
    path = folder / hashlib.sha256(run.encode()).hexdigest()[:32]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = folder / f".{secrets.token_hex(8)}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(RUN_TOKEN))
            with suppress(FileExistsError):  # the run has a token already
                os.link(draft, path)
        finally:
            draft.unlink()
        token = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: the token of run {run} cannot be kept there ({error.strerror})") from error
    if len(token) != RUN_TOKEN:
        raise UserError(f"{path}: not the token of a run ({len(token)} bytes); remove it, and give the run another name")
    return token
