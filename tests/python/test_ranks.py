"""Which rank a Loader reads for, and that the ranks together read all, in equally many batches (LDR-02)."""

import collections
import json
import multiprocessing
import os
import pathlib

import pytest
import speedyloader as sl

# (rank, world size) as the launchers name them, in the order in which they are asked.
LAUNCHERS = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
]
COUNT = 25


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    """These tests may be run by one, too."""
    for name in [*sum(LAUNCHERS, ()), "SLURM_NTASKS"]:
        monkeypatch.delenv(name, raising=False)


def open_loader(daemon, folder, **options):
    """One epoch of id pictures."""
    options = {"batch_size": 2, "last": "keep", "dtype": "uint8", "epochs": 1, "timeout": 60,
               "socket": str(daemon.socket)} | options
    return sl.Loader(folder, [sl.Resize((2, 2))], **options)


@pytest.fixture
def shard(shared_daemon, id_set):
    """shard(**arguments): rank and world size that a loader takes."""

    def find(**arguments):
        with open_loader(shared_daemon, id_set(COUNT), **arguments) as loader:
            found = loader.spec["shard"]
            return found["rank"], found["world_size"]

    return find


# ---- who says which rank this is ----


def test_alone_is_rank_0_of_1(shard):
    assert shard() == (0, 1)


@pytest.mark.parametrize("rank, world_size", LAUNCHERS)
def test_the_launchers_variables_are_read(shard, monkeypatch, rank, world_size):
    monkeypatch.setenv(rank, "2")
    monkeypatch.setenv(world_size, "3")
    assert shard() == (2, 3)


@pytest.mark.parametrize("rank, world_size", LAUNCHERS)
def test_arguments_are_stronger_than_the_launcher(shard, monkeypatch, rank, world_size):
    monkeypatch.setenv(rank, "2")
    monkeypatch.setenv(world_size, "3")
    assert shard(rank=0, world_size=1) == (0, 1)
    assert shard(rank=4, world_size=5) == (4, 5)


def test_of_several_launchers_the_first_of_the_list_counts(shard, monkeypatch):
    """srun may start torchrun, which starts the job."""
    for position, (rank, world_size) in reversed(list(enumerate(LAUNCHERS))):
        monkeypatch.setenv(rank, str(position))
        monkeypatch.setenv(world_size, "6")
        assert shard() == (position, 6)


