"""Samples that are bad themselves are not decoded again, over epochs and restarts, and batches do not show it."""

import json
import os

import pytest
import test_card
from PIL import Image
from support.daemon import wait_for
from support.quarantine import PLENTY, control, decoded, file_of, id_job, outcome, remembered
from support.specs import spec

COUNT = 40


@pytest.fixture
def pictures(open_folder):
    return test_card.id_pictures(open_folder, COUNT)


def test_LDR_05_a_poison_sample_kills_no_worker_in_the_next_epoch_or_after_a_restart(daemons, pictures, open_folder):
    pictures[7].write_bytes(b"SL-TEST-ABORT")
    daemon = daemons.start()
    first = outcome(daemon, id_job(open_folder, epochs=5))
    assert len(first[1]) == 5 and all('"poison"' in failure for failure in first[1])
    assert daemon.status()["worker_deaths"] <= 4  # epochs overlap: two may have begun before the first failure
    deaths = daemon.status()["worker_deaths"]
    assert outcome(daemon, id_job(open_folder, epochs=5)) == first
    assert daemon.status()["worker_deaths"] == deaths
    daemon.stop()
    daemon.start()
    assert outcome(daemon, id_job(open_folder, epochs=5)) == first
    assert daemon.status()["worker_deaths"] == 0


def test_what_a_daemon_found_before_it_was_killed_is_known_to_the_next(daemons, pictures, open_folder):
    test_card.cut(pictures[7], pictures[7], share=0.7)
    daemon = daemons.start()
    first = outcome(daemon, id_job(open_folder))
    wait_for(lambda: str(pictures[7]) in remembered(daemons), 10, "the entry")
    daemon.kill()
    daemon.start()
    assert outcome(daemon, id_job(open_folder)) == first
    assert decoded(daemon) == COUNT - 1


def damage(folder):
    """A set whose files are bad in every way that is remembered, and some that are whole."""
    kinds = test_card.damaged_folder(folder / "a", good=24)
    for number in range(6):  # whether such a one fails depends on the crop that is drawn
        whole = test_card.write_jpeg(folder / "b" / f"{number}.jpg")
        test_card.scrambled(whole, whole, seed=number, start=0.6)
    Image.new("RGB", (500, 400)).save(folder / "a" / "large.png")
    return kinds


@pytest.mark.parametrize("policy", ["refill", "placeholder"])
def test_batches_and_reports_are_the_same_with_what_is_known_and_without(daemons, open_folder, policy):
    damage(open_folder)
    job = spec(open_folder, size=(16, 16), batch=4, dtype="uint8", epochs=4, errors={"policy": policy, **PLENTY})
    job["dataset"]["max_pixels"] = 150_000
    daemon = daemons.start(workers=1)
    first = outcome(daemon, job)
    kinds = {json.loads(failure)["kind"] for failure in first[1]}
    assert {"empty", "truncated", "corrupt", "unsupported_format", "pixel_budget"} <= kinds
    daemon.stop()
    assert {entry["kind"] for entry in remembered(daemons).values()} >= kinds - {"not_found"}
    daemon.start()
    before = decoded(daemon)
    assert outcome(daemon, job) == first
    knowing = decoded(daemon) - before
    fresh = daemons.start(workers=3, env={"XDG_CACHE_HOME": daemons.folder / "another",
                                          "SPEEDYLOADER_TEST_DELAY_US": 3000})
    before = decoded(fresh)
    assert outcome(fresh, job) == first
    assert knowing < decoded(fresh) - before  # and it was not for nothing


def test_what_depends_on_the_spec_is_not_held_against_another_spec(daemons, pictures, open_folder):
    daemon = daemons.start()
    Image.new("RGB", (50, 40), (7, 0, 0)).save(pictures[7])
    job = id_job(open_folder)
    job["dataset"]["max_pixels"] = 1000
    assert [json.loads(failure)["kind"] for failure in outcome(daemon, job)[1]] == ["pixel_budget"]
    assert outcome(daemon, id_job(open_folder))[1] == []


def test_a_file_that_has_changed_is_tried_again_and_its_entry_goes(daemons, pictures, open_folder):
    whole = pictures[7].read_bytes()
    test_card.cut(pictures[7], pictures[7], share=0.7)
    daemon = daemons.start()
    assert len(outcome(daemon, id_job(open_folder))[1]) == 1
    wait_for(lambda: remembered(daemons), 10, "the entry")
    pictures[7].write_bytes(whole)
    assert outcome(daemon, id_job(open_folder))[1] == []
    wait_for(lambda: not remembered(daemons), 10, "the file without the entry")


