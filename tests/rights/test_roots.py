"""Who may open which dataset: a root's group, what its members could read themselves, and no link out of it."""

import os
import shutil

import pytest
import test_card
from support.capi import Client, Error
from support.daemon import wait_for
from support.specs import id_spec
from support.users import MEMBER, OTHER_MEMBER, STRANGER, User, root

SAMPLES = 12


def ids(stream):
    return sorted(i for batch in stream.batches() for i in batch.ids())


def read_all(daemon, user, folder, **options):
    """The ids that a user gets of a folder, and the report."""
    with user.client(daemon) as client:
        stream = client.open(id_spec(folder, batch=4, **options))
        got = [i for batch in stream.batches() for i, valid in zip(batch.ids(), batch.valid()) if valid]
        report = stream.report()
        stream.close()
    return sorted(got), report


def refusal(daemon, user, folder, **top):
    with user.client(daemon) as client, pytest.raises(Error) as refused:
        client.open(id_spec(folder, **top))
    return refused.value


def denied(daemon, user, folder, *words):
    """The message of the refusal, which names the user and the folder."""
    error = refusal(daemon, user, folder)
    assert error.code == "SL_E_DENIED"
    for word in (f"user {user.uid}", str(folder), *words):
        assert word in error.message
    return error.message


def left_out(report, reason):
    return report["skipped_files"][reason]["count"]


def test_a_member_gets_the_batches_that_the_daemons_own_user_gets(served, daemons, tree):
    job = id_spec(tree / "root" / "train", batch=4)
    own = daemons.run(job, served)
    assert daemons.run(job, served, wrap=MEMBER.command())["hash"] == own["hash"]


def test_a_foreign_user_reads_nothing_outside_the_roots(served, tree):
    for user in (MEMBER, STRANGER):
        denied(served, user, tree / "secret", "[[root]]")
    assert read_all(served, User(0, 0), tree / "secret")[0] == list(range(4))  # the daemon's own user


def test_without_the_group_a_folder_that_was_scanned_is_as_one_that_is_not_there(served, tree):
    folder = tree / "root" / "train"
    before = denied(served, STRANGER, folder, "[[root]]", "group")
    missing = denied(served, STRANGER, tree / "root" / "none")
    with MEMBER.client(served) as client, Client(served.socket) as own:
        streams = client.open(id_spec(folder)), own.open(id_spec(folder))
        assert denied(served, STRANGER, folder) == before
        assert before.replace("train", "none") == missing
        with STRANGER.client(served) as other:
            seen = other.status()
            assert seen["streams"] == [] and seen["scans"] == []
            assert {session["uid"] for session in seen["sessions"]} == {STRANGER.uid}
        assert str(folder) not in str(seen)
        for stream in streams:
            stream.close()


def test_a_trace_tells_a_foreign_user_of_its_own_streams_only(serve, tree):
    daemon = serve(root(tree / "root"))
    own, _ = read_all(daemon, User(0, 0), tree / "root" / "train")
    with MEMBER.client(daemon) as client, STRANGER.client(daemon) as other:
        stream = client.open(id_spec(tree / "root" / "train"))
        ids(stream)
        events, _ = client.trace()
        assert events and {event.stream for event in events} == {client.status()["streams"][0]["id"]}
        assert other.trace()[0] == []
        stream.close()


def test_what_one_user_scanned_serves_no_other(served, tree):
    folder = tree / "root" / "train"
    closed = folder / "class_001"
    closed.chmod(0o700)
    with Client(served.socket) as own:
        kept = own.open(id_spec(folder))
        got, report = read_all(served, MEMBER, folder)
        assert len(got) == 8 and left_out(report, "denied") == 1
        assert read_all(served, User(0, 0), folder)[0] == list(range(SAMPLES))
        os.chown(closed, OTHER_MEMBER.uid, -1)
        assert len(read_all(served, OTHER_MEMBER, folder)[0]) == SAMPLES
        assert len(read_all(served, MEMBER, folder)[0]) == 8
        kept.close()


