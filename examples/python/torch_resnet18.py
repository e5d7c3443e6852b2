"""Trains torchvision's ResNet-18 on a folder with a sub-folder a class: `torch_resnet18.py FOLDER`."""

import argparse
import itertools

import torch
import torchvision

import speedyloader as sl

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder")
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--size", type=int, default=64, help="height and width of the crops")
arguments = parser.parse_args()

loader = sl.Loader(
    sl.ImageFolder(arguments.folder),
    [sl.RandomResizedCrop(arguments.size), sl.RandomHorizontalFlip(),
     sl.Normalize(sl.IMAGENET_MEAN, sl.IMAGENET_STD)],
    batch_size=16)

torch.manual_seed(0)
model = torchvision.models.resnet18(weights=None, num_classes=len(loader.classes))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

# A loader goes on with the next epoch, in a new order, each time it is iterated over.
batches = itertools.chain.from_iterable(itertools.repeat(loader))
losses = []
for batch in itertools.islice(batches, arguments.steps):
    images, labels = batch.torch("image", "label")  # no copy: they lie in the ring
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

few = max(1, len(losses) // 5)
print(f"loss at the start {sum(losses[:few]) / few:.3f}, at the end {sum(losses[-few:]) / few:.3f}; "
      f"waited {loader.stats()['wait_s']:.2f} s for data")
