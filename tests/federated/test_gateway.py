"""A gateway: boards behind it take part in rounds, and the round goes on when one of them does not answer."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from insitu.devices.living import Living
from insitu.errors import DeviceError
from insitu.federated.gateway import Board, Gateway, from_samples, from_store, with_samples
from insitu.federated.member import KEPT, Member, Task
from insitu.federated.rounds import Fleet
from insitu.federated.units import to_real
from insitu.learner.file import first_state
from tests.devices import living
from tests.federated.fleet import fresh, members, samples

TASK = Task(epochs=1, rate=0.02)


def on_a_line():
    return fresh().on("process").device


def gateway(count: int = 3, **options) -> Gateway:
    boards = [Board(str(k), on_a_line, from_samples(fresh(), *members(count)[k])) for k in range(count)]
    return Gateway(fresh(), boards, test=samples(40, 5), **options)


def test_boards_behind_a_gateway_come_to_the_mean_of_members_of_their_own():
    made = gateway()
    behind, plain = Fleet([made]), Fleet([Member(fresh(), *d) for d in members(3)])
    for k in range(2):
        behind.round(Task(epochs=1, rate=0.02, seed=k))
    made.close()
    wanted = _means(plain, 2)
    for name, a in wanted.items():
        scale = max(np.abs(a).max(), 1e-6)
        assert np.abs(behind.arrays[name] - a).max() <= 0.02 * scale, name  # the mean goes out in 8 bits
    assert behind.rounds[-1].loss < behind.rounds[0].loss


def _means(fleet: Fleet, rounds: int) -> dict[str, np.ndarray]:
    """The same rounds with the boards' own order of samples, on this machine, and no coding at all."""
    from insitu.federated.handout import base_of
    from insitu.federated.units import from_real, to_real

    for k in range(rounds):
        base, total, weight = base_of(fleet.arrays, fleet.catalogue), {}, 0
        for m in fleet.members:
            device = m.learner.device
            device.load_arrays(from_real(m.units, base.arrays, device.state()))
            before = to_real(m.units, device.state())
            count, _ = from_samples(m.learner, *m.data)(device, Task(epochs=1, rate=0.02, seed=k))
            after = to_real(m.units, device.state())
            total = {n: total.get(n, 0) + count * (after[n] - before[n]) for n in after}
            weight += count
        fleet.arrays = {n: base.arrays[n] + total[n] / weight for n in total}
    return fleet.arrays


def test_a_board_that_is_gone_is_left_out_and_joins_again():
    made = gateway()
    fleet = Fleet([made])
    fleet.round(TASK)
    made.boards[1].device.link.channel.process.kill()  # type: ignore[union-attr]
    fleet.round(TASK)
    assert len(made.boards[1].failures) == 1 and not made.boards[0].failures
    fleet.round(TASK)
    assert len(made.boards[1].failures) == 1 and made.boards[1].device is not None
    made.close()


def test_a_board_that_was_reset_while_it_learned_is_left_out_and_joins_again():
    """It answers as before, and has forgotten the round's model: what it says it learned would be nonsense."""
    learn, rounds = from_samples(fresh(), *members(1)[0]), iter([True, False])

    def reset(device, task):
        found = learn(device, task)
        if next(rounds):
            line = device.link.channel
            line.process.kill()
            line.__init__(line.process.args)  # the same port, a program that has just started
        return found

    boards = [Board("left", on_a_line, from_samples(fresh(), *members(2)[1])), Board("right", on_a_line, reset)]
    made = Gateway(fresh(), boards)
    fleet = Fleet([made])
    samples = [made.learn(_packed(fleet), fleet.catalogue, TASK).samples for _ in range(2)]
    assert samples == [28, 28 + 24] and len(boards[1].failures) == 1 and "was reset" in boards[1].failures[0]
    made.close()


def test_boards_end_with_the_fleets_model_or_what_suits_them_better():
    """Without a rate, too: the gateway derives one from the samples that it holds for a board."""
    boards = [with_samples(str(k), on_a_line, fresh(), *members(3)[k]) for k in range(3)]
    made = Gateway(fresh(), boards, test=samples(60, 5), learned=True)  # these tests do not say when to go back
    fleet = Fleet([made])
    before = made.evaluate(_packed(fleet), fleet.catalogue)["accuracy"]
    fleet.round(Task(epochs=2))
    found = made.settle(_packed(fleet), fleet.catalogue, passes=6)
    states = [board.device.state() for board in boards]  # type: ignore[union-attr]
    own = [any((s[n] != states[0][n]).any() for n in s) for s in states]
    assert found["accuracy"] > before and found[KEPT] == 1 and own == [False, True, True]
    made.settle(_packed(fleet), fleet.catalogue, passes=0)
    shared, *others = [to_real(made.units, board.device.state()) for board in boards]  # type: ignore[union-attr]
    assert all((o[n] == a).all() for o in others for n, a in shared.items())
    made.close()


def test_without_any_board_the_gateway_says_so():
    def nobody():
        raise DeviceError("does not answer", where="serial:/dev/nowhere")

    made = Gateway(fresh(), [Board("left", nobody, from_samples(fresh(), *members(1)[0]))])
    with pytest.raises(DeviceError, match="no board answered .*left: .*does not answer"):
        Fleet([made]).round(TASK)


def test_an_emulated_board_learns_from_its_own_store():
    """Nothing but the model passes the line: the samples were observed by the board."""
    learner, rate = deepcopy(living.compiled()), 4 * living.RATE
    learner.device.load_arrays(first_state(learner))  # other tests may have trained it
    device, life = living.alive()
    x, y = living.points(24)
    for sample, label in zip(x, y):
        life.observe(sample[None], label=int(label), told=False)
    board = Board("watch", lambda: device, from_store(12))
    made = Gateway(learner, [board], test=living.points(200, seed=3))
    fleet = Fleet([made])
    before = made.evaluate(_packed(fleet), fleet.catalogue)["accuracy"]
    for k in range(3):
        fleet.round(Task(epochs=1, rate=rate, seed=k))
    assert not board.failures and Living(device).statistics()["steps"] == 36
    assert made.evaluate(_packed(fleet), fleet.catalogue)["accuracy"] > before
    task = Task(rate=rate)
    assert made.settle(_packed(fleet), fleet.catalogue, task, passes=2)["accuracy"] > before
    assert Living(device).statistics()["steps"] == 60


def _packed(fleet: Fleet) -> bytes:
    from insitu.federated.handout import base_of

    return base_of(fleet.arrays, fleet.catalogue).packed
