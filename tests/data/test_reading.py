"""Samples from anywhere: right shapes and labels, and an error that names the mistake for wrong ones."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from insitu import DataError, Samples, split
from insitu.data import as_samples, read_held_out, read_samples
from insitu.graph import Type, build, f32, lookup, s8

Image = pytest.importorskip("PIL.Image")


def graph(type, out=None):
    """A graph that takes this type, and quantises it to `out` if that is given."""
    with build("net") as b:
        x = b.input("x", type)
        y = lookup("quantize")(x, out=out) if out else lookup("reshape")(x, shape=(1, -1))
    return b.graph(y)


ROWS = graph(f32(1, 3))
X, Y = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([0, 1, 1, 0])


def same(samples, x=X, y=Y):
    np.testing.assert_array_equal(samples.inputs[0], x)
    np.testing.assert_array_equal(samples.labels, y)


# --- sources --------------------------------------------------------------------------------------------


class Indexed:
    """A Dataset with only a length and items."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i >= 4:
            raise IndexError
        return torch.tensor(X[i]), int(Y[i])


SOURCES = {
    "arrays": lambda: (X, Y),
    "tensors": lambda: (torch.tensor(X), torch.tensor(Y)),
    "lists of pairs": lambda: list(zip(X, Y)),
    "a generator": lambda: ((x, y) for x, y in zip(X, Y)),
    "a torch dataset": lambda: torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y)),
    "a dataset without iter": Indexed,
    "samples": lambda: Samples((X,), Y),
    "one-hot labels": lambda: (X, np.eye(2)[Y]),
    "integers": lambda: (X.astype(np.int64), Y),
}


@pytest.mark.parametrize("source", SOURCES)
def test_samples_come_from_anywhere(source):
    same(as_samples(SOURCES[source](), ROWS))


def test_an_npz_is_read(tmp_path):
    np.savez(tmp_path / "d.npz", x=X, y=Y)
    same(as_samples(tmp_path / "d.npz", ROWS))


def test_batches_are_taken_like_samples():
    ends = 0, 2, 4, len(X)  # the last one is of another size
    batches = [(X[a:b], Y[a:b]) for a, b in itertools.pairwise(ends)]
    same(as_samples(batches, ROWS))
    same(as_samples((batch for batch in batches), ROWS))
    same(as_samples([(x[None], y) for x, y in zip(X, Y)], ROWS))
    torch = pytest.importorskip("torch")
    pairs = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    same(as_samples(torch.utils.data.DataLoader(pairs, batch_size=4), ROWS))


def test_a_csv_has_a_sample_a_line_the_label_last_or_named(tmp_path):
    (tmp_path / "last.csv").write_text("\n".join(",".join(map(str, [*x, y])) for x, y in zip(X, Y)))
    same(read_samples(tmp_path / "last.csv", ROWS))
    for heading in ("label", "class", " Target"):
        named = [f"{heading},a,b,c", *(",".join(map(str, ["ba"[y], *x])) for x, y in zip(X, Y))]
        (tmp_path / "named.csv").write_text("\n".join(named))
        samples = read_samples(tmp_path / "named.csv", ROWS)
        same(samples, y=1 - Y)
        assert samples.names == ("a", "b")
    inputs = ["class,a,b", *(",".join(map(str, x)) for x in X)]  # all three are inputs
    (tmp_path / "inputs.csv").write_text("\n".join(inputs))
    assert read_samples(tmp_path / "inputs.csv", ROWS).labels is None


MOMENTS = np.arange(18, dtype=np.float32).reshape(9, 2)


@pytest.mark.parametrize("shape", [(1, 4, 2), (1, 2, 4)])
def test_a_csv_of_moments_is_cut_into_windows(tmp_path, shape):
    """Nine moments of two channels: three windows of four, every second moment, of which the middle one has two labels;
    in the model's own layout."""
    labels = [1, 1, 1, 1, 0, 0, 0, 0, 0]
    (tmp_path / "w.csv").write_text("\n".join(f"{a},{b},{y}" for (a, b), y in zip(MOMENTS, labels)))
    windows = MOMENTS[:8].reshape(2, 4, 2)
    want = windows if shape == (1, 4, 2) else windows.transpose(0, 2, 1)
    same(read_samples(tmp_path / "w.csv", graph(f32(*shape))), want, [1, 0])


def test_a_folder_of_recordings_a_class(tmp_path):
    """Each file is cut by itself; the class is its folder's, and each window knows its file."""
    for name, first in (("idle", 0), ("pump", 4)):
        (tmp_path / name).mkdir()
        rows = "\n".join(f"{a},{b}" for a, b in MOMENTS[first : first + 5])
        (tmp_path / name / "r.csv").write_text(rows)
    found = read_samples(tmp_path, graph(f32(1, 4, 2)))
    same(found, np.stack([MOMENTS[:4], MOMENTS[4:8]]), [0, 1])
    assert found.names == ("idle", "pump") and found.files[1] == str(tmp_path / "pump" / "r.csv")


