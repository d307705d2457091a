"""A sample that is not finite: Python refuses it by its number, the C skips and counts it on every machine."""

from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import insitu  # noqa: E402
from insitu.codegen import emit_program  # noqa: E402
from insitu.devices.host import open_plans, open_program  # noqa: E402
from insitu.devices.process import open_process  # noqa: E402
from insitu.devices.rows import Arrival  # noqa: E402
from insitu.errors import DataError  # noqa: E402
from insitu.planner import plan_all  # noqa: E402
from insitu.training.train import Recipe  # noqa: E402

from ..training.programs import float_programs, int8_programs, samples  # noqa: E402

BAD = {"nan": np.nan, "infinity": np.inf, "less than all": -np.inf}
PLACES = (0, 24, 49)  # of 50 pixels: the first, one in between, the last


@cache
def graphs(kind: str, accumulate: bool = False, rows: bool = False):
    recipe = Recipe(rows=rows)
    return int8_programs(recipe, accumulate) if kind == "int8" else float_programs("cnn", recipe, accumulate=accumulate)


def broken(value: float, place: int) -> np.ndarray:
    x = samples("cnn", 1)[0]
    x.reshape(-1)[place] = value
    return x


def without_checks(device, verb: str, *inputs: np.ndarray) -> list[np.ndarray]:
    """Call the C function as a C program would."""
    outputs = [np.zeros(v.shape, v.type.numpy) for v in device.routines[verb].outputs]
    given = [a.ctypes.data if a.shape else float(a) for a in inputs]
    device.bound(verb)(*given, *(o.ctypes.data for o in outputs))
    return outputs


def learned_nothing(before: dict, after: dict, times: int = 1) -> None:
    assert after["counters"].tolist() == (before["counters"] + [times, 0, 0]).tolist()
    assert all(after[k].tobytes() == v.tobytes() for k, v in before.items() if k != "counters")


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", ["float", "int8"])
def test_a_model_refuses_it_and_names_the_sample(kind, bad):
    module = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(27, 3))
    x, y = samples("cnn", 8)
    model = insitu.load(module.eval(), torch.zeros(1, 2, 5, 5))
    learner = insitu.compile(module, example=torch.zeros(1, 2, 5, 5), data=x, scheme="head", classes=3,
                             precision=kind)  # fmt: skip
    x[5, 1, 2, 3] = BAD[bad]
    for use in ((model.quantize(x[:4]) if kind == "int8" else model).predict, learner.predict,
                lambda x: learner.fit(x, y), lambda x: learner.evaluate(x, y)):  # fmt: skip
        with pytest.raises(DataError, match=r"sample 5: has a number that is not finite: -?(nan|inf) at \[1, 2, 3\]"):
            use(x)


def test_an_input_in_int8_refuses_it_too():
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(50, 3))
    x, _ = samples("cnn", 8)
    model = insitu.load(module.eval(), torch.zeros(1, 2, 5, 5)).quantize(x, float_io=False)
    x[5, 1, 2, 3] = np.nan
    with pytest.raises(DataError, match=r"input input: sample 5: .* nan at \[1, 2, 3\]"):
        model.predict(x)


def test_a_number_too_large_for_single_precision_is_refused():
    device = open_plans(plan_all(graphs("int8"), "host"))
    with pytest.raises(DataError, match="sample 0: has a number that is not finite"):
        device.predict(np.full((1, 2, 5, 5), 1e300))


def test_an_augmentation_that_makes_one_is_an_error():
    x, y = samples("cnn", 4)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(50, 3))
    learner = insitu.compile(module, example=torch.zeros(1, 2, 5, 5), scheme="head", classes=3, precision="float")
    with pytest.raises(DataError, match="sample [0-3]: the augmentation made a number that is not finite"):
        learner.fit(x, y, augment=lambda x, rng: np.where(x == x[:, :1], np.float32(np.nan), x), cache=False)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", ["host", "mcu"])
@pytest.mark.parametrize("kind", ["float", "int8"])
def test_a_step_on_it_changes_nothing_but_the_count_of_skipped_ones(kind, target):
    device = open_plans(plan_all(graphs(kind), target))
    x, y = samples("cnn", 1)
    without_checks(device, "train_step", x, y, np.float32(0.1))
    for value in BAD.values():
        for place in PLACES:
            before = device.state()
            loss, *others = without_checks(device, "train_step", broken(value, place), y, np.float32(0.1))
            learned_nothing(before, device.state())
            assert np.isnan(loss) and all(np.isnan(o).all() for o in others)
    before = device.state()
    without_checks(device, "train_step", x, y, np.float32(0.1))
    assert device.state()["counters"][0] == before["counters"][0]  # finite samples are learned from


@pytest.mark.parametrize("kind", ["float", "int8"])
def test_it_is_left_out_of_a_sum(kind):
    device = open_plans(plan_all(graphs(kind, accumulate=True), "host"))
    x, y = samples("cnn", 1)
    without_checks(device, "accumulate", x, y)
    before = device.state()
    without_checks(device, "accumulate", broken(np.nan, 24), y)
    learned_nothing(before, device.state())


@pytest.mark.parametrize("size", [1, 4, 7, 500])
def test_it_is_found_in_an_image_that_comes_in_pieces(size):
    """Pieces of any number of bytes, which may split a number."""
    from ..devices.test_rows import program, step

    device = open_program(program())
    x, labels, rate = step(0)
    device.run("train_step", x, labels, rate)
    image, before = Arrival(device, "train_step"), device.state()
    for times, place in enumerate((0, 41, 89), 1):
        x = step(1)[0]
        x.reshape(-1)[place] = np.nan
        data = x.tobytes()
        for at in range(0, len(data), size):
            image.bytes(data[at : at + size])
        loss, *_ = image.end(labels, rate)
        assert np.isnan(loss)
        learned_nothing(before, device.state(), times)
        image.begin()
    with pytest.raises(DataError, match="not finite"):
        image.rows(x[0])


def test_a_device_refuses_it_before_anything_is_sent():
    with open_process(emit_program(plan_all(graphs("int8"), "mcu"))) as device:
        before = device.save_state()
        with pytest.raises(DataError, match="sample 0: has a number that is not finite"):
            device.run("train_step", broken(np.nan, 0), np.zeros(1, np.int32), np.float32(0.1))
        assert device.save_state() == before


@pytest.mark.parametrize("core", ["m7", "m0"])
@pytest.mark.parametrize("kind", ["float", "int8"])
def test_an_emulated_core_skips_it_too(kind, core):
    pytest.importorskip("unicorn")
    pytest.importorskip("elftools")
    pytest.importorskip("ziglang")
    from bench.bare_cortex import Machine, build

    program = emit_program(plan_all(graphs(kind), "mcu"))
    machine, x, y = Machine(build((program,), core, ("-O2",))), *samples("cnn", 1)
    machine.call("bench_net_init")

    def state() -> dict[str, np.ndarray]:
        address, size = machine.image.symbols["bench_net_state"]
        return program.state.unpack(bytes(machine.uc.mem_read(address, size)))

    machine.run(program, "train_step", x, y, np.float32([0.1]))
    for times, place in enumerate(PLACES, 1):
        before = state()
        loss, *_ = machine.run(program, "train_step", broken(np.nan, place), y, np.float32([0.1]))[1]
        learned_nothing(before, state())
        assert np.isnan(loss) and state()["counters"][0] == times
