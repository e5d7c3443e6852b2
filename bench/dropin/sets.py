"""The data sets of bench/dropin_tail.py: ordinary map-style ones, which know nothing of any loader.

    a  photographs of which one in 100 is a progressive JPEG of 24 megapixels   d  photographs of one size
    b  speech: one item in five costs 6 or 20 times the others                  c  volumes (volumes.py)

`make(name, place, count)`: a folder for a and d, the folder of volumes for c, not looked at for b. What is
random in an item comes from torch's or NumPy's global generator, which every loader seeds. Imported by
loader.py, costs.py and the loaders' workers. Fails with the error of the library that reads the file.
"""

import pathlib

import numpy
import torch
from torchvision import io
from torchvision.transforms import v2

from volumes import Volumes

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Photographs(torch.utils.data.Dataset):
    """A folder of class folders: (3 x 224 x 224 float32, label)."""

    def __init__(self, folder):
        files = sorted(pathlib.Path(folder).glob("*/*.jpg"))
        classes = sorted({file.parent.name for file in files})
        self.paths = [str(file) for file in files]
        self.labels = [classes.index(file.parent.name) for file in files]
        self.heavy = [index for index, file in enumerate(files) if file.name.startswith("heavy")]
        self.transform = v2.Compose([
            v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = io.decode_jpeg(io.read_file(self.paths[index]), mode=io.ImageReadMode.RGB)
        return self.transform(image), self.labels[index]


class Speech(torch.utils.data.Dataset):
    """Log-mel features of a clip, averaged over its windows: (80 x 64 float32, windows).

    A window is a fixed piece of arithmetic (about 2 ms): 64 frames of 1,024 samples, windowed, a real
    transform, a filter bank. Four clips in five have one window; the others have 6 or 20, by a draw that
    belongs to the clip.
    """

    FRAMES, WIDTH, BANDS = 64, 1024, 80

    def __init__(self, count):
        draws = numpy.random.default_rng(1)
        long = draws.random(count) < 0.2
        self.windows = numpy.where(long, draws.choice([6, 20], count), 1)
        self.heavy = numpy.flatnonzero(self.windows > 1).tolist()
        self.taper = numpy.hanning(self.WIDTH).astype(numpy.float32)
        edges = numpy.geomspace(2, self.WIDTH // 2, self.BANDS + 2)
        bins = numpy.arange(self.WIDTH // 2 + 1)[None, :]
        low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
        bank = numpy.minimum((bins - low) / (middle - low), (high - bins) / (high - middle))
        self.bank = numpy.maximum(bank, 0).astype(numpy.float32)

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, index):
        windows = int(self.windows[index])
        features = numpy.zeros((self.BANDS, self.FRAMES), numpy.float32)
        for _ in range(windows):
            sound = numpy.random.standard_normal(self.FRAMES * self.WIDTH).astype(numpy.float32)
            frames = sound.reshape(self.FRAMES, self.WIDTH) * self.taper
            power = numpy.abs(numpy.fft.rfft(frames)) ** 2
            features += numpy.log1p(self.bank @ power.T.astype(numpy.float32))
        return features / windows, windows


def make(name, place, count):
    """The data set with that letter. `count` is the number of items of b and c; a folder tells its own."""
    match name:
        case "a" | "d":
            return Photographs(place)
        case "b":
            return Speech(count)
        case "c":
            return Volumes(place, count)
    raise ValueError(f"no such set: {name}")
