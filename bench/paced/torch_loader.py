"""torch_loader.py FOLDER WORKERS in_order|unordered [PREFETCH]: torch's loader for bench/tail.py (server.py).

torchvision.io.decode_jpeg and v2 transforms on tensors, the quickest that torch has without other packages;
persistent workers, PREFETCH batches of prefetch a worker (2 is torch's default), one thread a process. At an
epoch's end its workers have nothing more to do until the next iterator is asked for: that is counted, for it
is what a training loop sees. Needs a Python with torch and torchvision. Fails with torch's own error.
"""

import pathlib
import sys

import torch
from server import serve
from torchvision import io
from torchvision.transforms import v2

BATCH = 16
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Photographs(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.paths = sorted(str(path) for path in pathlib.Path(folder).glob("*/*.jpg"))
        classes = sorted({pathlib.Path(path).parent.name for path in self.paths})
        self.labels = [classes.index(pathlib.Path(path).parent.name) for path in self.paths]
        self.transform = v2.Compose([
            v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = io.decode_jpeg(io.read_file(self.paths[index]), mode=io.ImageReadMode.RGB)
        return self.transform(image), self.labels[index]


def endless(loader):
    while True:
        yield from loader


def main():
    folder, workers, order = sys.argv[1:4]
    torch.set_num_threads(1)
    serve(endless(torch.utils.data.DataLoader(
        Photographs(folder), batch_size=BATCH, shuffle=True, drop_last=True, num_workers=int(workers),
        persistent_workers=True, in_order=order == "in_order",
        prefetch_factor=int(sys.argv[4]) if len(sys.argv) > 4 else 2)))


if __name__ == "__main__":
    main()
