"""The search: exact, deterministic, never worse than evolution, and within the budget that the planner confirms."""

from fractions import Fraction
from itertools import product

import pytest

from insitu.errors import SchemeError
from insitu.schemes.contribution import Contribution, Gain, between, read_contribution
from insitu.schemes.cost import Bytes
from insitu.schemes.evolve import evolve
from insitu.schemes.ladder import climb, ladder, rungs
from insitu.schemes.scheme import read_scheme
from insitu.schemes.search import ROUNDS, Model, Need, Search, solve

from .nets import body, mobilenet

pytest.importorskip("scipy")
HALF, WHOLE = Fraction(1, 2), Fraction(1)


@pytest.fixture(scope="module")
def net():
    return body(mobilenet())


@pytest.fixture(scope="module")
def model(net):
    return Model(net, ladder(net))


def budgets(model: Model) -> list[int]:
    whole = model.bytes(range(len(model.parts)), 0)
    return [whole * part // 8 for part in (1, 2, 4, 6)]


def test_it_finds_the_best_of_all_schemes_of_a_small_table(net):
    shares = {net[-1].name: Gain(0.5, {HALF: 0.9, WHOLE: 1.0}), net[-3].name: Gain(0.4, {WHOLE: 2.0})}
    small = Model(net, Contribution("test", {**shares, net[-5].name: Gain(0.7)}))
    choices = [list(c) for c in product((False, True), repeat=len(small.parts))]
    kept = [[k for k, yes in enumerate(c) if yes] for c in choices]
    legal = [c for c in kept if sum(small.parts[k].at == len(net) - 1 and small.parts[k].share > 0 for k in c) < 2]
    for sram in budgets(small):
        best = max(small.gain(c) for c in legal if small.bytes(c, 500) <= sram or not c)
        assert small.gain(solve(small, sram, 500)) == pytest.approx(best)


def test_it_keeps_to_its_estimate_is_deterministic_and_never_worse_than_evolution(model):
    for sram in budgets(model):
        chosen = solve(model, sram, 1000)
        assert model.bytes(chosen, 1000) <= sram and chosen == solve(model, sram, 1000)
        assert model.gain(chosen) >= max(model.gain(evolve(model, sram, 1000, seed)) for seed in range(3)) - 1e-9


def test_nothing_is_printed_but_results(model, capfd):
    for sram in budgets(model):
        solve(model, sram, 1000)
    assert capfd.readouterr() == ("", "")


def test_a_real_peak_above_the_estimate_makes_it_take_less(model):
    """The estimate is corrected by what is measured, here always 5,000 bytes and a tenth more."""
    asked = []

    def measure(scheme, budget) -> Need:
        chosen = [k for k, p in enumerate(model.parts) if _has(scheme, model, p)]
        asked.append(scheme)
        return Need(int(model.bytes(chosen, 1000) * 1.1) + 5000)

    searching = Search(model, measure, floor=1000)
    for sram in budgets(model)[1:]:
        found = searching.best(Need(sram))
        assert found and found.need.sram <= sram and found.gain > 0
        assert found.need.sram > 0.9 * sram or found.gain == pytest.approx(model.gain(solve(model, 1 << 30, 1000)))
    assert len(asked) <= 1 + 3 * (2 * ROUNDS + len(model.rungs).bit_length())
    assert searching.best(Need(100)) is None


def test_no_scheme_is_worse_than_the_highest_rung_that_fits_however_wrong_the_estimate_is(model):
    """What the planner keeps beyond the estimate depends on the first trained layer, and on the weights: here much."""

    def chosen(scheme) -> list[int]:
        return [k for k, part in enumerate(model.parts) if _has(scheme, model, part)]

    def measure(scheme, budget) -> Need:
        some = chosen(scheme)
        passed = len(model.layers) - model.first(some) if some else 0
        return Need(model.bytes(some, 1000) + 3000 * passed + 500 * sum(u.share > 0 for u in scheme.updates))

    for sram in budgets(model):
        found = Search(model, measure, floor=1000).best(Need(sram + 1000))
        fitting = [r for r in model.rungs if measure(model.scheme(r), Need(0)).sram <= sram + 1000]
        assert found and found.need.sram <= sram + 1000 and found.gain >= max(map(model.gain, fitting))


def test_the_rungs_of_a_search_are_those_of_the_ladder_and_end_with_all_there_is(model, net):
    steps = rungs(net)
    assert not model.rungs[0] and model.rungs[-1] == model.everything
    for number in (1, len(steps) // 2, len(steps) - 2):
        assert model.scheme(model.rungs[number]).updates == climb(net, number, steps).updates


def _has(scheme, model: Model, part) -> bool:
    u = next((u for u in scheme.updates if u.layer == model.layers[part.at].name), None)
    return u is not None and (u.share == part.share if part.share else u.bias)


def test_a_front_gains_with_every_byte(model):
    def measure(scheme, budget):
        return Need(2000 + sum(len(u.layer) * 100 + int(1000 * u.share) for u in scheme.updates))

    found = Search(model, measure).front([Need(n) for n in (8_000, 4_000, 4_100, 20_000)])
    assert [f.need.sram for f in found] == sorted({f.need.sram for f in found})
    assert [f.gain for f in found] == sorted({f.gain for f in found})


def test_instructions_and_flash_limit_too(model):
    def measure(scheme, budget):
        return Need(1000, 500 + 10 * len(scheme.updates), 10_000 * (1 + len(scheme.updates)))

    found = Search(model, measure).best(Need(10**6, 0, 70_000))
    assert found and found.need.instructions <= 70_000


def test_a_table_reads_back_and_adds_up(net):
    table = ladder(net)
    again = read_contribution(table.to_json(), net)
    for scheme in ("last:3", "bias:4", "ladder:9"):
        assert again.of(read_scheme(scheme, net)) == pytest.approx(table.of(read_scheme(scheme, net))) != 0
    assert between({HALF: 1.0, WHOLE: 3.0}, Fraction(3, 4)) == 2.0
    with pytest.raises(SchemeError, match="no layer"):
        read_contribution('{"source": "x", "gains": {"other": {"bias": 1, "weight": {}}}}', net)
    for text in ("[]", '{"gains":' * 20000):
        with pytest.raises(SchemeError, match="is not a table"):
            read_contribution(text, net)


def test_bytes_follow_the_arithmetic(net):
    layer = net[-1]
    assert Bytes(1.5).weight(layer) == round(1.5 * layer.weight.type.size)
    assert Bytes().bias(layer) == 4 * layer.bias.type.size


def test_a_scheme_that_linked_too_large_is_not_found_in_the_same_budget_again():
    """134,130 bytes were planned as 133,900, for a budget of 134,098: less than 32 bytes below, it came again."""
    budget, planned, linked = Need(134_098, 600_000), Need(133_900, 500_000, 7), Need(134_130, 500_010, 7)
    assert planned.within(budget) and not linked.within(budget)
    left = budget.less(linked, planned)
    assert not planned.within(left) and Need(133_000, 500_000, 9).within(left), "no limit on instructions stays none"
