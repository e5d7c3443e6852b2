"""Trains a small network with JAX and Flax on a folder with a sub-folder a class: `jax_train.py FOLDER`."""

import argparse
import itertools

import optax
from flax import nnx

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
    batch_size=16, layout="NHWC")

rngs = nnx.Rngs(0)
model = nnx.Sequential(
    nnx.Conv(3, 32, (3, 3), strides=2, rngs=rngs), nnx.relu,
    nnx.Conv(32, 64, (3, 3), strides=2, rngs=rngs), nnx.relu,
    nnx.Conv(64, 128, (3, 3), strides=2, rngs=rngs), nnx.relu,
    lambda x: x.mean(axis=(1, 2)),
    nnx.Linear(128, len(loader.classes), rngs=rngs))
optimizer = nnx.Optimizer(model, optax.adam(3e-3), wrt=nnx.Param)


@nnx.jit
def train_step(model, optimizer, images, labels):
    def loss_of(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(images), labels).mean()

    loss, gradients = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, gradients)
    return loss


# A loader goes on with the next epoch, in a new order, each time it is iterated over.
batches = itertools.chain.from_iterable(itertools.repeat(loader))
losses = []
for batch in itertools.islice(batches, arguments.steps):
    images, labels = batch.jax("image", "label")  # the images without a copy; JAX makes the labels int32
    losses.append(float(train_step(model, optimizer, images, labels)))

few = max(1, len(losses) // 5)
print(f"loss at the start {sum(losses[:few]) / few:.3f}, at the end {sum(losses[-few:]) / few:.3f}; "
      f"waited {loader.stats()['wait_s']:.2f} s for data")
