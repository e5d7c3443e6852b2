"""volumes.py FOLDER COUNT: makes COUNT volumes with KiTS19's spread of sizes, where they are not there yet.

Called by bench/dropin_tail.py; `Volumes` is the data set over them, whose work per item is that of MLPerf's
3-D U-Net pipeline. KiTS19's scans are 29 to 1,059 slices (median about 107) that are 0.5 to 5 mm apart (about
3), of 512 x 512 pixels of 0.44 to 1.04 mm; here they are resampled to 3.2 x 2.4 x 2.4 mm, twice MLPerf's
spacing, so that an epoch takes seconds: 0.7 to 6 million voxels each. Values are smooth
noise; labels are a kidney-like ellipsoid with a tumour in it. A file that is there is kept: sizes and values
are drawn from its number. Fails with NumPy's own error.
"""

import pathlib
import sys

import numpy
import torch

CROP = (64, 64, 64)
FOREGROUND = 0.4  # the share of crops that must hold some
SPACING = (3.2, 2.4, 2.4)  # mm


class Volumes(torch.utils.data.Dataset):
    """`count` items, item i a crop of volume i modulo their number: (64^3 float32, 64^3 uint8), one channel.
    Random balanced crop, flips, brightness, noise, in NumPy."""

    def __init__(self, folder, count):
        files = sorted(str(path) for path in pathlib.Path(folder).glob("*.image.npy"))
        if not files:
            raise FileNotFoundError(f"no volumes in {folder}")
        self.paths = [files[index % len(files)] for index in range(count)]
        self.heavy = []

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        image, label = crop(numpy.load(path), numpy.load(path.replace(".image.", ".label.")))
        for axis in (1, 2, 3):
            if numpy.random.random() < 1 / 3:
                image, label = numpy.flip(image, axis), numpy.flip(label, axis)
        image = image.astype(numpy.float32)
        if numpy.random.random() < 0.1:
            image *= numpy.random.uniform(0.7, 1.3)
        if numpy.random.random() < 0.1:
            image += numpy.random.normal(0, numpy.random.uniform(0, 0.1), image.shape).astype(numpy.float32)
        return numpy.ascontiguousarray(image), numpy.ascontiguousarray(label)


def crop(image, label):
    """A random box of CROP; in two of five cases with a random voxel of a random class of the foreground."""
    room = numpy.array(image.shape[1:]) - CROP
    if numpy.random.random() < FOREGROUND:
        wanted = numpy.random.choice(numpy.unique(label[label > 0]))
        voxels = numpy.argwhere(label[0] == wanted)
        middle = voxels[numpy.random.randint(len(voxels))]
        begin = numpy.clip(middle - numpy.random.randint(0, CROP), 0, room)
    else:
        begin = numpy.random.randint(0, room + 1)
    box = (slice(None), *(slice(at, at + size) for at, size in zip(begin, CROP)))
    return image[box], label[box]


def shape_of(draws):
    """Slices, rows and columns of a scan after resampling, no less than the crop."""
    slices = numpy.clip(draws.lognormal(numpy.log(107), 0.75), 29, 1059)
    # Scans of more slices have thinner ones.
    apart = numpy.clip(321 / slices * draws.lognormal(0, 0.35), 0.5, 5.0)
    across = 512 * draws.uniform(0.44, 1.04)
    shape = numpy.array([slices * apart, across, across]) / SPACING
    return tuple(int(size) for size in numpy.maximum(shape, CROP))


def make(folder, number):
    """Writes volume `number`, whole or not at all."""
    draws = numpy.random.default_rng(number)
    shape = shape_of(draws)
    coarse = draws.standard_normal([-(-size // 8) for size in shape], numpy.float32)
    image = numpy.kron(coarse, numpy.ones((8, 8, 8), numpy.float32))[tuple(slice(size) for size in shape)]
    label = numpy.zeros(shape, numpy.uint8)
    grid = numpy.ogrid[tuple(slice(size) for size in shape)]
    middle = [size * draws.uniform(0.35, 0.65) for size in shape]
    for value, radius in ((1, 0.12), (2, 0.05)):  # the tumour lies in the kidney
        far = sum(((at - centre) / (radius * size)) ** 2 for at, centre, size in zip(grid, middle, shape))
        label[far < 1] = value
    for kind, values in (("label", label), ("image", image)):  # the image last: it says that both are there
        part = folder / f"volume_{number:03}.{kind}.part"
        with open(part, "wb") as file:
            numpy.save(file, values[None])
        part.rename(part.with_suffix(".npy"))


def main():
    folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        if not (folder / f"volume_{number:03}.image.npy").exists():
            make(folder, number)
    for path in folder.glob("*.npy"):
        path.read_bytes()  # warms the cache


if __name__ == "__main__":
    main()
