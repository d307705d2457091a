"""Secure aggregation: the sum is exact, single changes stay hidden, and devices may leave."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.errors import DataError
from insitu.federated.checks import norm
from insitu.federated.delta import base_hash
from insitu.federated.handout import base_of
from insitu.federated.member import Member
from tests.federated.fleet import fresh, members

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

from flwr.app import Error, Message
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian, FedTrimmedAvg, Krum

from insitu.federated.app import ANSWER, PHASE, client_app, run_rounds
from insitu.federated.secure.numbers import as_numbers, bounded, read_masked, step_of, write_masked
from insitu.federated.secure.party import Party, least_threshold
from insitu.federated.secure.rounds import SecureDeltas
from insitu.federated.secure.secrets import agreed, expand, joined, opened, public_of, seal, split
from insitu.federated.secure.total import bits_for, unmasked
from insitu.federated.strategy import RECORD, Deltas
from insitu.federated.units import units_of
from tests.federated.test_rounds import Here, everyone, message_to

SETTINGS = {"epochs": 1, "rate": 0.02}


# the tools --------------------------------------------------------------------------------------


def test_enough_shares_give_the_secret_and_fewer_do_not():
    secret = bytes(range(32))
    shares = dict(enumerate(split(secret, 7, 5)))
    for left_out in ((0, 1), (2, 6), (5,), ()):
        assert joined({i: s for i, s in shares.items() if i not in left_out}, 5) == secret
    four = {i: shares[i] for i in range(4)}
    with pytest.raises(DataError, match="too few"):
        joined(four, 5)
    assert joined({**four, 4: split(bytes(32), 7, 5)[4]}, 5) != secret
    with pytest.raises(DataError, match="do not fit"):
        joined({**shares, 6: bytes(33)}, 5)


def test_two_devices_agree_on_a_key_that_only_they_have_and_a_changed_letter_is_found():
    (a, b, c), letter = (bytes([k]) * 32 for k in (1, 2, 3)), b"a share"
    key = agreed(a, public_of(b), b"x")
    assert key == agreed(b, public_of(a), b"x") != agreed(c, public_of(a), b"x")
    assert opened(key, seal(key, letter)) == letter
    with pytest.raises(DataError, match="changed on its way"):
        opened(key, seal(key, letter)[:-1] + b"\0")
    with pytest.raises(DataError, match="not valid"):
        agreed(a, bytes(32), b"x")


# a round without any engine ---------------------------------------------------------------------


class Circle:
    """Devices that have exchanged letters, each with random 16-bit numbers."""

    def __init__(self, count: int, size: int = 200, seed: int = 0):
        self.threshold, self.bits, rng = least_threshold(count), bits_for(count), np.random.default_rng(seed)
        self.parties = [Party.new() for _ in range(count)]
        self.roster = [p.public.packed for p in self.parties]
        self.sealed = [p.letters(self.roster, self.threshold) for p in self.parties]
        self.numbers = [rng.integers(-32767, 32768, size) for _ in range(count)]
        self.parties = [Party.keep(p.kept()) for p in self.parties]  # every message is a new process

    def masked(self, i: int) -> np.ndarray:
        letters = {j: sealed[i] for j, sealed in enumerate(self.sealed) if j != i}
        return self.parties[i].masked(self.numbers[i], letters, self.bits)

    def total(self, sent: list[int], revealing: list[int]) -> np.ndarray:
        masked = {i: self.masked(i) for i in sent}
        shares = {i: self.parties[i].reveal(sent) for i in revealing}
        return unmasked(masked, self.roster, range(len(self.parties)), shares, self.threshold, self.bits)


@pytest.mark.parametrize("count, sent, revealing", [
    (3, [0, 1, 2], [0, 1, 2]),
    (7, list(range(7)), list(range(7))),
    (7, [0, 2, 3, 5, 6], [0, 2, 3, 5, 6]),  # two left before they sent anything
    (7, [0, 1, 2, 3, 5, 6], [1, 2, 3, 5, 6]),  # one left before, one after
])  # fmt: skip
def test_the_sum_of_those_who_sent_is_exact(count, sent, revealing):
    circle = Circle(count)
    assert (circle.total(sent, revealing) == sum(circle.numbers[i] for i in sent)).all()


def test_with_fewer_than_the_threshold_there_is_no_sum():
    for sent in ([0, 1, 2, 3], [0, 1, 2, 3, 4, 5]):
        with pytest.raises(DataError, match="only 4 devices are left, 5 are needed"):
            Circle(7).total(sent, [0, 1, 2, 3])


def test_the_largest_sums_do_not_wrap():
    circle = Circle(8, 4)
    circle.numbers = [np.array([32767, -32767, 0, -1])] * 8
    assert (circle.total(list(range(8)), list(range(8))) == [8 * 32767, -8 * 32767, 0, -8]).all()


def test_masked_numbers_are_uniform_whatever_is_under_them():
    """A device with only zeros and one with the largest numbers look the same: 32 ranges are equally full."""
    for number in (0, 32767, -32767):
        circle = Circle(3, 32_000, seed=1)
        circle.numbers[0] = np.full(32_000, number)
        counts = np.bincount(circle.masked(0) >> (circle.bits - 5), minlength=32)
        assert ((counts - 1000.0) ** 2 / 1000).sum() < 90  # chi-square, 31 degrees of freedom: once in ten million
    one, two = Circle(3), Circle(3)  # the same numbers, new keys: nothing of them is left
    assert (one.numbers[0] == two.numbers[0]).all() and (one.masked(0) == two.masked(0)).mean() < 0.05


def test_the_server_cannot_see_a_change_even_with_everything_that_is_revealed():
    """It can take a device's own mask off, as it must for the sum: the pairwise masks still hide the numbers."""
    circle = Circle(4)
    low = np.uint32(2**circle.bits - 1)
    masked = {i: circle.masked(i) for i in range(4)}
    shares = {i: circle.parties[i].reveal(range(4)) for i in range(4)}
    for i in range(4):
        own = expand(joined({k: s[i] for k, s in shares.items()}, circle.threshold), 200, circle.bits)
        left, wanted = (masked[i] - own) & low, circle.numbers[i].astype(np.uint32) & low
        assert (left == wanted).mean() < 0.05 and abs(np.corrcoef(left, wanted)[0, 1]) < 0.35
    total = unmasked(masked, circle.roster, range(4), shares, circle.threshold, circle.bits)
    assert (total == sum(circle.numbers)).all()


