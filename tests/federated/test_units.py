"""What a program learns in real units, and back: without loss where the program keeps a residual byte."""

import numpy as np
import pytest

from insitu.errors import DataError
from insitu.federated.catalogue import catalogue_of, exchanged, first_arrays
from insitu.federated.units import fixed, from_real, halves, identity, to_real, units_of
from tests.federated.fleet import fresh, members


@pytest.mark.parametrize("options", [{"precision": "float"}, {}, {"scheme": "last:1"}, {"scheme": "head"}])
def test_a_learned_state_goes_to_real_units_and_back_unchanged(options):
    learner = fresh(**options)
    x, y = members(1)[0]
    learner.fit(x, y, epochs=1, rate=0.05)
    units, state = units_of(learner.graphs), learner.device.state()
    back = from_real(units, to_real(units, state), state)
    assert back
    for name, array in back.items():
        np.testing.assert_array_equal(array, state[name], err_msg=name)


def test_weight_and_residual_are_one_number():
    numbers = np.arange(-127 * 256 - 128, 127 * 256 + 128)
    weight, residual = halves(numbers)
    np.testing.assert_array_equal(weight.astype(int) * 256 + residual, numbers)
    assert fixed(np.array([1000.0, -1000.0])).tolist() == [127 * 256 + 127, -127 * 256 - 128]


def test_int8_weights_alone_would_lose_what_is_below_a_step():
    learner = fresh()
    units, state = units_of(learner.graphs), learner.device.state()
    u = next(u for u in units if u.value.dtype == "s8")
    real = to_real(units, state)
    moved = {**real, u.name: real[u.name] + 0.25 * u.value.type.quant.scales(u.value.type.rank)}
    back = from_real(units, moved, state)
    np.testing.assert_array_equal(back[u.value.name], state[u.value.name])
    assert (back[f"{u.value.name}.residual"] == 64).all()


def test_arrays_of_another_shape_or_not_finite_are_refused():
    learner = fresh()
    units, state = units_of(learner.graphs), learner.device.state()
    real = to_real(units, state)
    for bad in (np.zeros(3, np.float32), np.full(real[units[0].name].shape, np.nan, np.float32)):
        with pytest.raises(DataError):
            from_real(units, {**real, units[0].name: bad}, state)


def test_devices_with_unlike_schemes_meet_in_one_tensor(tmp_path):
    part, other = tmp_path / "part.txt", tmp_path / "other.txt"
    part.write_text("2  bias  weight 0,2,5\n")
    other.write_text("2  bias  weight 2,3\n")
    small, few, whole = fresh(scheme=str(part)), fresh(scheme=str(other)), fresh(scheme="last:1")
    programs = [units_of(each.graphs) for each in (small, few, whole)]
    assert len({identity(p) for p in programs}) == 3
    two, three = catalogue_of(programs[:2]), catalogue_of(programs)
    assert two.tensors["2.weight"].channels == (0, 2, 3, 5) and three.tensors["2.weight"].channels == ()
    mask = two.mask(programs[1])["2.weight"]
    assert mask[:, [1, 2]].all() and not mask[:, [0, 3]].any()
    states = [(p, each.graphs, each.device.state()) for p, each in zip(programs, (small, few, whole))]
    np.testing.assert_allclose(first_arrays(three, states)["2.weight"],
                               first_arrays(three, states[::-1])["2.weight"], atol=1e-6)  # fmt: skip


def test_personal_layers_are_not_exchanged():
    units = units_of(fresh().graphs)
    names = {u.name for u in exchanged(units, ["head"])}
    assert names and not any(name.startswith("head.") for name in names)
    with pytest.raises(DataError, match="everything is personal"):
        exchanged(units_of(fresh(scheme="head").graphs), ["head"])