@pytest.mark.parametrize("name", sum(LAUNCHERS, ()))
def test_half_of_a_pair_says_nothing(shard, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    assert shard() == (0, 1)


def test_a_batch_script_of_slurm_is_one_process_whatever_SLURM_NTASKS_says(shard, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    assert shard() == (0, 1)


@pytest.mark.parametrize("rank, world_size", LAUNCHERS)
@pytest.mark.parametrize("values", [("first", "2"), ("0", ""), ("0.5", "2")])
def test_variables_that_are_no_numbers_are_an_error_that_names_them(shard, monkeypatch, rank, world_size,
                                                                    values):
    monkeypatch.setenv(rank, values[0])
    monkeypatch.setenv(world_size, values[1])
    with pytest.raises(sl.SpecError) as refused:
        shard()
    assert f"{rank}={values[0]!r}" in str(refused.value)
    assert f"{world_size}={values[1]!r}" in str(refused.value)
    assert shard(rank=0, world_size=1) == (0, 1)  # the arguments make it irrelevant


@pytest.mark.parametrize("arguments", [{"rank": 0}, {"world_size": 1}])
def test_one_argument_alone_is_an_error(shard, monkeypatch, arguments):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(sl.SpecError, match="rank and world_size"):
        shard(**arguments)


@pytest.mark.parametrize("rank, world_size", [(3, 3), (-1, 3), (0, 0), (0, -1), (0, 1 << 40)])
def test_a_rank_outside_the_world_is_an_error_that_names_the_key(shard, rank, world_size):
    with pytest.raises(sl.SpecError, match=r"shard\.(rank|world_size)"):
        shard(rank=rank, world_size=world_size)


def test_from_spec_takes_the_specs_shard_and_else_the_process(shared_daemon, id_set, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with open_loader(shared_daemon, id_set(COUNT), rank=0, world_size=1) as loader:
        spec = loader.spec
    for shard, want in [({"rank": 2, "world_size": 4, "uneven": "drop"}, (2, 4, "drop")),
                        ({"uneven": "wrap"}, (1, 2, "wrap")), (None, (1, 2, None))]:
        document = {key: value for key, value in spec.items() if key != "shard"}
        if shard is not None:
            document["shard"] = shard
        with sl.Loader.from_spec(document, socket=shared_daemon.socket) as loader:
            found = loader.spec["shard"]
        assert (found["rank"], found["world_size"], found.get("uneven")) == want
    with pytest.raises(sl.SpecError, match="rank and world_size"):
        sl.Loader.from_spec(spec | {"shard": {"rank": 1}}, socket=shared_daemon.socket)


# ---- torch.distributed: real processes ----

WORLDS = (3, 2)


def job_of_a_rank(rank, folder, socket, out):
    """A process of a world of three, and then, if its rank is below 2, of a world of two."""
    import torch.distributed as distributed

    # What torch.distributed says counts, not what is left of an outer launcher.
    os.environ.update(RANK="0", WORLD_SIZE="7")
    found = []
    for world_size in WORLDS:
        if rank >= world_size:
            break
        distributed.init_process_group("gloo", init_method=f"file://{out}/meeting_{world_size}", rank=rank,
                                       world_size=world_size)
        loader = sl.Loader(folder, [sl.Resize((2, 2))], batch_size=4, last="keep", dtype="uint8", timeout=60,
                           socket=socket)
        ids = []
        for batch in loader:
            sample_id, valid = batch.torch("sample_id", "valid")
            ids += [i for i, flag in zip(sample_id.tolist(), valid.tolist()) if flag]
        everybody = [None] * world_size
        mine = {"shard": loader.spec["shard"], "length": len(loader), "ids": ids}
        distributed.all_gather_object(everybody, mine)
        found.append(everybody)
        with sl.Loader(folder, [sl.Resize((2, 2))], rank=5, world_size=6, last="pad", socket=socket) as other:
            shard = other.spec["shard"]
            assert (shard["rank"], shard["world_size"]) == (5, 6)  # arguments are stronger
        distributed.destroy_process_group()
    if rank == 0:
        pathlib.Path(out, "found.json").write_text(json.dumps(found))


def test_torch_distributed_says_the_rank_and_the_ranks_share_the_epoch(shared_daemon, id_set, tmp_path):
    torch = pytest.importorskip("torch.multiprocessing")
    multiprocessing.set_forkserver_preload(["torch.distributed"])  # once for all three: it takes long
    arguments = (str(id_set(COUNT)), str(shared_daemon.socket), str(tmp_path))
    torch.start_processes(job_of_a_rank, arguments, nprocs=3, start_method="forkserver")
    found = json.loads((tmp_path / "found.json").read_text())
    assert [len(everybody) for everybody in found] == list(WORLDS)
    for everybody in found:
        assert [(part["shard"]["rank"], part["shard"]["world_size"]) for part in everybody] == [
            (rank, len(everybody)) for rank in range(len(everybody))]
        assert len({part["length"] for part in everybody}) == 1
        assert sorted(i for part in everybody for i in part["ids"]) == list(range(COUNT))


# ---- what the ranks get ----


def take(loader):
    """[[(id, valid) of each row] of each batch]; the number of batches was known before the first."""
    announced = len(loader)
    batches = [list(zip(*(batch.numpy(name).tolist() for name in ("sample_id", "valid")), strict=True))
               for batch in loader]
    assert len(batches) == announced
    loader.close()
    return batches


def take_ranks(daemon, folder, world_size, **options):
    ranks = [take(open_loader(daemon, folder, rank=rank, world_size=world_size, **options))
             for rank in range(world_size)]
    assert len({tuple(map(len, batches)) for batches in ranks}) == 1, "batches of the ranks differ"
    return collections.Counter(i for batches in ranks for batch in batches for i, valid in batch if valid)


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("count", [1, 2, 7, COUNT])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_LDR_02_padded_ranks_have_as_many_batches_and_every_id_once(shared_daemon, id_set, count, batch_size,
                                                                    world_size):
    for last in ("keep", "pad"):
        seen = take_ranks(shared_daemon, id_set(count), world_size, batch_size=batch_size, last=last)
        assert seen == dict.fromkeys(range(count), 1)


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("count", [7, COUNT])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_LDR_02_ranks_that_drop_or_wrap_have_as_many_batches(shared_daemon, id_set, count, batch_size,
                                                             world_size):
    left_over = count % world_size
    wrapped = (world_size - left_over) % world_size
    seen = take_ranks(shared_daemon, id_set(count), world_size, batch_size=batch_size, uneven="drop")
    assert max(seen.values()) == 1 and seen.total() == count - left_over
    seen = take_ranks(shared_daemon, id_set(count), world_size, batch_size=batch_size, uneven="wrap")
    assert sorted(seen) == list(range(count)) and seen.total() == count + wrapped


def test_LDR_02_a_world_larger_than_the_set_still_has_equally_many_batches(shared_daemon, id_set):
    assert take_ranks(shared_daemon, id_set(2), 5) == {0: 1, 1: 1}
    assert take_ranks(shared_daemon, id_set(2), 5, uneven="wrap").keys() == {0, 1}
    with pytest.raises(sl.SpecError, match="uneven"):
        take_ranks(shared_daemon, id_set(2), 5, uneven="drop")


def test_LDR_02_another_epoch_divides_the_set_otherwise(shared_daemon, id_set):
    parts = []
    for rank in range(2):
        with open_loader(shared_daemon, id_set(COUNT), rank=rank, world_size=2, epochs=2) as loader:
            parts.append([{i for batch in loader for i in batch.numpy("sample_id").tolist()}
                          for _ in range(2)])
    assert parts[0][0] | parts[1][0] == parts[0][1] | parts[1][1] == set(range(COUNT))
    assert parts[0][0] != parts[0][1]
