"""No stream waits for ever, whatever fails, in whatever order, and however long its consumer sleeps (promise 7)."""

import resource

import pytest
from PIL import Image

import test_card
from support.capi import Client, Error
from support.daemon import wait_for
from support.specs import id_spec


def slow_and_cut(path):
    """A picture that takes long to decode and fails at its very end, so that it is the last of its batch."""
    noise = Image.effect_noise((3000, 2000), 80).convert("RGB")
    noise.save(path, format="JPEG", quality=90)
    test_card.cut(path, path, share=0.98)


@pytest.mark.parametrize("batch, count, slots", [(4, 4, 4), (8, 41, 1)])
def test_the_error_of_policy_fail_arrives_when_the_bad_sample_is_the_last_to_finish(
        daemon, open_folder, batch, count, slots):
    slow_and_cut(test_card.id_pictures(open_folder, count)[count // 2])
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(open_folder, batch=batch, errors={"policy": "fail"}), slots=slots)
        with pytest.raises(Error, match="before the picture is complete"):
            for _ in stream.batches():
                pass
        stream.close()


def test_ready_order_goes_on_when_substitutes_need_slots_across_the_seam_of_epochs(daemons, open_folder):
    slow_and_cut(test_card.id_pictures(open_folder, 15)[7])
    daemon = daemons.start(workers=3)
    with Client(daemon.socket) as client:
        job = id_spec(open_folder, batch=5, policy="ready", epochs=120,
                      errors={"policy": "refill", "max_failures": 10**6, "max_rate": 1.0})
        stream = client.open(job, slots=1)
        assert sum(1 for _ in stream.batches()) == 3 * 120
        stream.close()


def test_what_waits_for_a_sleeping_consumer_is_bounded_also_when_every_sample_fails(daemon, open_folder):
    for path in test_card.id_pictures(open_folder, 300):
        test_card.empty(path)
    with Client(daemon.socket) as client, Client(daemon.socket) as other:
        stream = client.open(id_spec(open_folder, batch=10, epochs=10**9, errors={
            "policy": "placeholder", "max_failures": 10**9, "max_rate": 1.0}))
        wait_for(lambda: other.status()["streams"][0]["failed"] > 400, what="failures")
        failed = [other.status()["streams"][0]["failed"] for _ in range(50)]
        assert max(failed) < 5000  # it has stopped running ahead
        assert stream.next()[1].valid() == [0] * 10
        stream.close()


def test_LDR_11_streams_that_wait_for_their_consumers_leave_descriptors_to_others(daemons, open_folder):
    test_card.id_pictures(open_folder, 1000)
    daemon = daemons.start(wrap=["sh", "-c", 'ulimit -n 256; exec "$@"', "sh"])
    assert resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)[0] == 256
    with Client(daemon.socket) as client:
        idle = [client.open(id_spec(open_folder, batch=8)) for _ in range(6)]
        got = daemons.run(id_spec(open_folder, batch=8), daemon)
        assert sorted(got["ids"][0]) == list(range(1000))
        assert got["failed"] == 0
        for stream in idle:
            stream.close()
