"""torch_io.py FOLDER EPOCHS: torch's loader with torchvision.io and v2 transforms; prints one JSON line.

The task of bench/throughput.py with torch's quickest decoder. The fair settings: workers = cores, persistent,
prefetch 4, one thread a worker. Run by bench/throughput.py --peers with the Python of a virtual environment
that has torch and torchvision. Fails with torch's own error.
"""

import os
import pathlib
import sys

import torch
from torchvision import io
from torchvision.transforms import v2

from timing import measure

WORKERS = len(os.sched_getaffinity(0))


class Photographs(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.paths = sorted(str(path) for path in pathlib.Path(folder).rglob("*.jpg"))
        classes = sorted({pathlib.Path(path).parent.name for path in self.paths})
        self.labels = [classes.index(pathlib.Path(path).parent.name) for path in self.paths]
        self.transform = v2.Compose([
            v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = io.decode_jpeg(io.read_file(self.paths[index]), mode=io.ImageReadMode.RGB)
        return self.transform(image), self.labels[index]


def main():
    epochs = int(sys.argv[2])

    def batches():
        loader = torch.utils.data.DataLoader(
            Photographs(sys.argv[1]), batch_size=64, shuffle=True, drop_last=True,
            num_workers=WORKERS, persistent_workers=True, prefetch_factor=4)
        for _ in range(epochs):
            for images, _labels in loader:
                yield len(images)

    measure(batches)


if __name__ == "__main__":
    main()
