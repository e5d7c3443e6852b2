"""Trains a small network with Keras on a folder with a sub-folder a class: `keras_train.py FOLDER`."""

import argparse
import itertools
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import keras

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

keras.utils.set_random_seed(0)
model = keras.Sequential([
    keras.Input((arguments.size, arguments.size, 3)),
    keras.layers.Conv2D(32, 3, strides=2, activation="relu"), keras.layers.BatchNormalization(),
    keras.layers.Conv2D(64, 3, strides=2, activation="relu"), keras.layers.BatchNormalization(),
    keras.layers.Conv2D(128, 3, strides=2, activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(len(loader.classes)),
])
model.compile(keras.optimizers.Adam(3e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))

# A loader goes on with the next epoch, in a new order, each time it is iterated over.
batches = itertools.chain.from_iterable(itertools.repeat(loader))
losses = []
for batch in itertools.islice(batches, arguments.steps):
    images, labels = batch.tf("image", "label")  # no copy: they lie in the ring
    losses.append(float(model.train_on_batch(images, labels)))
    model.reset_metrics()  # else each loss is the mean of all before it

few = max(1, len(losses) // 5)
print(f"loss at the start {sum(losses[:few]) / few:.3f}, at the end {sum(losses[-few:]) / few:.3f}; "
      f"waited {loader.stats()['wait_s']:.2f} s for data")
