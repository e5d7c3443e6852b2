"""tf_data.py FOLDER WORKERS deterministic|any: tf.data for bench/tail.py (server.py).

Its best settings: decode_and_crop_jpeg with the fast DCT, no antialiasing (so other pixels than ours), map
and batch fused (the default), AUTOTUNE, a pool of WORKERS threads. `repeat` before `map` lets one epoch's
work begin while the last one's ends. Needs a Python with TensorFlow. Fails with TensorFlow's own error.
"""

import os
import pathlib
import sys

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}

import tensorflow as tf  # noqa: E402  (reads its environment when it is imported)
from server import serve  # noqa: E402

BATCH = 16
MEAN = [255 * value for value in (0.485, 0.456, 0.406)]
SCALE = [1 / (255 * value) for value in (0.229, 0.224, 0.225)]
WHOLE = [[[0.0, 0.0, 1.0, 1.0]]]


def load(path, label):
    data = tf.io.read_file(path)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(data), WHOLE, min_object_covered=0.0, aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1.0), max_attempts=10)
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    image = tf.image.decode_and_crop_jpeg(data, window, channels=3, dct_method="INTEGER_FAST")
    image = tf.image.random_flip_left_right(tf.image.resize(image, [224, 224]))
    return tf.transpose((image - MEAN) * SCALE, [2, 0, 1]), label


def dataset(folder, workers, deterministic):
    paths = sorted(pathlib.Path(folder).glob("*/*.jpg"))
    classes = sorted({path.parent.name for path in paths})
    files = tf.data.Dataset.from_tensor_slices(
        ([str(path) for path in paths], [classes.index(path.parent.name) for path in paths]))
    options = tf.data.Options()
    options.deterministic = deterministic
    options.threading.private_threadpool_size = workers
    return (files.shuffle(len(paths)).repeat()
            .map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=deterministic)
            .batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE).with_options(options))


def main():
    folder, workers, order = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    tf.config.threading.set_intra_op_parallelism_threads(workers)
    tf.config.threading.set_inter_op_parallelism_threads(workers)
    serve(iter(dataset(folder, workers, order == "deterministic")))


if __name__ == "__main__":
    main()
