"""dali.py FOLDER EPOCHS: NVIDIA DALI on the CPU, the task of bench/throughput.py; prints one JSON line.

The fair settings: region decode, fused crop + mirror + normalise, prefetch 3, as many threads as cores. Run
by bench/throughput.py --peers with the Python of a virtual environment that has DALI. Fails with DALI's own
error.
"""

import os
import sys

from nvidia.dali import fn, pipeline_def, types

from timing import measure

THREADS = len(os.sched_getaffinity(0))


@pipeline_def(batch_size=64, num_threads=THREADS, device_id=None, prefetch_queue_depth=3, seed=0)
def photographs(folder):
    files, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="files")
    images = fn.decoders.image_random_crop(files, device="cpu", random_area=[0.08, 1.0],
                                           random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10)
    images = fn.resize(images, size=[224, 224], interp_type=types.INTERP_LINEAR, antialias=True)
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW",
                                      mirror=fn.random.coin_flip(),
                                      mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
                                      std=[0.229 * 255, 0.224 * 255, 0.225 * 255])
    return images, labels


def main():
    epochs = int(sys.argv[2])

    def batches():
        pipe = photographs(sys.argv[1])
        pipe.build()
        for _ in range(epochs * (pipe.reader_meta("files")["epoch_size"] // 64)):
            pipe.run()
            yield 64

    measure(batches)


if __name__ == "__main__":
    main()
