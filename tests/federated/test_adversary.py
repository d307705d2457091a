"""Attacks on secure aggregation, one test each: the claims of docs/federated-secure.md, "What it protects from".

The server is the adversary in most of them: it passes every message on, and may change any. In the others a device is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from insitu.errors import DataError
from insitu.federated.member import Member
from tests.federated.fleet import fresh, members

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

from flwr.app import ConfigRecord
from flwr.serverapp.strategy import FedAvg

from insitu.federated.app import ANSWER, PHASE, client_app
from insitu.federated.catalogue import catalogue_of
from insitu.federated.checks import norm
from insitu.federated.handout import base_of, whole_blob
from insitu.federated.member import Task
from insitu.federated.privacy import Noise
from insitu.federated.secure.device import answered, model_hash
from insitu.federated.secure.numbers import pack_entries, unpack_entries
from insitu.federated.secure.party import MOST, Party, check_roster, checked_public, least_threshold
from insitu.federated.secure.rounds import SecureDeltas
from insitu.federated.secure.secrets import agreed, expand, joined, split
from insitu.federated.secure.total import bits_for, unmasked
from insitu.federated.strategy import RECORD, Deltas
from tests.federated.test_rounds import Here, everyone
from tests.federated.test_secure import SETTINGS, Circle, apps, plain_mean

ORDERS = (  # all points of small order of Curve25519: whoever agrees on a key with one of them agrees on zeros
    bytes(32), b"\x01" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f", b"\xed" + b"\xff" * 30 + b"\x7f",
    b"\xee" + b"\xff" * 30 + b"\x7f",
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
)  # fmt: skip


class Liar(Here):
    """A server that tells devices what it likes: `lie` changes the settings of a message to a node."""

    def __init__(self, made, lie, spoil=lambda message, node, reply: reply):
        super().__init__(made, spoil)
        self.lie = lie

    def answer(self, message):
        if message.metadata.message_type == "train":
            record = message.content[RECORD]
            told = self.lie(dict(record), message.metadata.dst_node_id)
            message.content[RECORD] = ConfigRecord(told)
        return super().answer(message)


def one_round(grid, count: int = 4) -> SecureDeltas:
    """A round alone, without evaluations."""
    found = SecureDeltas(everyone(FedAvg, count), [fresh()])
    config = ConfigRecord({**SETTINGS, "server-round": 1})
    found.first = found.round(grid, 1, found.first, config, 60)
    return found


def refused(grid, words: str) -> None:
    found = one_round(grid)
    assert any(words in d.why for d in found.dropped), [d.why for d in found.dropped]
    assert "the round was refused" in found.dropped[-1].why
    start = Deltas(everyone(FedAvg), [fresh()]).first
    assert all((found.first[n] == a).all() for n, a in start.items())


# a server that tells devices different things -----------------------------------------------------


@pytest.mark.parametrize("lie, when, words", [
    ({"clip": 1e9}, ("letters", "sum"), "a letter was changed"),  # their numbers would round to zero: a sum of one
    ({"clip": 1e9}, ("sum",), "changed the round after it began"),
    ({"rate": 1e-9}, ("letters", "sum"), "a letter was changed"),  # they would learn nothing
    ({"epochs": 0}, ("sum",), "changed the round after it began"),
], ids=str)  # fmt: skip
def test_all_but_one_are_told_to_answer_with_nothing(lie, when, words):
    refused(Liar(apps(), lambda s, node: {**s, **lie} if node and s[PHASE] in when else s), words)


def test_all_but_one_are_given_a_model_whose_change_is_known():
    """The same lie about the hash in the letters does not help: letters under another hash do not open."""
    strategy = Deltas(everyone(FedAvg), [fresh()])
    flat = base_of({n: a * 0 for n, a in strategy.first.items()}, strategy.catalogue).packed

    def told(settings, node):
        if node and settings[PHASE] == "sum":
            return {**settings, "base": whole_blob(flat)}
        return {**settings, "model": model_hash(flat)} if node and settings[PHASE] == "letters" else settings

    refused(Liar(apps(), told), "a letter was changed on its way")
    late = Liar(apps(), lambda s, node: {**s, "base": whole_blob(flat)} if node and s[PHASE] == "sum" else s)
    refused(late, "changed the round after it began")


def test_devices_that_are_shown_different_lists_do_not_read_each_others_letters():
    one, *others = [Party.new() for _ in range(4)]
    roster = [p.public.packed for p in (one, *others)]
    other = [*roster[:3], Party.new().public.packed]
    one.letters(roster, 3)
    sealed = others[0].letters(other, 3)
    with pytest.raises(DataError, match="changed on its way"):
        one.masked(np.zeros(4), {1: sealed[0]}, 18)


# a server that lies about who left ----------------------------------------------------------------


def test_no_server_gets_both_secrets_of_a_device():
    """Each device reveals one share, and the server needs as many as the threshold of each secret: that is more than
    there are, even if devices short of a third give it both of theirs."""
    for count in range(3, 1000):
        threshold, helpers = least_threshold(count), (count - 1) // 3
        assert 2 * threshold > count + helpers


def test_half_are_told_that_a_device_left_and_half_that_it_did_not():
    circle = Circle(7)
    masked = {i: circle.masked(i) for i in range(7)}
    everybody, without = list(range(7)), [i for i in range(7) if i != 2]
    shares = {i: circle.parties[i].reveal(everybody if i % 2 == 0 else without) for i in range(7)}
    about = {i: s[2] for i, s in shares.items()}
    seeds, keys = {i: s for i, s in about.items() if i % 2 == 0}, {i: s for i, s in about.items() if i % 2}
    for found in (seeds, keys):
        with pytest.raises(DataError, match="too few"):
            joined(found, circle.threshold)
    with pytest.raises(DataError, match="do not fit"):
        unmasked(masked, circle.roster, range(7), shares, circle.threshold, circle.bits)


def test_a_device_is_told_that_it_left_itself():
    circle = Circle(4)
    circle.masked(0)
    with pytest.raises(DataError, match="are needed to hide one"):
        circle.parties[0].reveal([1, 2, 3])


def test_different_lists_of_who_left_shrink_the_sum_to_half_of_the_devices_and_not_below():
    """Not refused, but bounded: each device reveals the keys of fewer than a third, so the server can make at most
    `most` devices look gone, and those who remain are in one sum."""
    for count in range(3, 1000):
        threshold = least_threshold(count)
        most = count * (count - threshold) // threshold
        assert count - most >= max(3, count / 2)


def test_a_change_that_arrives_after_its_device_was_declared_gone_stays_hidden():
    """The others have revealed its key by then: its own mask, of which nobody reveals a share, still hides it."""
    circle, left = Circle(7), 3
    masked = {i: circle.masked(i) for i in range(7)}
    others = [i for i in range(7) if i != left]
    shares = {i: circle.parties[i].reveal(others) for i in others}
    del masked[left]
    total = unmasked(masked, circle.roster, range(7), shares, circle.threshold, circle.bits)
    assert (total == sum(circle.numbers[i] for i in others)).all()
    key = joined({i: s[left] for i, s in shares.items()}, circle.threshold)
    late = Party(circle.parties[left].letter_key, key, bytes(32), circle.roster)  # all that the server can rebuild
    late.wrote = list(range(7))
    pairs = sum(late._pair(i, 200, circle.bits) for i in range(7))
    low = np.uint32(2**circle.bits - 1)
    own = expand(circle.parties[left].seed, 200, circle.bits)
    arrived = (circle.numbers[left].astype(np.uint32) + own + pairs) & low
    shown, wanted = (arrived - pairs) & low, circle.numbers[left].astype(np.uint32) & low
    assert (shown == wanted).mean() < 0.05 and ((shown - own) & low == wanted).all()


# rounds that come again -----------------------------------------------------------------------------


def device_of(k: int):
    """A device outside any engine: ask(phase, told) answers as its app does."""
    member, kept = Member(fresh(), *members(4)[k], secure=1.0), {}
    catalogue = catalogue_of([member.units])

    def ask(phase, told, place=None):
        return answered(
            phase, {**SETTINGS, **told}, member, catalogue, Task(**SETTINGS), place if place is not None else kept
        )

    return ask, member, kept


class Round:
    """The server's side of one round with four devices, by hand."""

    def __init__(self, asks, places, scale: float = 1.0):
        strategy = Deltas(everyone(FedAvg), [fresh()])
        self.base = base_of({n: a * scale for n, a in strategy.first.items()}, strategy.catalogue).packed
        self.asks, self.places = asks, places
        roster = b"".join(self.ask("keys", {}))
        terms = {"clip": 1.0, "bits": bits_for(4)}
        told = {"roster": roster, "threshold": 3, "model": model_hash(self.base), **terms}
        letters = [unpack_entries(data, 82) for data in self.ask("letters", told)]
        for i, ask in enumerate(asks):
            mine = pack_entries({j: sealed[i] for j, sealed in enumerate(letters) if j != i})
            ask("sum", {"base": self.base, "letters": mine, **terms}, places[i])

    def ask(self, phase, told):
        return [ask(phase, told, place) for ask, place in zip(self.asks, self.places)]

    def reveal(self, alive: Sequence[int] = range(4)):
        return self.ask("reveal", {"alive": pack_entries(dict.fromkeys(alive, b""))})


