"""What a Loader delivers is what torchvision's ImageFolder and its transforms make of the same files.

Samples and labels are numbered alike, profile `pillow` has torchvision's bytes on PIL images, and normalised
values are at most one unit in the last place from torchvision's. Every random draw is a function of (seed,
epoch, sample id).
"""

import numpy
import PIL
import pytest
import speedyloader as sl
import test_card
from PIL import Image

torch = pytest.importorskip("torch")
datasets = pytest.importorskip("torchvision.datasets")

from torchvision import transforms as T  # noqa: E402
from torchvision.transforms import functional as F  # noqa: E402

SIZE = 224
WAIT_S = 60
PILLOW = int(PIL.__version__.split(".")[0])
NORMALIZE = sl.Normalize(sl.IMAGENET_MEAN, sl.IMAGENET_STD)

# Class and file below it: (Pillow's mode, how Pillow saves it). Every ending that ImageFolder reads.
KINDS = {
    "jpeg/444.jpg": ("RGB", {"quality": 92, "subsampling": 0}),
    "jpeg/422.jpg": ("RGB", {"quality": 92, "subsampling": 1}),
    "jpeg/420.JPEG": ("RGB", {"quality": 75, "subsampling": 2}),
    "jpeg/progressive.jpg": ("RGB", {"quality": 90, "progressive": True}),
    "jpeg/low.jpeg": ("RGB", {"quality": 5, "optimize": True}),
    "jpeg/grey.jpg": ("L", {"quality": 90}),
    "jpeg/cmyk.jpg": ("CMYK", {"quality": 90}),
    "png/rgb.png": ("RGB", {}),
    "png/rgba.png": ("RGBA", {}),
    "png/grey.png": ("L", {}),
    "png/grey_alpha.png": ("LA", {}),
    "png/palette.png": ("P", {}),
    "png/four_bits.PNG": ("P", {"bits": 4}),
    "png/one_bit.png": ("1", {}),
    "webp/lossy.webp": ("RGB", {"quality": 80}),
    "webp/lossless.webp": ("RGB", {"lossless": True}),
    "webp/alpha.webp": ("RGBA", {"lossless": True, "exact": True}),
    "plain/rgb.bmp": ("RGB", {}),
    "plain/palette.bmp": ("P", {}),
    "plain/grey.bmp": ("L", {}),
    "plain/rgb.ppm": ("RGB", {}),
    "plain/grey.pgm": ("L", {}),
    "tiff/rgb.tif": ("RGB", {}),
    "tiff/deflated.tiff": ("RGB", {"compression": "tiff_adobe_deflate"}),
    "tiff/grey.tiff": ("L", {}),
}


def in_mode(photo, mode):
    if mode == "P":
        return photo.quantize(16)
    if mode in ("RGBA", "LA"):
        photo = photo.convert(mode[:-1])
        photo.putalpha(Image.linear_gradient("L").resize(photo.size))
        return photo
    return photo.convert(mode)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Threads of torch that wait for each other take long on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def kinds(photos, session_folder):
    """A photograph of an odd size as a file of every kind."""
    folder = session_folder / "kinds"
    photo = Image.open(sorted(photos.glob("*/*.jpg"))[0]).convert("RGB").resize((331, 247))
    for name, (mode, options) in KINDS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        in_mode(photo, mode).save(folder / name, **options)
    return folder


def loader(daemon, folder, transforms, **options):
    """One epoch in torchvision's order."""
    options = {"batch_size": 16, "last": "keep", "shuffle": False, "errors": "fail", "epochs": 1,
               "timeout": WAIT_S, "socket": daemon.socket} | options
    return sl.Loader(folder, transforms, **options)


def rows(loader):
    """Each row of the epoch as {tensor: array}; a row is valid while it is the last one taken."""
    for batch in loader:
        arrays = batch.numpy()
        for row in range(batch.count):
            yield {name: array[row] for name, array in arrays.items()}


def is_height_first(row):
    """Whether Pillow 13 resizes this box's height before its width, because it shrinks by more than twice as
    many pixels. Each pass rounds, so values may be one off those of older versions."""
    _, _, width, height = row["crop_box"].tolist()
    return height > SIZE and height - SIZE > 2 * (width - SIZE)


def cropped(image, row):
    """torchvision's picture for the draws of a row, as Pillow makes it."""
    x, y, width, height = row["crop_box"].tolist()
    image = F.resized_crop(image, y, x, height, width, [SIZE, SIZE], T.InterpolationMode.BILINEAR)
    return F.hflip(image) if row["flip"] else image