def test_a_window_in_which_the_label_changes_is_dropped(tmp_path):
    text = "\n".join(f"{a},{b},{y}" for (a, b), y in zip(MOMENTS, [1, 1, 0, 0, 0, 0, 0, 0, 0]))
    (tmp_path / "w.csv").write_text(text)
    same(read_samples(tmp_path / "w.csv", graph(f32(1, 4, 2))), np.stack([MOMENTS[2:6], MOMENTS[4:8]]), [0, 0])


@pytest.mark.parametrize("type, want", [(f32(1, 2, 2, 3), 1.0), (Type("u8", (1, 2, 2, 3)), 255)])
def test_a_folder_of_images_a_class(tmp_path, type, want):
    for i, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        Image.new("RGB", (4, 4), (255 * i, 0, 255)).save(tmp_path / name / "1.png")
    samples = read_samples(tmp_path, graph(type))
    assert samples.names == ("cat", "dog") and samples.labels.tolist() == [0, 1]
    assert samples.inputs[0].dtype == type.numpy
    assert samples.inputs[0][1, 0, 0].tolist() == [want, 0, want]


# --- splitting ------------------------------------------------------------------------------------------


def test_a_split_is_by_seed_and_loses_nothing():
    samples = Samples((np.arange(10)[:, None],), np.arange(10))
    one, two = split(samples, 0.7, seed=3)
    assert (len(one), len(two)) == (7, 3)
    assert sorted([*one.labels, *two.labels]) == list(range(10))
    assert (one.inputs[0][:, 0] == one.labels).all()
    assert (split(samples, 0.7, seed=3)[0].labels == one.labels).all()
    assert (split(samples, 0.7, seed=4)[0].labels != one.labels).any()


@pytest.mark.parametrize("share", [0, 1, 1.5, 0.01, float("nan")])
def test_a_split_with_an_empty_part_is_an_error(share):
    with pytest.raises(DataError):
        split(Samples((X,), Y), share, 0)


# --- mistakes -------------------------------------------------------------------------------------------

IMAGES = graph(f32(1, 5, 4, 3))
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3))
CALIBRATED = graph(f32(1, 5, 4, 3), s8(s=2 / 255))  # -1 to 1
BYTES = graph(Type("u8", (1, 5, 4, 3)))


def labelled(x):
    return x, np.zeros(len(x), int)


def test_channels_first_for_a_model_with_channels_last_is_an_error():
    with pytest.raises(DataError, match=r"transpose\(0, 2, 3, 1\)"):
        as_samples(labelled(PIXELS.transpose(0, 3, 1, 2)), IMAGES)


def test_channels_last_for_a_model_with_channels_first_is_an_error():
    with pytest.raises(DataError, match=r"transpose\(0, 3, 1, 2\)"):
        as_samples(labelled(PIXELS), graph(f32(1, 3, 5, 4)))


def test_a_missing_axis_of_one_and_flat_rows_are_no_mistake():
    grey = graph(f32(1, 5, 4, 1))
    for shape in ((6, 5, 4), (6, 20), (6, 1, 5, 4)):
        assert as_samples(labelled(np.zeros(shape)), grey).inputs[0].shape == (6, 5, 4, 1)


def test_pixels_for_a_model_calibrated_on_one_are_an_error():
    with pytest.raises(DataError, match="-1 to 0.996") as e:
        as_samples(labelled(PIXELS), CALIBRATED)
    assert "pixels" in e.value.hint


def test_the_range_of_an_int8_input_is_checked_too():
    net = graph(s8(1, 5, 4, 3, s=2 / 255))
    with pytest.raises(DataError, match="pixels"):
        as_samples(labelled(PIXELS.astype(np.uint8)), net)
    as_samples(labelled((PIXELS - 128).astype(np.int8)), net)
    as_samples(labelled(PIXELS / 127.5 - 1), net)


def test_data_in_a_corner_of_the_range_are_an_error():
    with pytest.raises(DataError, match="made for"):
        as_samples(labelled(PIXELS / 255), graph(f32(1, 5, 4, 3), s8(s=1.0, z=-128)))  # 0 to 255


def test_a_bit_beyond_the_range_is_no_mistake():
    x = PIXELS / 127.5 - 1
    x[0, 0, 0, 0] = 7.0
    (taken,) = as_samples(labelled(x * 1.3), CALIBRATED).inputs
    np.testing.assert_array_equal(taken, (x * 1.3).astype(np.float32))


@pytest.mark.parametrize("x", [PIXELS / 255, PIXELS * 2, PIXELS - 128])
def test_bytes_are_bytes(x):
    with pytest.raises(DataError, match="0 to 255"):
        as_samples(labelled(x), BYTES)
    as_samples(labelled(PIXELS), BYTES)