def test_two_rounds_at_once_about_one_model_end_in_one_sum():
    """A server may run two apps, each with secrets of its own on the device; the device reveals for one of them."""
    asks = [device_of(k)[0] for k in range(4)]
    one, two = (Round(asks, [{} for _ in range(4)]) for _ in range(2))
    assert all(one.reveal())
    with pytest.raises(DataError, match="has answered for this model already"):
        two.reveal([0, 1, 2])


def test_a_model_that_comes_again_after_others_is_still_refused_also_by_a_new_process():
    made = [device_of(k) for k in range(4)]
    asks = [ask for ask, _, _ in made]
    for scale in (1.0, 0.99):
        Round(asks, [{} for _ in range(4)], scale).reveal()
    again = Member(fresh(), *members(4)[0], secure=1.0)
    again.keep(made[0][1].kept())
    assert again.revealed == made[0][1].revealed and len(again.revealed) == 2
    with pytest.raises(DataError, match="has answered for this model already"):
        Round(asks, [{} for _ in range(4)], 1.0)


def test_keys_are_new_in_every_round_and_secrets_are_forgotten_after_it():
    ask, _, kept = device_of(0)
    first = ask("keys", {})
    assert ask("keys", {}) != first and "party" in kept
    asks, places = [device_of(k)[0] for k in range(4)], [{} for _ in range(4)]
    Round(asks, places).reveal()
    assert all("party" not in place for place in places)
    with pytest.raises(DataError, match="no part in this round"):
        asks[0]("reveal", {"alive": pack_entries(dict.fromkeys(range(4), b""))}, places[0])


