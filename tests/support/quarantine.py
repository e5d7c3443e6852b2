"""What the tests of the quarantine share: its file, speedyctl's verbs, and all that a client sees of a stream."""

import json
import subprocess
import urllib.parse

from support.capi import Client
from support.daemon import PROGRAMS
from support.specs import id_spec

PLENTY = {"max_failures": 10**6, "max_rate": 1.0}


def file_of(daemons):
    return daemons.folder / "cache" / "speedyloader" / "quarantine"


def path_of(entry):
    """As bytes, whatever is in it."""
    if "path_percent" in entry:
        return urllib.parse.unquote_to_bytes(entry["path_percent"])
    return entry["path"].encode()


def remembered(daemons):
    """{path: entry} of what is on disk."""
    lines = file_of(daemons).read_text().splitlines() if file_of(daemons).exists() else []
    return {path_of(entry).decode(errors="surrogateescape"): entry for entry in map(json.loads, lines)}


def control(daemons, *arguments):
    command = [PROGRAMS / "speedyctl", "quarantine", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=daemons.environment, timeout=60)


def outcome(daemon, job):
    """Everything that a client can see of a stream: its batches byte for byte, and its failures."""
    with Client(daemon.socket) as client:
        stream = client.open(job)
        batches = [[batch.raw(name)[2] for name in ("image", "sample_id", "valid", "label")]
                   for batch in stream.batches()]
        report = stream.report()
        stream.close()
    return batches, sorted(map(json.dumps, report["failures"])), report["epochs"]


def decoded(daemon):
    return sum(worker["completed"] for worker in daemon.status()["workers"])


def id_job(folder, **options):
    return id_spec(folder, batch=10, errors={"policy": "placeholder", **PLENTY}, **options)
