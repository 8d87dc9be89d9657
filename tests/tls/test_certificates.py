"""Certificates of both kinds of key and contexts: both sides show one of the same authority, or no connection stands."""

import datetime
import hashlib
import ssl

import pytest

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from neuro_cli.core.errors import UserError
from neuro_cli.tls.certificates import certificate, context, named, private_text, refuses_authority

VALID = (datetime.datetime(2020, 1, 1), datetime.datetime(2120, 1, 1))
KEYS = {"ed25519": Ed25519PrivateKey.generate, "p256": lambda: ec.generate_private_key(ec.SECP256R1())}


class Side:
    """An authority, and a certificate that it has signed, in files of ``folder``."""

    def __init__(self, folder, make) -> None:
        signer, key, issuer = make(), make(), named("authority")
        self.authority = certificate(signer, issuer, signer, issuer, VALID, signs=True).decode()
        self.chain, self.key = folder / "chain.pem", folder / "key.pem"
        self.chain.write_bytes(certificate(key, named("one"), signer, issuer, VALID, hosts=["localhost", "127.0.0.1"]))
        self.key.write_bytes(private_text(key))

    def tls(self, kind: int, authority: str = "", by_host: bool = False) -> ssl.SSLContext:
        return context(kind, authority or self.authority, self.chain, self.key, by_host)


def shake(client: ssl.SSLContext, server: ssl.SSLContext, host: str = "localhost") -> bytes:
    """Bytes that the client reads once both sides are sure of each other, in memory."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (ours, theirs) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    theirs.write(b"hello")
    return ours.read()


@pytest.fixture(params=KEYS)
def sides(request, tmp_path):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    return [Side(folder, KEYS[request.param]) for folder in folders]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_two_of_one_authority_speak(sides, host):
    one, _ = sides
    client, server = one.tls(ssl.PROTOCOL_TLS_CLIENT, by_host=True), one.tls(ssl.PROTOCOL_TLS_SERVER)
    assert shake(client, server, host) == b"hello"
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake(client, server, "example.org")


def test_another_authority_is_refused_from_either_side(sides):
    one, two = sides
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(one.tls(ssl.PROTOCOL_TLS_CLIENT), two.tls(ssl.PROTOCOL_TLS_SERVER))
    trusting = two.tls(ssl.PROTOCOL_TLS_CLIENT, one.authority)
    with pytest.raises(ssl.SSLError):
        shake(trusting, one.tls(ssl.PROTOCOL_TLS_SERVER))


def test_who_shows_no_certificate_or_speaks_an_older_version_is_refused(sides):
    one, _ = sides
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(cadata=one.authority)
    with pytest.raises(ssl.SSLError):
        shake(bare, one.tls(ssl.PROTOCOL_TLS_SERVER))
    old = one.tls(ssl.PROTOCOL_TLS_CLIENT)
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        shake(old, one.tls(ssl.PROTOCOL_TLS_SERVER))


def test_a_cluster_s_certificate_is_the_same_bytes_at_every_peer_and_in_every_version():
    pytest.importorskip("msgpack")
    from neuro_cli.tls.evolve_peer import Authority

    digest = hashlib.sha256(Authority("a secret for the tests").certificate).hexdigest()
    assert digest == "1ed5e7e24fd822779eba3d4294ad79c5f222020391dfe4877a3f9577dc988569"


def test_the_alert_of_an_unknown_authority_is_known_by_the_name_of_openssl():
    error = ssl.SSLError(1, "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca")
    error.reason = "TLSV1_ALERT_UNKNOWN_CA"
    assert refuses_authority(error) is True
    error.reason = "WRONG_VERSION_NUMBER"
    assert refuses_authority(error) is False


def test_a_host_that_is_none_is_one_line():
    key, name = Ed25519PrivateKey.generate(), named("one")
    with pytest.raises(UserError, match=r"^ä: not a host name and not an address"):
        certificate(key, name, key, name, VALID, hosts=["ä"])
