"""Messages of takeover: fields of each type, each with its check."""

from neuro_cli.election.fields import Field
from neuro_cli.election.messages import CONTENT, HEAD, MEMBERS, NAME, NUMBER

FIELDS: dict[str, dict[str, Field]] = {
    "beat": {"term": NUMBER, "position": NUMBER, "head": HEAD, "members": MEMBERS},
    "commit": {"term": NUMBER, "content": CONTENT},
    "here": {},
    "level": {},
    "ahead": {"position": NUMBER, "head": HEAD},
    "led": {"leader": NAME},
}