def test_a_device_never_reveals_both_secrets_of_another_and_answers_once():
    circle = Circle(4)
    circle.masked(0)
    shares = circle.parties[0].reveal([0, 1, 2])
    assert shares[1] == circle.parties[0].shares[1][:33] and shares[3] == circle.parties[0].shares[3][33:]
    for again in (lambda: circle.parties[0].reveal([0, 1, 3]), lambda: circle.masked(0),
                  lambda: circle.parties[0].letters(circle.roster, circle.threshold)):  # fmt: skip
        with pytest.raises(DataError, match="twice"):
            again()


@pytest.mark.parametrize("count, threshold", [(2, 2), (7, 4), (3, 4)])
def test_a_threshold_that_hides_nobody_is_refused_by_the_device(count, threshold):
    parties = [Party.new() for _ in range(count)]
    with pytest.raises(DataError, match="not enough to hide one"):
        parties[0].letters([p.public.packed for p in parties], threshold)


def test_the_influence_of_a_device_is_bounded_on_the_device():
    units, rng = units_of(fresh().graphs), np.random.default_rng(0)
    huge = {u.name: rng.normal(0, 1e3, u.value.shape).astype(np.float32) for u in units}
    small = bounded(huge, 0.5, None)
    assert abs(norm(small) - 0.5) < 1e-5
    numbers, left = as_numbers(small, units, step_of(0.5))
    assert np.abs(numbers).max() <= 32767 and norm(left) <= step_of(0.5) * np.sqrt(numbers.size)


def test_masked_numbers_of_another_base_or_damaged_ones_are_refused():
    units = units_of(fresh().graphs)
    numbers = np.arange(sum(u.size for u in units), dtype=np.uint32)
    data, base = write_masked(numbers, 20, units, b"base"), base_hash(b"base")
    assert (read_masked(data, 20, units, base) == numbers).all()
    for bad, words in ((data[:-1], "another length"), (data[:-1] + bytes([data[-1] ^ 1]), "damaged"), (b"", "missing")):
        with pytest.raises(DataError, match=words):
            read_masked(bad, 20, units, base)
    with pytest.raises(DataError, match="another model, scheme, base"):
        read_masked(data, 20, units, base_hash(b"other"))


# through Flower ---------------------------------------------------------------------------------


def apps(count: int = 4, **options):
    return [client_app(lambda _, d=d: Member(fresh(), *d, **{"secure": 1.0, **options})) for d in members(count)]


def secured(strategy, grid, rounds: int = 2, clip: float = 1.0) -> SecureDeltas:
    return ran(SecureDeltas(strategy, [fresh()], clip=clip), grid, rounds)