def test_the_same_size_and_another_time_is_another_file(daemons, pictures, open_folder):
    whole = pictures[7].read_bytes()
    pictures[7].write_bytes(bytes(len(whole)))
    daemon = daemons.start()
    assert len(outcome(daemon, id_job(open_folder))[1]) == 1
    status = pictures[7].stat()
    pictures[7].write_bytes(whole)
    os.utime(pictures[7], ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert outcome(daemon, id_job(open_folder))[1] == []


@pytest.mark.parametrize("content", [b"{}\n", b"\xff\xfe\x00junk", b'{"path": "/a", "size": 1'])
def test_a_damaged_quarantine_is_reported_and_begun_anew(daemons, pictures, open_folder, content):
    pictures[7].write_bytes(b"no picture")
    file_of(daemons).parent.mkdir(parents=True)
    file_of(daemons).write_bytes(content)
    file_of(daemons).chmod(0o600)
    daemon = daemons.start()
    assert "is begun anew: line 1 is damaged" in daemon.log()
    assert len(outcome(daemon, id_job(open_folder))[1]) == 1
    daemon.stop()
    assert list(remembered(daemons)) == [str(pictures[7])]


def test_the_quarantine_of_another_user_is_not_believed(daemons, pictures, open_folder):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    pictures[7].write_bytes(b"no picture")
    daemon = daemons.start()
    outcome(daemon, id_job(open_folder))
    daemon.stop()
    os.chown(file_of(daemons), 65534, 65534)
    daemon.start()
    assert "is not believed" in daemon.log()
    assert len(outcome(daemon, id_job(open_folder))[1]) == 1
    assert decoded(daemon) == COUNT


def test_a_cache_folder_that_cannot_be_written_costs_the_memory_and_no_sample(daemons, pictures, open_folder):
    pictures[7].write_bytes(b"no picture")
    (daemons.folder / "cache").write_text("a file where the folder should be")
    daemon = daemons.start()
    first = outcome(daemon, id_job(open_folder, epochs=2))
    assert outcome(daemon, id_job(open_folder, epochs=2)) == first
    wait_for(lambda: "quarantine: cannot open" in daemon.log(), 10, daemon.log)


def test_speedyctl_lists_and_forgives_while_the_daemon_runs(daemons, pictures, open_folder):
    for number in (7, 8, 9):
        pictures[number].write_bytes(b"no picture")
    daemon = daemons.start()
    first = outcome(daemon, id_job(open_folder))
    wait_for(lambda: len(remembered(daemons)) == 3, 10, "three entries")
    listed = json.loads(control(daemons, "list", "--json").stdout)
    assert [entry["path"] for entry in listed["entries"]] == [str(pictures[i]) for i in (7, 8, 9)]
    assert {entry["kind"] for entry in listed["entries"]} == {"unsupported_format"}
    assert all(entry["reason"] and entry["time"] > 1e9 for entry in listed["entries"])
    assert "3 samples in quarantine" in control(daemons, "list").stdout

    refused = control(daemons, "forgive", pictures[7], pictures[0])
    assert refused.returncode == 1 and "nothing was forgiven" in refused.stderr
    assert control(daemons, "forgive").returncode == 2
    assert len(remembered(daemons)) == 3

    def tried(*arguments):
        assert control(daemons, "forgive", *arguments).returncode == 0
        before = decoded(daemon)
        assert outcome(daemon, id_job(open_folder)) == first
        wait_for(lambda: len(remembered(daemons)) == 3, 10, "what failed again")
        return decoded(daemon) - before

    assert tried(pictures[7]) == COUNT - 2
    assert tried(open_folder) == COUNT
    assert tried("--all", "--json") == COUNT


def test_the_file_keeps_ten_thousand_entries_and_the_oldest_make_room(daemons, pictures, open_folder):
    entry = {"size": 1, "mtime_ns": 1, "kind": "corrupt", "reason": "it was", "offset": -1, "context": 0, "version": "0"}
    file_of(daemons).parent.mkdir(parents=True)
    lines = [json.dumps({"path": f"/old/{i:05d}", "time": i, **entry}) for i in range(10_000)]
    file_of(daemons).write_text("\n".join(lines) + "\n")
    file_of(daemons).chmod(0o600)
    pictures[7].write_bytes(b"no picture")
    daemon = daemons.start()
    outcome(daemon, id_job(open_folder))
    wait_for(lambda: str(pictures[7]) in remembered(daemons), 30, "the entry")
    kept = remembered(daemons)
    assert len(kept) == 10_000
    assert str(pictures[7]) in kept and "/old/00000" not in kept and "/old/00001" in kept
