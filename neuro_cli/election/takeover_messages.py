"""Messages of takeover: fields of each type, each with its check."""

from neuro_cli.election.messages import Check, content, head, members, name, number

FIELDS: dict[str, dict[str, Check]] = {
    "beat": {"term": number, "position": number, "head": head, "members": members},
    "commit": {"term": number, "content": content},
    "here": {},
    "level": {},
    "ahead": {"position": number, "head": head},
    "led": {"leader": name},
}
