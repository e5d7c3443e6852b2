"""hold.py SOCKET SPEC N: a client that takes N batches, says so, and keeps them until it is killed.

A line on its standard input makes it release them and go on to the end of the stream, then it prints how many
batches it had in all.
"""

import json
import sys

from support.capi import Client

socket, spec_file, wanted = sys.argv[1:]
with Client(socket, "hold") as client:
    with open(spec_file) as file:
        stream = client.open(json.load(file))
    held = [stream.next()[1] for _ in range(int(wanted))]
    print("holding", flush=True)
    if sys.stdin.readline():
        for batch in held:
            batch.release()
        print(len(held) + sum(1 for _ in stream.batches()), flush=True)
