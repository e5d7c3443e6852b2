"""Trains on several processes, on the CPU: `torchrun --standalone --nproc-per-node 2 ddp_train.py FOLDER`."""

import argparse

import torch
import torch.distributed as dist
import torchvision

import speedyloader as sl

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--size", type=int, default=64, help="height and width of the crops")
arguments = parser.parse_args()

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
loader = sl.Loader(  # asks torch.distributed for the rank; batches are those of one rank
    sl.ImageFolder(arguments.folder),
    [sl.RandomResizedCrop(arguments.size), sl.Normalize(sl.IMAGENET_MEAN, sl.IMAGENET_STD)],
    batch_size=8)

torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(
    torchvision.models.resnet18(weights=None, num_classes=len(loader.classes)))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

for epoch in range(arguments.epochs):
    losses, ids = [], []
    for batch in loader:
        images, labels, sample_ids = batch.torch("image", "label", "sample_id")
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        ids += sample_ids.tolist()
    everyone = [None] * ranks
    dist.all_gather_object(everyone, ids)
    shared = sum(map(len, everyone)) - len(set().union(*everyone))
    mean = sum(losses) / len(losses)
    print(f"rank {rank} of {ranks}, epoch {epoch}: {len(losses)} batches, loss {mean:.3f}, "
          f"{shared} samples twice", flush=True)
dist.destroy_process_group()