def ran(deltas, grid, rounds: int):
    run_rounds(deltas, grid, rounds, SETTINGS, None, 60)
    return deltas


def plain_mean(count: int = 4, rounds: int = 2) -> dict[str, np.ndarray]:
    """Plain rounds in which every device counts the same."""
    deltas = Deltas(everyone(FedAvg, count), [fresh()])
    deltas.uniform = True
    plain_apps = [client_app(lambda _, d=d: Member(fresh(), *d)) for d in members(count)]
    return ran(deltas, Here(plain_apps), rounds).first


def test_the_model_under_masks_is_that_of_plain_rounds():
    seen = []

    def watch(message, node, reply):
        if message.metadata.message_type == "train":
            seen.append((message.content[RECORD][PHASE], sorted(reply.content[RECORD])))
        return reply

    found, wanted = secured(everyone(FedAvg), Here(apps(), watch)), plain_mean()
    assert not found.dropped and [t.replies for t in found.traffic] == [4, 4]
    for name, a in wanted.items():
        np.testing.assert_allclose(found.first[name], a, atol=2e-3 * max(1.0, np.abs(a).max()), err_msg=name)
    assert {field for _, fields in seen for field in fields} == {ANSWER}  # neither loss nor samples
    assert [phase for phase, _ in seen[::4]] == 2 * ["keys", "letters", "sum", "reveal"]


def gone(phase: str, nodes: set[int]):
    def spoil(message, node, reply):
        if message.metadata.message_type == "train" and message.content[RECORD][PHASE] == phase and node in nodes:
            return Message(Error(1, "unplugged"), reply_to=message_to(node))
        return reply

    return spoil


@pytest.mark.parametrize("phase", ["keys", "letters", "sum", "reveal"])
def test_a_device_may_leave_at_any_point(phase):
    found = secured(everyone(FedAvg, 5), Here(apps(5), gone(phase, {1})), 1)
    assert [t.replies for t in found.traffic] == [5 if phase == "reveal" else 4]
    assert ["unplugged" in d.why for d in found.dropped] == [True]
    start = Deltas(everyone(FedAvg), [fresh()]).first
    assert any(np.abs(found.first[n] - a).max() > 1e-4 for n, a in start.items())


def test_a_round_that_too_many_leave_is_refused_and_changes_nothing():
    found = secured(everyone(FedAvg, 5), Here(apps(5), gone("sum", {1, 2})), 1)
    assert "the round was refused" in found.dropped[-1].why and "only 3 devices are left, 4" in found.dropped[-1].why
    start = Deltas(everyone(FedAvg), [fresh()]).first
    assert all((found.first[n] == a).all() for n, a in start.items())


def test_a_device_that_lies_is_noticed_by_its_effect():
    start = Deltas(everyone(FedAvg), [fresh()])
    base = base_of(start.first, start.catalogue).packed

    def spoil(message, node, reply):
        if node == 2 and message.metadata.message_type == "train" and message.content[RECORD][PHASE] == "sum":
            units = units_of(fresh().graphs)
            noise = np.random.default_rng(0).integers(0, 2**18, sum(u.size for u in units)).astype(np.uint32)
            reply.content[RECORD][ANSWER] = write_masked(noise, 18, units, base)
        return reply

    found = secured(everyone(FedAvg), Here(apps(), spoil), 1)
    assert "honest devices by" in found.dropped[-1].why


def test_a_device_answers_once_for_a_model_and_never_without_masks():
    grid = Here(apps())
    first = secured(everyone(FedAvg), grid, 1)
    again = secured(everyone(FedAvg), grid, 1)  # a server that asks the same devices about the same model
    assert not first.dropped and any("has answered for this model already" in d.why for d in again.dropped)
    plain = ran(Deltas(everyone(FedAvg), [fresh()]), Here(apps()), 1)
    assert len([d for d in plain.dropped if "answers only under masks" in d.why]) == 4


@pytest.mark.parametrize("strategy", [everyone(kind) for kind in (Krum, FedMedian, FedTrimmedAvg)],
                         ids=lambda s: type(s).__name__)  # fmt: skip
def test_strategies_that_compare_devices_are_refused_by_name(strategy):
    with pytest.raises(DataError, match=f"{type(strategy).__name__} needs to see single devices' changes"):
        SecureDeltas(strategy, [fresh()])


def test_unlike_schemes_are_refused_and_servers_with_moments_work():
    with pytest.raises(DataError, match="unlike schemes"):
        SecureDeltas(everyone(FedAvg), [fresh(), fresh("head")])
    assert not secured(everyone(FedAdam, eta=0.01), Here(apps())).dropped
