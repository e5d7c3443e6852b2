"""Two users on one daemon: do they share the cores fairly, and what does a user's own crew of workers cost?

Task: photographs, random-resized-crop to 224, flip, float32, batches of 64, one worker a core. Clients run as
two users other than the daemon's (so only root can measure); each takes batches for some seconds as fast as
they come.

  alone    one user with one stream: what there is to share
  1 and 1  two users with a stream each: the share of each in what both get
  1 and 3  one stream of one user against three of another: shares are by user, not by stream
  first    from a user's sl_open to the first batch, the daemon idle: `new` when the user's workers must be
           started, `warm` when they rest since the last stream, `home` for the daemon's own user

It also reads how much memory a crew that rests holds: what its processes would free (USS) and its input buffer.

Caveats: clients are Python and share the cores, so what the users get together is less than `speedyctl run`
reports; shares are what is looked at. The kernel's scheduler makes them: nothing in the daemon weighs users.
"""

import os
import pathlib
import re
import statistics
import sys
import time

import common

TARGETS = ["speedyloaderd", "speedyloader-worker", "speedyloader", "sl_make_photos"]
BATCH = 64
WARM = 2  # seconds, for what lies ready when all begin
SHARE, RATE, MS = "share of the first", "samples/s together", "first batch ms"


def tools():
    """The daemons and the peers of the tests, over the build tree that is measured."""
    os.environ["SL_BUILD_DIR"] = str(common.BUILD)
    sys.path[:0] = [str(common.ROOT / "tests"), str(common.ROOT / "tests" / "domains")]
    import users
    from support import daemon, specs
    return users, daemon, specs


def together(peers, job, seconds):
    """Samples that each peer gets in the same seconds, once what lay ready has been taken."""
    for peer in peers:
        peer.open(job)
        peer.next()
    for peer in peers:
        peer.begin("take_for", WARM, seconds)
    taken = [peer.end() for peer in peers]
    for peer in peers:
        peer.close()
    return taken


def first_batch_ms(peer, job):
    begin = time.monotonic()
    peer.open(job)
    peer.next()
    elapsed = (time.monotonic() - begin) * 1e3
    peer.close()
    return elapsed


def own_kib(pid):
    """Memory that would be free without this process; shared memory counts where it is reserved."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return sum(int(found) for found in re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+)", text, re.MULTILINE))


def measure(options):
    users, daemon, specs = tools()
    if os.geteuid() != 0:
        raise common.BenchError("only root can run clients as other users")
    seconds, rounds = (1, 1) if options.quick else (6, 5)
    folder = common.make_photos(640 if options.quick else 2000)
    job = specs.spec(folder, size=(224, 224), batch=BATCH, seed=1, epochs=100_000)
    one, other = users.ALICE, users.BOB
    resting = []
    with daemon.Daemons() as daemons:
        served = daemons.start(workers=os.cpu_count(), memory="3GiB", wrap=users.as_user(users.SERVICE))
        served.socket.chmod(0o666)
        made = []

        def peer(uid):
            made.append(users.Peer(served, uid, daemons.environment))
            return made[-1]

        def rest():
            """Until no crew but the daemon's own user's is there."""
            for left in made:
                left.leave()
            made.clear()
            daemon.wait_for(lambda: len(served.status()["domains"]) == 1, 30)

        def share(uids):
            taken = together([peer(uid) for uid in uids], job, seconds)
            resting.extend(own_kib(pid) for pid in users.workers_of(served, uids[0]))
            rest()
            return {RATE: sum(taken) / seconds, **({SHARE: taken[0] / sum(taken)} if len(uids) > 1 else {})}

        def first(uid, warm):
            if warm:
                first_batch_ms(peer(uid), job)
            found = first_batch_ms(peer(uid), job)
            rest()
            return {MS: found}

        parts = {"alone": lambda _: share([one]),
                 "1 and 1": lambda _: share([one, other]),
                 "1 and 3": lambda _: share([one, other, other, other]),
                 "first, new": lambda _: first(one, False),
                 "first, warm": lambda _: first(one, True),
                 "first, home": lambda _: first(users.SERVICE, False)}
        results = common.interleave(parts, rounds, lambda text: print(text, file=sys.stderr))
        input_mib = served.status()["memory"]["input_capacity"] >> 20
    rows = [(name, {key: common.column(found, key) for key in found[0]}) for name, found in results.items()]
    figures = {f"{name}: {key}": statistics.median(values) for name, cells in rows for key, values in cells.items()}
    figures |= {"resting worker MiB": statistics.median(resting) / 1024, "input MiB": input_mib}
    note = (f"a worker that rests keeps {figures['resting worker MiB']:.1f} MiB of its own, a crew {input_mib} MiB of "
            "input buffer")
    return common.Report(rows, figures, [note], ("share of the first user", {
        name: cells[SHARE] for name, cells in rows if SHARE in cells}))