@pytest.mark.parametrize("mode, opens", [(0o700, False), (0o711, False), (0o744, True), (0o755, True)])
def test_a_folder_is_listed_for_who_may_list_it(serve, tree, mode, opens):
    daemon = serve(root(tree / "root"))
    folder = tree / "root" / "train"
    folder.chmod(mode)
    if opens and mode & 0o001:
        assert len(read_all(daemon, MEMBER, folder)[0]) == SAMPLES
    elif not opens:
        denied(daemon, MEMBER, folder, "mode bits")
    else:  # its names can be read, and nothing that they name
        assert refusal(daemon, MEMBER, folder).code == "SL_E_DATASET"


def test_every_folder_on_the_way_must_let_the_user_search_it(serve, tree):
    daemon = serve(root(tree / "root"))
    inner = tree / "root" / "a" / "b"
    inner.mkdir(parents=True)
    shutil.copytree(tree / "root" / "train", inner / "train")
    assert len(read_all(daemon, MEMBER, inner / "train")[0]) == SAMPLES
    (tree / "root" / "a").chmod(0o700)
    here = denied(daemon, MEMBER, inner / "train", "mode bits")
    assert denied(daemon, MEMBER, inner / "none") == here.replace("train", "none")
    os.chown(tree / "root" / "a", -1, MEMBER.groups[0])
    (tree / "root" / "a").chmod(0o710)
    assert len(read_all(daemon, MEMBER, inner / "train")[0]) == SAMPLES


def test_a_file_that_the_user_may_not_read_is_a_denied_sample(served, tree):
    folder = tree / "root" / "train"
    (folder / "class_000" / "sample_0000001.png").chmod(0o600)
    got, report = read_all(served, MEMBER, folder, errors={"policy": "placeholder"})
    (failure,) = report["failures"]
    assert got == [i for i in range(SAMPLES) if i != 1]
    assert failure["kind"] == "denied" and f"user {MEMBER.uid}" in failure["reason"]


def test_links_lead_around_within_a_root_and_not_out_of_it(served, tree):
    folder = tree / "root" / "linked"
    shutil.copytree(tree / "root" / "train", folder)
    secret = sorted((tree / "secret").rglob("*.png"))[0]
    (folder / "class_000" / "out.png").symlink_to(secret)
    (folder / "class_000" / "up.png").symlink_to("../../../secret/" + str(secret.relative_to(tree / "secret")))
    (folder / "class_000" / "in.png").symlink_to("../../train/class_001/sample_0000004.png")
    (folder / "zz_out").symlink_to(tree / "secret")
    (folder / "zz_in").symlink_to("../train/class_002")
    got, report = read_all(served, MEMBER, folder)
    assert len(got) == SAMPLES + 1 + 4 and left_out(report, "denied") == 3
    assert report["classes"] == ["class_000", "class_001", "class_002", "zz_in"]
    (tree / "root" / "out").symlink_to(tree / "secret")
    (tree / "root" / "up").symlink_to("../secret")
    for name in ("out", "up", "../secret", "train/../../secret", "/../secret"):
        denied(served, MEMBER, f"{tree}/root/{name}", "leads out of the root")
    assert len(read_all(served, MEMBER, f"{tree}/root//linked/.././train/")[0]) == SAMPLES


def test_links_of_proc_lead_nowhere(serve, tree):
    daemon = serve(root("/proc"))
    for name in ("cwd", "root", "fd/0"):
        error = refusal(daemon, MEMBER, f"/proc/{os.getpid()}/{name}")
        assert error.code in ("SL_E_DENIED", "SL_E_DATASET", "SL_E_NOT_FOUND")
    denied(daemon, MEMBER, f"/proc/{os.getpid()}/root{tree}/secret")


def test_a_link_in_the_place_of_a_root_changes_nothing(served, tree):
    (tree / "root").rename(tree / "moved")
    (tree / "root").symlink_to("secret")
    assert read_all(served, MEMBER, tree / "root" / "train")[0] == list(range(SAMPLES))
    assert refusal(served, MEMBER, tree / "root" / "class_000").code == "SL_E_NOT_FOUND"


@pytest.mark.parametrize("target", ["../../../secret/class_000/sample_0000000.png",
                                    "../../closed/class_000/sample_0000000.png"])
