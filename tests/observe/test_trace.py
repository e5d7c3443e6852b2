"""`speedyctl trace`: a file that the viewer can open, and that says what happened.

The structure is that of the Trace Event Format; the facts are checked against what the daemon, the kernel and the
client know from elsewhere.
"""

import collections
import json
import subprocess

import pytest
from support.capi import Client
from support.daemon import PROGRAMS, wait_for
from support.specs import id_spec, spec

EPOCHS, BATCH = 3, 16
SLACK_US = 0.002  # times are rounded to nanoseconds


def take_trace(daemons, daemon, *flags):
    file = daemons.folder / "trace.json"
    daemons.ask(daemon, "trace", "-o", file, *flags)
    return Trace(json.loads(file.read_text()))


class Trace:
    def __init__(self, document):
        assert document["displayTimeUnit"] == "ms"
        self.events = [event for event in document["traceEvents"] if event["ph"] != "M"]
        self.names = {(event["pid"], event["tid"], event["name"]): event["args"]["name"]
                      for event in document["traceEvents"] if event["ph"] == "M"}

    def of(self, category, phase="X"):
        return [event for event in self.events if event["cat"] == category and event["ph"] == phase]

    def pairs(self, category):
        """(begin, end) of each id; both must be there once."""
        ends = {event["id"]: event for event in self.of(category, "e")}
        begins = self.of(category, "b")
        assert len(begins) == len(ends) == len({event["id"] for event in begins})
        return [(begin, ends[begin["id"]]) for begin in begins]


@pytest.fixture(scope="module")
def run(photos, request):
    """One run of three epochs: (its trace, what else is known of it)."""
    from support.daemon import Daemons
    with Daemons() as daemons:
        daemon = daemons.start()
        with Client(daemon.socket) as client:
            before = client.status()
            stream = client.open(spec(photos, size=(224, 224), batch=BATCH, epochs=EPOCHS))
            batches = {batch.place()[2]: sorted(batch.ids()) for batch in stream.batches()}
            known = {"batches": batches, "samples": 200 * EPOCHS}
            # The last return is on its way.
            after = wait_for(lambda: (s := client.status())["streams"][0]["leased"] == 0 and s)
            known["workers_cpu"] = sum(s["cpu_seconds"] - s["daemon_cpu_seconds"] for s in (after,)) - (
                before["cpu_seconds"] - before["daemon_cpu_seconds"])
            known["status"] = after
            yield take_trace(daemons, daemon), known
            stream.close()


def test_tracks_have_names_and_times_go_forward(run):
    trace, _ = run
    names = set(trace.names.values())
    assert {"speedyloaderd", "workers", "worker 0", "worker 1", "assembler 0", "reader", "consumer"} <= names
    assert any("photos" in name for name in names)
    named = {(pid, tid) for pid, tid, what in trace.names if what == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in trace.events} <= named
    times = [event["ts"] for event in trace.events]
    assert times == sorted(times) and times[0] == 0


def test_spans_of_a_track_do_not_overlap(run):
    trace, _ = run
    tracks = collections.defaultdict(list)
    for event in trace.events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    assert len(tracks) >= 3
    for track in tracks.values():
        for first, second in zip(track, track[1:]):
            assert first["ts"] + first["dur"] <= second["ts"] + SLACK_US, (first, second)


def test_every_begin_has_its_end(run):
    trace, known = run
    for category, count in (("open", known["samples"]), ("read", known["samples"]),
                            ("lease", len(known["batches"]))):
        pairs = trace.pairs(category)
        assert len(pairs) == count
        assert all(begin["ts"] <= end["ts"] and begin["name"] == end["name"] for begin, end in pairs)


def test_every_sample_is_decoded_once_an_epoch_and_read_before(run):
    trace, known = run
    decodes = {(e["args"]["epoch"], e["args"]["sample"]): e for e in trace.of("decode")}
    assert len(trace.of("decode")) == len(decodes) == known["samples"]
    for begin, end in trace.pairs("read"):
        decode = decodes[begin["args"]["epoch"], begin["args"]["sample"]]
        assert end["ts"] <= decode["ts"] + SLACK_US
        assert begin["args"]["bytes"] > 0


def test_the_rows_of_a_batch_are_its_samples_and_lie_before_its_publication(run):
    trace, known = run
    decoded = {(e["args"]["epoch"], e["args"]["sample"]): e["ts"] + e["dur"] for e in trace.of("decode")}
    rows = collections.defaultdict(list)
    for row in trace.of("assemble"):
        rows[row["args"]["step"]].append(row)
        assert decoded[row["args"]["epoch"], row["args"]["sample"]] <= row["ts"] + SLACK_US
    published = {event["args"]["step"]: event for event in trace.of("batch", "i")}
    assert published.keys() == rows.keys() == known["batches"].keys()
    for step, event in published.items():
        assert sorted(row["args"]["sample"] for row in rows[step]) == known["batches"][step]
        assert event["args"]["rows"] == len(rows[step])
        assert max(row["ts"] + row["dur"] for row in rows[step]) <= event["ts"] + SLACK_US


def test_decodes_add_up_to_what_the_kernel_and_the_status_say(run):
    trace, known = run
    decodes = trace.of("decode")
    cpu = sum(event["args"]["actual_ms"] for event in decodes) / 1e3
    # The workers' hand-overs and their first use of the codecs come on top.
    assert cpu <= known["workers_cpu"] + 0.02
    assert cpu >= 0.6 * known["workers_cpu"] - 0.1
    assert all(event["args"]["actual_ms"] <= event["dur"] / 1e3 + 0.05 for event in decodes)
    stages = known["status"]["stages"]
    busy = sum(event["dur"] for event in decodes) / 1e6
    assert busy == pytest.approx(stages["decode"]["busy_s"], abs=1e-3)
    rows = sum(event["dur"] for event in trace.of("assemble")) / 1e6
    assert rows == pytest.approx(stages["assemble"]["busy_s"], abs=1e-3)


