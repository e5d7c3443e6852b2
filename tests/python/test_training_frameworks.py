"""PyTorch Lightning, transformers' Trainer and Accelerate train with speedyloader.torch.DataLoader: every item comes
as often as it should, the loss falls, and positions go into checkpoints where the framework keeps them."""

import collections
import json

import pytest

torch = pytest.importorskip("torch")

from guest_loaders import opened  # noqa: E402
from torch.utils import data  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::UserWarning")]
COUNT, SIZE, EPOCHS = 48, 8, 4


class Line(data.Dataset):
    """Points of a line, with which of them it is."""

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        x = torch.tensor([index / COUNT])
        return {"x": x, "labels": 2 * x + 1, "index": index}


class Model(torch.nn.Module):
    """Learns the line, and counts what it sees while it trains, and what its loss was."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.line = torch.nn.Linear(1, 1)
        self.seen = collections.Counter()
        self.losses = []

    def forward(self, x, labels, index):
        loss = torch.nn.functional.mse_loss(self.line(x), labels)
        if self.training:
            self.seen.update(index.tolist())
            self.losses.append(loss.item())
        return {"loss": loss, "logits": self.line(x)}


def assert_learned(model, epochs=EPOCHS):
    assert model.seen == dict.fromkeys(range(COUNT), epochs)
    assert len(model.losses) == epochs * COUNT // SIZE
    assert sum(model.losses[-6:]) < sum(model.losses[:6]) / 2


@pytest.fixture
def loader(shared_daemon):
    with opened(shared_daemon, Line(), batch_size=SIZE, shuffle=True, num_workers=2) as made:
        yield made


# ---- Lightning ----


def lightning_parts(**options):
    """A module of Lightning that trains a Model, and a trainer."""
    lightning = pytest.importorskip("pytorch_lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def training_step(self, batch, number):
            return self.model(**batch)["loss"]

        def validation_step(self, batch, number):
            self.log("loss", self.model(**batch)["loss"])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.3)

    quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return Module(), lightning.Trainer(**quiet | options)


def test_lightning_trains_and_validates(loader, shared_daemon, tmp_path):
    module, trainer = lightning_parts(max_epochs=EPOCHS, enable_checkpointing=False, default_root_dir=tmp_path)
    with opened(shared_daemon, Line(), batch_size=SIZE) as validation:
        trainer.fit(module, loader, validation)
    assert_learned(module.model)
    assert trainer.callback_metrics["loss"] < 0.1


def test_lightnings_checkpoint_holds_the_position_and_training_goes_on_there(loader, shared_daemon, tmp_path):
    callbacks = pytest.importorskip("pytorch_lightning.callbacks")
    saving = callbacks.ModelCheckpoint(tmp_path, "step{step}", every_n_train_steps=9, save_top_k=-1,
                                       auto_insert_metric_name=False)
    module, trainer = lightning_parts(max_epochs=2, callbacks=[saving], default_root_dir=tmp_path)
    trainer.fit(module, loader)
    again, other = lightning_parts(max_epochs=2, enable_checkpointing=False, default_root_dir=tmp_path)
    with opened(shared_daemon, Line(), batch_size=SIZE, shuffle=True, num_workers=1) as fresh:
        other.fit(again, fresh, ckpt_path=tmp_path / "step9.ckpt")
    assert again.model.losses == module.model.losses[9:]


# ---- transformers ----


def trainer(model, loader, folder, **options):
    """A Trainer that trains with the loader, and saves its position with the checkpoints."""
    transformers = pytest.importorskip("transformers")

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            return loader

    class Saving(transformers.TrainerCallback):
        def on_save(self, arguments, state, control, **others):
            (folder / f"position{state.global_step}.json").write_text(json.dumps(loader.state_dict()))

    usual = {"num_train_epochs": EPOCHS, "learning_rate": 0.3, "optim": "sgd", "lr_scheduler_type": "constant",
             "max_grad_norm": 0, "save_strategy": "no", "logging_strategy": "no"}
    arguments = transformers.TrainingArguments(output_dir=str(folder), use_cpu=True, report_to=[], disable_tqdm=True,
                                               **usual | options)
    return Trainer(model=model, args=arguments, callbacks=[Saving()])


def test_transformers_trainer_takes_it_from_get_train_dataloader(loader, tmp_path):
    model = Model()
    done = trainer(model, loader, tmp_path).train()
    assert_learned(model)
    assert done.global_step == EPOCHS * len(loader)


def test_transformers_trainer_goes_on_at_a_position_that_was_saved_with_the_checkpoint(
        loader, shared_daemon, tmp_path):
    model, again = Model(), Model()
    trainer(model, loader, tmp_path, save_strategy="steps", save_steps=9).train()
    with opened(shared_daemon, Line(), batch_size=SIZE, shuffle=True) as fresh:
        fresh.load_state_dict(json.loads((tmp_path / "position9.json").read_text()))
        other = trainer(again, fresh, tmp_path, ignore_data_skip=True)
        other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-9"))
    assert len(again.losses) == len(model.losses) - 9
    assert again.losses[:3] == model.losses[9:12]  # the rest of that epoch; later orders are the random state's


# ---- Accelerate ----


def test_accelerate_gives_it_back_as_it_is_and_saves_its_position(loader, shared_daemon, tmp_path):
    accelerate = pytest.importorskip("accelerate")

    def train(loader, restore):
        accelerator = accelerate.Accelerator(cpu=True)
        model = Model()
        model, optimizer, prepared = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.3), loader)
        assert prepared is loader
        accelerator.register_for_checkpointing(prepared)
        if restore:
            accelerator.load_state(tmp_path)
        while len(model.losses) < EPOCHS * len(loader) - (9 if restore else 0):
            for batch in prepared:
                accelerator.backward(model(**batch)["loss"])
                optimizer.step()
                optimizer.zero_grad()
                if len(model.losses) == 9 and not restore:
                    accelerator.save_state(tmp_path)
        return model

    whole = train(loader, restore=False)
    assert_learned(whole)
    with opened(shared_daemon, Line(), batch_size=SIZE, shuffle=True) as fresh:
        assert train(fresh, restore=True).losses == whole.losses[9:]