def test_letters_of_an_earlier_round_do_not_open():
    old, new = Circle(4), Circle(4)
    new.sealed[1] = old.sealed[1]
    with pytest.raises(DataError, match="changed on its way"):
        new.masked(0)


# too few, or the same ones twice --------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_devices_are_not_summed(count):
    found = one_round(Here(apps(count)), count)
    assert f"only {count} devices are left, 3 are needed" in found.dropped[-1].why
    parties = [Party.new() for _ in range(count)]
    with pytest.raises(DataError, match="not enough to hide one"):
        parties[0].letters([p.public.packed for p in parties], count)


def test_one_device_in_two_places_is_refused():
    parties = [Party.new() for _ in range(3)]
    roster = [p.public.packed for p in parties]
    twice = [*roster, roster[1]]
    half = [*roster, roster[1][:32] + Party.new().public.masks]
    for bad in (twice, half):
        with pytest.raises(DataError, match="in the server's list twice"):
            parties[0].letters(bad, 3)
    with pytest.raises(DataError, match="too many"):
        check_roster([k.to_bytes(32, "little") + k.to_bytes(32, "big") for k in range(1, MOST + 2)])


def test_a_second_answer_of_one_device_is_dropped():
    class Twice(Here):
        def send_and_receive(self, messages, *, timeout=None):
            found = super().send_and_receive(messages, timeout=timeout)
            return found + [m for m in found if m.metadata.src_node_id == 1 and m.has_content()
                            and RECORD in m.content.config_records]  # fmt: skip

    found = one_round(Twice(apps()))
    assert [d.why for d in found.dropped] == [f"{p}: answers twice" for p in ("keys", "letters", "sum", "reveal")]
    for name, a in plain_mean(rounds=1).items():
        np.testing.assert_allclose(found.first[name], a, atol=2e-3 * max(1.0, np.abs(a).max()), err_msg=name)


# numbers ----------------------------------------------------------------------------------------------


def test_sums_of_the_most_devices_do_not_wrap():
    for count in (3, 4, 5, 255, 256, 257, MOST):
        assert count * 32767 < 2 ** (bits_for(count) - 1) and bits_for(count) <= 32


@pytest.mark.parametrize("told", [{"bits": 17}, {"bits": 40}, {"clip": 0.0}, {"clip": float("nan")}], ids=str)
def test_numbers_that_could_wrap_are_refused_by_the_device(told):
    refused(Liar(apps(), lambda s, node: {**s, **told} if s[PHASE] == "letters" else s), "are not for 4 devices")