def test_a_file_that_became_a_link_since_the_scan_is_denied(served, tree, target):
    folder = tree / "root" / "many"
    paths = test_card.id_pictures(folder, 400, size=(2, 2))
    shutil.copytree(tree / "secret", tree / "root" / "closed")
    (tree / "root" / "closed").chmod(0o700)
    with MEMBER.client(served) as client:
        stream = client.open(id_spec(folder, batch=1, shuffle=False, errors={"policy": "placeholder"}), slots=2)
        paths[390].unlink()  # far beyond what is opened ahead
        paths[390].symlink_to(target)
        for batch in stream.batches():
            assert batch.ids() != [390] or batch.valid() == [0]
        (failure,) = stream.report()["failures"]
        assert failure["sample_id"] == 390 and failure["kind"] == "denied"
        stream.close()


def test_the_size_of_the_first_picture_is_not_told_to_who_may_not_read_it(serve, tree):
    daemon = serve(root(tree / "root"))
    folder = tree / "root" / "one"
    (path,) = test_card.id_pictures(folder, 1, size=(5, 3))
    job = id_spec(folder, batch=1)
    job["pipeline"] = job["pipeline"][:1]
    with MEMBER.client(daemon) as client:
        stream = client.open(job)
        assert stream.next()[1].raw("image")[1] == (1, 3, 5, 3)
        stream.close()
        path.chmod(0o600)
        with pytest.raises(Error, match="SL_E_DATASET"):
            client.open(job)


def test_a_mix_says_which_part_is_denied(serve, tree):
    daemon = serve(root(tree / "root"))
    job = id_spec(tree)
    job["dataset"] = {"kind": "mix", "parts": [{"kind": "image_folder", "path": str(folder)}
                                               for folder in (tree / "root" / "train", tree / "secret")]}
    with MEMBER.client(daemon) as client, pytest.raises(Error) as refused:
        client.open(job)
    assert refused.value.code == "SL_E_DENIED" and "parts[1]" in refused.value.message


def test_two_groups_may_share_a_root_and_a_root_may_lie_in_another(serve, tree):
    inner = tree / "root" / "train"
    daemon = serve(root(tree / "root", 50_777) + root(tree / "root") + root(inner, STRANGER.gid))
    assert len(read_all(daemon, MEMBER, inner)[0]) == SAMPLES
    assert len(read_all(daemon, STRANGER, inner)[0]) == SAMPLES
    shutil.copytree(inner, tree / "root" / "more")
    denied(daemon, STRANGER, tree / "root" / "more", '"50777" or "50001"')


def test_a_relative_path_is_the_clients_own_or_a_clear_error(daemons, tree, as_nobody, monkeypatch):
    daemon = daemons.start(wrap=as_nobody)
    daemon.socket.chmod(0o666)
    monkeypatch.chdir(tree)
    with Client(daemon.socket) as client, pytest.raises(Error) as refused:
        client.open(id_spec("root/train"))
    assert refused.value.code == "SL_E_DENIED" and "give an absolute path" in refused.value.message


def test_a_relative_path_of_a_foreign_user_is_bound_to_the_roots_too(serve, daemons, tree, monkeypatch):
    daemon = serve(root(tree / "root"))
    monkeypatch.chdir(tree)
    assert len(read_all(daemon, MEMBER, "root/train")[0]) == SAMPLES
    denied(daemon, MEMBER, "secret")


def test_everybody_whom_a_private_daemon_lets_in_is_its_own_user(daemons, tree, as_nobody):
    daemon = daemons.start("--private", wrap=as_nobody)
    with Client(daemon.socket) as client:
        assert len(ids(client.open(id_spec(tree / "secret", batch=4)))) == 4
    wait_for(lambda: not daemon.is_alive(), 30)


def test_the_daemon_names_its_own_lack_of_rights(daemons, tree, as_nobody, serve):
    daemon = serve(root(tree / "root"), wrap=as_nobody)
    (tree / "root" / "train").chmod(0o750)
    os.chown(tree / "root" / "train", -1, MEMBER.groups[0])
    message = denied(daemon, MEMBER, tree / "root" / "train")
    assert "the daemon" in message and "65534" in message
