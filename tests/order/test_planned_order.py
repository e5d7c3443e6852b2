"""Which samples come, and when: strict keeps the plan, ready keeps the set (LDR-03)."""

import test_card
from support.capi import Client
from support.specs import id_spec, spec

COUNT = 500


def test_strict_without_shuffling_gives_the_ids_in_their_own_order(daemons, id_set):
    daemon = daemons.start(workers=3, env={"SPEEDYLOADER_TEST_DELAY_US": 2000})
    got = daemons.run(id_spec(id_set(COUNT), shuffle=False, epochs=2), daemon)
    assert got["ids"] == [list(range(COUNT))] * 2


def test_LDR_03_strict_gives_the_planned_ids_in_the_planned_order_for_any_worker_count(daemons, id_set):
    job = id_spec(id_set(COUNT), seed=9, epochs=3)
    plans = [daemons.run(job, daemons.start(workers=workers, env=env))["ids"]
             for workers, env in ((1, {}), (3, {"SPEEDYLOADER_TEST_DELAY_US": 2000}))]
    assert plans[0] == plans[1]
    assert [sorted(ids) for ids in plans[0]] == [list(range(COUNT))] * 3
    assert len({tuple(ids) for ids in plans[0]}) == 3


def test_the_order_does_not_depend_on_the_pipeline_or_the_batch_size(daemons, daemon, id_set):
    folder = id_set(COUNT)
    plan = daemons.run(id_spec(folder, seed=9), daemon)["ids"]
    assert daemons.run(spec(folder, size=(8, 8), seed=9, batch=37), daemon)["ids"] == plan


def test_ready_gives_each_id_once_an_epoch_and_not_in_the_planned_order(daemons, id_set):
    daemon = daemons.start(workers=4, env={"SPEEDYLOADER_TEST_DELAY_US": 3000})
    got = daemons.run(id_spec(id_set(COUNT), policy="ready", shuffle=False, epochs=2), daemon)
    assert [sorted(ids) for ids in got["ids"]] == [list(range(COUNT))] * 2
    assert got["ids"][0] != list(range(COUNT))


def test_each_picture_comes_under_its_own_id_and_label(daemon, id_set):
    with Client(daemon.socket) as client:
        stream = client.open(id_spec(id_set(COUNT)))
        seen = 0
        for batch in stream.batches():
            pixels, labels = batch.array("image")[:, 0, 0], batch.array("label")
            for sample_id, pixel, label in zip(batch.ids(), pixels, labels):
                assert test_card.id_of(pixel) == sample_id
                assert label == sample_id * 3 // COUNT
                seen += 1
        assert seen == COUNT
        stream.close()