def test_a_decode_says_its_class_and_what_was_predicted(run):
    trace, _ = run
    for event in trace.of("decode"):
        assert event["name"] == "decode " + event["args"]["class"]
        assert event["args"]["class"] in ("light", "medium", "heavy")
        assert event["args"]["error"] == ""
    assert sum(event["args"]["predicted_ms"] > 0 for event in trace.of("decode")) > 500


def test_the_slowest_samples_of_the_status_are_the_traces(run):
    trace, known = run
    worst = collections.defaultdict(float)
    for event in trace.of("decode"):
        sample = event["args"]["sample"]
        worst[sample] = max(worst[sample], event["args"]["actual_ms"])
    slowest = known["status"]["streams"][0]["slowest"]
    assert len(slowest) == 8
    assert [s["ms"] for s in slowest] == pytest.approx(sorted(worst.values(), reverse=True)[:8], abs=1e-3)
    assert all(worst[s["sample_id"]] == pytest.approx(s["ms"], abs=1e-3) for s in slowest)
    assert all(s["path"].endswith(".jpg") for s in slowest)


def test_the_seam_is_seen_and_has_no_drain(run):
    trace, _ = run
    ends = {event["args"]["epoch"]: event["ts"] for event in trace.of("epoch", "i")}
    assert sorted(ends) == list(range(EPOCHS))
    for epoch in range(1, EPOCHS):
        first = min(e["ts"] for e in trace.of("decode") if e["args"]["epoch"] == epoch)
        assert first < ends[epoch - 1]


def test_a_consumer_that_asks_too_early_is_seen_to_wait(daemons, few_photos):
    daemon = daemons.start(env={"SPEEDYLOADER_TEST_DELAY_US": 200_000})  # so that it does, however busy the machine
    with Client(daemon.socket) as client:
        stream = client.open(spec(few_photos, size=(64, 64), batch=4))
        stream.next()[1].release()
        trace = take_trace(daemons, daemon)
        waits = trace.of("wait")
        first = min(event["ts"] for event in trace.of("batch", "i"))
        # Nothing was there when it asked for the first batch, and the wait ends as that is published.
        assert any(event["ts"] + event["dur"] == pytest.approx(first, abs=SLACK_US) for event in waits)
        consumer = client.status()["streams"][0]["consumer"]
        assert sum(event["dur"] for event in waits) / 1e6 <= consumer["waited_s"] + 1e-3
        stream.close()


def test_work_that_waits_for_a_returned_batch_is_seen_as_a_full_ring(daemons, id_set):
    daemon = daemons.start()
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(id_set(60), batch=2, epochs=2), slots=2)
        _, held = stream.next()
        wait_for(lambda: client.status()["streams"][0]["waits_for_consumer"])
        held.release()
        wait_for(lambda: take_trace(daemons, daemon).of("full"))
        full = take_trace(daemons, daemon).of("full")[0]
        assert full["dur"] > 0 and full["name"] == "ring full"
        status = client.status()["streams"][0]["consumer"]
        assert status["waited_for_s"] >= full["dur"] / 1e6 - 1e-6
        stream.close()


def test_only_the_last_seconds_are_given_if_asked_for(daemons, few_photos):
    daemon = daemons.start()
    with Client(daemon.socket) as client:
        stream = client.open(spec(few_photos, epochs=1))
        for _ in stream.batches():
            pass
        stream.close()
    everything = take_trace(daemons, daemon).events
    wait_for(lambda: not take_trace(daemons, daemon, "--seconds", "0.3").events)
    assert len(take_trace(daemons, daemon, "--seconds", "3600").events) == len(everything) > 0


def test_a_daemon_that_has_done_nothing_gives_an_empty_trace(daemons):
    daemon = daemons.start()
    assert take_trace(daemons, daemon).events == []
    said = json.loads(daemons.ask(daemon, "trace", "-o", daemons.folder / "empty.json", "--json"))
    assert (said["events"], said["overwritten"]) == (0, 0)


def test_a_trace_can_go_to_stdout_and_a_file_that_cannot_be_written_is_an_error(daemons):
    daemon = daemons.start()
    assert "traceEvents" in json.loads(daemons.ask(daemon, "trace", "-o", "-"))
    command = [PROGRAMS / "speedyctl", "trace", "--socket", daemon.socket, "-o", "/nonexistent/trace.json"]
    done = subprocess.run(command, capture_output=True, text=True, env=daemons.environment, timeout=60)
    assert done.returncode == 1 and "/nonexistent/trace.json" in done.stderr


def test_a_bad_sample_has_its_error_in_the_trace(daemons, open_folder):
    import test_card
    test_card.id_pictures(open_folder, 6)
    bad = next(open_folder.rglob("*.png"))
    bad.write_bytes(bad.read_bytes()[:20])
    daemon = daemons.start()
    errors = {"policy": "placeholder", "max_failures": 10, "max_rate": 1.0}
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(open_folder, batch=3, errors=errors))
        for _ in stream.batches():
            pass
        failures = stream.report()["failures"]
        stream.close()
    told = [event["args"] for event in take_trace(daemons, daemon).of("decode") if event["args"]["error"]]
    assert [(args["sample"], args["error"]) for args in told] == [(f["sample_id"], f["kind"]) for f in failures]
    assert len(told) == 1