def test_masks_have_no_bias_modulo_any_power_of_two():
    """Each bit of the stream is a bit of the mask: nothing is reduced modulo a prime."""
    for bits in (17, 20, 32):
        stream = expand(bytes(range(32)), 100_000, bits)
        ones = (stream[:, None] >> np.arange(bits, dtype=np.uint32) & 1).mean(0)
        assert stream.max() < 2**bits and (np.abs(ones - 0.5) < 0.01).all()  # 6 standard deviations
        assert (stream & np.uint32(2**17 - 1) == expand(bytes(range(32)), 100_000, 17)).all()


def test_a_share_says_nothing_about_the_secret():
    """Shares of all zeros and of all ones: the leading bytes of 400 of them are equally spread."""
    for secret in (bytes(32), b"\xff" * 32):
        leading = np.array([split(secret, 3, 3)[0][31] for _ in range(400)])
        assert 90 < leading.mean() < 165 and len(set(leading)) > 150


# devices that lie -------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ORDERS, ids=range(len(ORDERS)))
def test_keys_of_small_order_are_refused_by_server_and_devices(point):
    good = Party.new().public
    for bad in (point + good.masks, good.letters + point):
        with pytest.raises(DataError, match="not valid"):
            checked_public(bad)
    with pytest.raises(DataError, match="not valid"):
        agreed(b"\x11" * 32, point, b"x")


def answer_of(phase: str, node: int, change):
    def spoil(message, which, reply):
        if which == node and message.metadata.message_type == "train" and message.content[RECORD][PHASE] == phase:
            reply.content[RECORD][ANSWER] = change(reply.content[RECORD][ANSWER])
        return reply

    return spoil


@pytest.mark.parametrize("phase, change", [
    ("keys", lambda data: bytes(64)), ("keys", lambda data: data[:-1]), ("letters", lambda data: data[86:]),
], ids=["zero key", "short key", "a letter short"])  # fmt: skip
def test_a_device_that_lies_before_masks_are_made_is_left_out_and_the_round_goes_on(phase, change):
    found = one_round(Here(apps(5), answer_of(phase, 1, change)), 5)
    assert [t.replies for t in found.traffic] == [4] and [d.node for d in found.dropped] == [1]


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("phase, change, replies, node", [
    ("letters", flipped, 3, 2),  # the device whose letter does not open leaves
    ("reveal", flipped, 0, 0),  # a wrong share: nobody can know whose, the round is refused
    ("reveal", lambda data: data[: len(data) // 2], 4, None),  # shares are missing: the others suffice
], ids=["letter", "share", "half"])  # fmt: skip
def test_a_device_that_lies_later_can_spoil_a_round_and_nothing_more(phase, change, replies, node):
    found = one_round(Here(apps(4), answer_of(phase, 3, change)))
    start = Deltas(everyone(FedAvg), [fresh()]).first
    moved = {n: a - start[n] for n, a in found.first.items()}
    assert found.traffic[-1].replies == replies and [d.node for d in found.dropped] == ([] if node is None else [node])
    assert norm(moved) <= 1.01 if replies else norm(moved) == 0


@pytest.mark.parametrize("multiplier", [None, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("count", [3, 50])
def test_a_sum_with_a_wrong_mask_in_it_is_noticed(multiplier, count):
    """It is uniform modulo 2^k; honest sums, with noise of any size, are not refused."""
    noise = None if multiplier is None else Noise(multiplier, 1.0)
    strategy, rng = SecureDeltas(everyone(FedAvg), [fresh()], noise=noise), np.random.default_rng(0)
    size, step = sum(a.size for a in strategy.first.values()), (1 + 6 * (multiplier or 0)) / 32767
    wrong = rng.integers(-(2 ** (bits_for(count) - 1)), 2 ** (bits_for(count) - 1), size) * step / count
    with pytest.raises(DataError, match="honest devices by"):
        strategy._check({"all": wrong}, count)
    honest = rng.normal(0, multiplier or 0, (count, size)).mean(0) + 1 / size**0.5
    strategy._check({"all": honest}, count)


def test_devices_that_know_of_no_masks_send_nothing_to_a_server_that_asks_for_them():
    open_apps = [client_app(lambda _, d=d: Member(fresh(), *d)) for d in members(4)]
    found = one_round(Here(open_apps))
    assert any("does not know of secure aggregation" in d.why for d in found.dropped)