def cropped_width_first(image, row):
    """The same, and width before height in every version of Pillow."""
    x, y, width, height = row["crop_box"].tolist()
    image = F.resize(F.crop(image, y, x, height, width), [height, SIZE], T.InterpolationMode.BILINEAR)
    image = F.resize(image, [SIZE, SIZE], T.InterpolationMode.BILINEAR)
    return F.hflip(image) if row["flip"] else image


def steps_apart(a, b):
    """How many float32 values lie between each two, counted in units in the last place."""
    ordered = [numpy.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
               for bits in (array.view(numpy.int32).astype(numpy.int64) for array in (a, b))]
    return numpy.abs(ordered[0] - ordered[1])


def test_sample_ids_labels_and_classes_are_those_of_ImageFolder(shared_daemon, open_folder):
    """Also in sub-folders of classes, and with names that sort differently as whole paths."""
    for name in ("b/z.png", "b/a/2.png", "b/a-b/1.png", "b/a/c/0.png", "b/B.png", "a b/ä.png", "a/é/1.PNG",
                 "a/Z.png", "Z/1.png", "Z/.hidden.png", "Z/notes.txt", "a.b/10.png", "a.b/9.png"):
        (open_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (open_folder / name).write_text("not a picture")
    reference = datasets.ImageFolder(open_folder)
    pictures = [path for path, _ in reference.samples]
    for number, path in enumerate(pictures):  # hidden pictures are samples to torchvision, but not to us
        Image.new("RGB", (2, 2), (number, 0, 0)).save(path)
    hidden = [number for number, path in enumerate(pictures) if "/." in path]
    job = loader(shared_daemon, open_folder, [sl.Resize((2, 2))], dtype="uint8")
    got = [(row["sample_id"], row["label"], test_card.id_of(row["image"][:, 0, 0])) for row in rows(job)]
    want = [(label, number) for number, (_, label) in enumerate(reference.samples) if number not in hidden]
    assert len(hidden) == 1
    assert got == [(sample_id, *rest) for sample_id, rest in enumerate(want)]
    assert job.classes == reference.classes
    assert {name: label for label, name in enumerate(job.classes)} == reference.class_to_idx


def crops(daemon, folder, transforms=(), **options):
    """(row, ImageFolder's picture) of each sample, random crops and flips."""
    reference = datasets.ImageFolder(folder)
    transforms = [sl.RandomResizedCrop(SIZE), sl.RandomHorizontalFlip(), *transforms]
    seen, flips = [], 0
    for row in rows(loader(daemon, folder, transforms, explain=True, **options)):
        sample_id = int(row["sample_id"])
        image, label = reference[sample_id]
        assert row["label"] == label
        yield row, image
        seen.append(sample_id)
        flips += int(row["flip"])
    assert seen == list(range(len(reference))) and 0 < flips < len(seen)


def assert_has_torchvisions_bytes(row, image, picture=cropped):
    want = F.pil_to_tensor(picture(image, row)).numpy()
    numpy.testing.assert_array_equal(row["image"], want, f"sample {row['sample_id']}, box {row['crop_box']}")


def test_a_random_resized_crop_has_torchvisions_bytes_for_200_photographs(shared_daemon, photos):
    """Those of the Pillow that is installed."""
    assert len(list(photos.glob("*/*.jpg"))) == 200
    orders = set()
    for row, image in crops(shared_daemon, photos, dtype="uint8"):
        assert_has_torchvisions_bytes(row, image)
        orders.add(is_height_first(row))
    assert orders == {True, False}


def test_profile_pillow_has_the_bytes_of_every_Pillow_before_13(shared_daemon, photos):
    differ = 0
    for row, image in crops(shared_daemon, photos, dtype="uint8", profile="pillow"):
        assert_has_torchvisions_bytes(row, image, cropped_width_first)
        if is_height_first(row):
            newer = F.pil_to_tensor(cropped(image, row)).numpy()
            differ += not numpy.array_equal(row["image"], newer)
    assert (differ > 0) == (PILLOW >= 13)


def test_the_default_profile_is_that_of_the_installed_Pillow(shared_daemon, photos):
    job = loader(shared_daemon, photos, [sl.RandomResizedCrop(SIZE)])
    assert job.spec["profile"] == ("pillow13" if PILLOW >= 13 else "pillow")


@pytest.mark.parametrize("seed", range(3))
def test_a_random_resized_crop_has_torchvisions_bytes_for_every_kind_of_file(shared_daemon, kinds, seed):
    for row, image in crops(shared_daemon, kinds, dtype="uint8", seed=seed):
        assert_has_torchvisions_bytes(row, image)


def test_normalised_values_are_within_one_unit_in_the_last_place_of_torchvisions(shared_daemon, photos):
    """Where this was written none of the 30 million differs: operations and their order are the same."""
    normalize = T.Normalize(sl.IMAGENET_MEAN, sl.IMAGENET_STD)
    values = 0
    for row, image in crops(shared_daemon, photos, [NORMALIZE]):
        apart = steps_apart(row["image"], normalize(F.to_tensor(cropped(image, row))).numpy())
        assert apart.max() <= 1, f"{(apart > 0).sum()} of {apart.size} differ, by up to {apart.max()} units"
        values += apart.size
    assert values == 200 * 3 * SIZE * SIZE


@pytest.mark.parametrize("folder", ["photos", "kinds"])
def test_resize_256_and_centre_crop_224_have_torchvisions_bytes(shared_daemon, request, folder):
    folder = request.getfixturevalue(folder)
    evaluate = T.Compose([T.Resize(256), T.CenterCrop(SIZE), T.PILToTensor()])
    reference = datasets.ImageFolder(folder, evaluate)
    job = loader(shared_daemon, folder, [sl.Resize(256), sl.CenterCrop(SIZE)], dtype="uint8")
    sample_id = -1
    for sample_id, row in enumerate(rows(job)):
        image, label = reference[sample_id]
        assert (row["sample_id"], row["label"]) == (sample_id, label)
        numpy.testing.assert_array_equal(row["image"], image.numpy(), reference.samples[sample_id][0])
    assert sample_id + 1 == len(reference)


def test_the_last_place_is_what_steps_apart_counts():
    """Or the test above it would prove nothing."""
    a = numpy.array([1.0, -1.0, 0.0, -1e-45, 0.485], numpy.float32)
    b = numpy.nextafter(a, numpy.float32(9), dtype=numpy.float32)
    assert steps_apart(a, b).tolist() == [1] * 5
    assert steps_apart(a, numpy.nextafter(b, numpy.float32(9), dtype=numpy.float32)).tolist() == [2] * 5
    assert steps_apart(numpy.float32([0.0]), numpy.float32([-0.0])).tolist() == [0]


# ---- draws ----

COUNT = 1000


@pytest.fixture(scope="module")
def one_picture_under_many_names(session_folder):
    """Large, so that equal boxes of two samples are no accident, and plain, so that it is soon decoded."""
    folder = session_folder / "plain_picture"
    (folder / "a").mkdir(parents=True)
    Image.new("RGB", (1440, 1080), (90, 120, 60)).save(folder / "a" / "0000.jpg", quality=50)
    for number in range(1, COUNT):
        (folder / "a" / f"{number:04d}.jpg").symlink_to("0000.jpg")
    return folder


def draws(daemon, folder, **options):
    """For each epoch {sample id: (x, y, width, height, flip)}."""
    options = {"shuffle": True, "batch_size": 50, "dtype": "uint8", "profile": "fast",
               "explain": True} | options
    job = loader(daemon, folder, [sl.RandomResizedCrop(8), sl.RandomHorizontalFlip()], **options)
    return [{int(row["sample_id"]): (*row["crop_box"].tolist(), int(row["flip"])) for row in rows(job)}
            for _ in range(options.get("epochs", 1))]


def test_LDR_04_draws_are_a_function_of_seed_epoch_and_sample_id(daemons, one_picture_under_many_names):
    folder = one_picture_under_many_names
    one, three = (daemons.start(workers=workers) for workers in (1, 3))
    first, second = draws(three, folder, epochs=2, seed=9)
    assert first.keys() == second.keys() == set(range(COUNT))
    assert len(set(first.values())) == COUNT  # no two samples share their draws,
    assert not set(first.values()) & set(second.values())  # nor do two epochs
    (other,) = draws(three, folder, seed=10)
    assert not set(first.values()) & set(other.values())
    # Neither the workers, nor the order, nor the batches have a part in them.
    assert draws(one, folder, seed=9, shuffle=False, batch_size=64) == [first]