def test_ragged_and_odd_items_are_errors():
    for bad in ([(X[0], 0), (X[1, :2], 1)], [X[0], X[1, :2]], ["ab"], 3):
        with pytest.raises(DataError):
            as_samples(bad, ROWS)


@pytest.mark.parametrize("text", ["", "1,2,3\n4,5", "a,b,c\n", "1,2,x", "1,2,3,4,5"])
def test_a_csv_that_does_not_fit_is_an_error(tmp_path, text):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(DataError, match=r"bad\.csv"):
        read_samples(tmp_path / "bad.csv", ROWS)


WRONG = {
    "1,2,3\n4,x,6": "line 2, column 2: 'x' is not a number",
    "a,b,c\n1,2,3\n\n4,,6": r"line 4, column 2 \(b\): is empty",
    "1,2,3\n4,5": "line 2: has 2 columns, but line 1 has 3",
    "a,b,c\n1,2,3\n4,5,6,7": "line 3: has 4 columns, but the heading has 3",
    "1,5;2;3\n1,5;0;2\n4.5;2;1": "line 3, column 1: '4.5' is not a number",
    "mass;size;colour;kind\n1,5;3,2;blue;plum\n2,5;3,x;blue;plum": r"line 3, column 2 \(size\): '3,x' is not a number",
    "mass;colour;kind\n1,5;blue\n2,5;red;plum": "line 2: has 2 columns, but the heading has 3",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_in_a_csv_is_named_by_line_and_column(tmp_path, text):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(DataError, match=rf"bad\.csv, {WRONG[text]}"):
        read_samples(tmp_path / "bad.csv", ROWS)


@pytest.mark.parametrize("text, said", [("", "is empty"), ("a,b,c\n\n", "has a heading, but no lines below it")])
def test_a_table_without_lines_is_said_to_have_none(tmp_path, text, said):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(DataError, match=rf"bad\.csv: {said}$"):
        read_samples(tmp_path / "bad.csv", ROWS)


WRITTEN = {  # between columns, decimals -> what the user is told
    (",", "."): (),
    (";", "."): ("columns are separated by ;",),
    (";", ","): ("columns are separated by ; and decimals by a comma",),
    ("\t", "."): ("columns are separated by tabs",),
    ("\t", ","): ("columns are separated by tabs and decimals by a comma",),
}


@pytest.mark.parametrize("heading", ["", "a{0}b{0}c{0}Label\n"])
@pytest.mark.parametrize("between, decimal", WRITTEN)
def test_a_table_is_read_whatever_separates_its_columns_and_decimals(tmp_path, between, decimal, heading):
    lines = [between.join([*(f"{v + 0.5}".replace(".", decimal) for v in x), str(y)]) for x, y in zip(X, Y)]
    (tmp_path / "t.csv").write_bytes(("\ufeff" + heading.format(between) + "\r\n".join(lines)).encode())
    samples = read_samples(tmp_path / "t.csv", ROWS)
    same(samples, X + 0.5)
    assert samples.notes == WRITTEN[between, decimal]


def test_names_with_semicolons_do_not_make_a_table_one_with_semicolons(tmp_path):
    (tmp_path / "t.csv").write_text("\n".join(f"{','.join(map(str, x))},{'ab'[y]};1" for x, y in zip(X, Y)))
    assert read_samples(tmp_path / "t.csv", ROWS).names == ("a;1", "b;1")


def test_text_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "t.csv").write_bytes("größe,1,2".encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8"):
        read_samples(tmp_path / "t.csv", ROWS)


# --- the parts of an .npz --------------------------------------------------------------------------------


def both(path, **more):
    np.savez(path, x_train=X, y_train=Y, x_test=X[:2] + 100, y_test=1 - Y[:2], **more)
    return path


def test_training_reads_the_training_part_and_measuring_the_test_part(tmp_path):
    path = both(tmp_path / "d.npz")
    same(read_samples(path, ROWS))
    assert read_samples(path, ROWS).source == "x_train, y_train of d.npz"
    same(read_samples(path, ROWS, part="test"), X[:2] + 100, 1 - Y[:2])
    same(read_held_out(path, ROWS), X[:2] + 100, 1 - Y[:2])


def test_parts_win_over_the_whole_even_where_the_input_is_called_x(tmp_path):
    path = both(tmp_path / "d.npz", x=X * 0, y=Y)
    same(read_samples(path, ROWS))
    same(read_samples(path, ROWS, part="test"), X[:2] + 100, 1 - Y[:2])


def test_a_file_with_one_part_is_that_part_for_everyone(tmp_path):
    np.savez(tmp_path / "d.npz", x=X, y=Y)
    for part in ("train", "test"):
        same(read_samples(tmp_path / "d.npz", ROWS, part=part))
    assert read_held_out(tmp_path / "d.npz", ROWS) is None
    np.savez(tmp_path / "t.npz", x_test=X, y_test=Y)
    assert read_samples(tmp_path / "t.npz", ROWS).source == "x_test, y_test of t.npz"
    assert read_held_out(tmp_path / "t.npz", ROWS) is None


def test_labels_of_another_part_are_not_taken(tmp_path):
    np.savez(tmp_path / "d.npz", x_train=X, y_test=Y)
    assert read_samples(tmp_path / "d.npz", ROWS).labels is None


def test_targets_are_kept_as_they_are(tmp_path):
    y = np.random.default_rng(0).normal(size=(4, 2))
    np.savez(tmp_path / "d.npz", x=X, y=y)
    np.testing.assert_array_equal(read_samples(tmp_path / "d.npz", ROWS, targets=True).labels, y)
    (tmp_path / "d.csv").write_text("\n".join(",".join(map(str, [*x, 0.5])) for x in X))
    assert read_samples(tmp_path / "d.csv", ROWS, targets=True).labels.tolist() == [0.5] * 4
    with pytest.raises(DataError, match=r"not class numbers or names\n.*learns quantities"):
        read_samples(tmp_path / "d.csv", ROWS)


def test_an_npz_without_inputs_says_what_it_has(tmp_path):
    np.savez(tmp_path / "d.npz", y=Y)
    with pytest.raises(DataError, match="has y; wanted x"):
        read_samples(tmp_path / "d.npz", ROWS)


# --- folders ----------------------------------------------------------------------------------------------

PICTURE = graph(f32(1, 4, 4, 3))


def test_an_empty_folder_is_an_error_that_says_what_belongs_there(tmp_path):
    with pytest.raises(DataError, match="has no images") as e:
        read_samples(tmp_path, PICTURE)
    assert ".png" in e.value.hint and "one subfolder per class" in e.value.hint


def test_what_a_folder_leaves_out_or_changes_is_said(tmp_path):
    for name, size in (("cat", 4), ("dog", 6)):
        (tmp_path / name).mkdir()
        Image.new("RGB", (size, size)).save(tmp_path / name / "1.png")
    (tmp_path / "bird").mkdir()
    (tmp_path / ".cache").mkdir()
    (tmp_path / "dog" / "notes.txt").write_text("good dog")
    Image.new("RGB", (4, 4)).save(tmp_path / "loose.png")
    found = read_samples(tmp_path, PICTURE)
    assert found.names == ("bird", "cat", "dog") and found.labels.tolist() == [1, 2]
    for note, words in zip(
        found.notes,
        (
            "left out, as no images: 1 file, for example notes.txt",
            "left out: 1 image outside the class folders",
            "no images in bird",
            "2 sizes",
        ),
    ):
        assert words in note
    assert len(found.notes) == 4


def test_images_in_folders_of_a_class_folder_belong_to_the_class_and_hidden_ones_do_not(tmp_path):
    for name in ("cat/1.png", "cat/summer/old/2.png", "dog/3.png", "dog/.cache/4.png", "dog/._3.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    found = read_samples(tmp_path, PICTURE)
    assert [str(Path(f).relative_to(tmp_path)) for f in found.files] == [
        "cat/1.png",
        "cat/summer/old/2.png",
        "dog/3.png",
    ]
    assert found.labels.tolist() == [0, 0, 1] and found.notes == ()


def test_one_size_of_images_is_named_height_first(tmp_path):
    (tmp_path / "cat").mkdir()
    Image.new("RGB", (5, 7)).save(tmp_path / "cat" / "1.png")
    assert read_samples(tmp_path, PICTURE).notes == ("images of 7x5 were resized to 4x4",)


def test_a_tidy_folder_has_nothing_to_say(tmp_path):
    (tmp_path / "cat").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "cat" / "1.png")
    assert read_samples(tmp_path, PICTURE).notes == ()


def test_a_file_that_is_no_image_is_named(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "bad.png").write_text("no picture")
    with pytest.raises(DataError, match=r"bad\.png: is not an image"):
        read_samples(tmp_path, PICTURE)


@pytest.mark.parametrize("shape", [(1, 2, 8), (1, 8, 2)])
def test_signals_with_their_axes_the_other_way_round_are_told_so(shape):
    """Whichever side the model has its channels on: with two axes, nobody can tell from the data."""
    with pytest.raises(DataError, match=r"the other way round: x\.transpose\(0, 2, 1\)"):
        as_samples(np.zeros((5, shape[2], shape[1])), graph(f32(*shape)))


def test_a_table_of_three_columns_is_not_taken_for_a_camera():
    with pytest.raises(DataError) as e:
        as_samples(np.zeros((5, 3)), graph(f32(1, 2)))
    assert "camera" not in str(e.value)
