"""The wear of a board's flash: every erase is counted, and pages of the store are erased equally often."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("unicorn")

from insitu.cli.live import worn

from .cuts import Bench
from .living import RATE, points


def test_every_erase_is_counted_also_after_a_restart():
    bench = Bench.started()
    life = bench.life
    assert worn({**life.statistics(), "erases_in_all": 0, "in": "flash"}) == "no page erased yet"
    x, y = points(120)
    for i in range(120):
        life.observe(x[i], label=int(y[i]))
    life.rehearse(5, RATE)
    life.checkpoint()
    for _ in range(2):
        found = life.statistics()
        assert life.erases(found) == sum(bench.nor.erases) and found["checkpoints"] == 3 <= found["bank_erases"]
        bench.device.restart()
    life.checkpoint()
    assert life.erases(life.statistics()) == sum(bench.nor.erases)
    said = worn({**life.statistics(), "erases_in_all": life.erases(life.statistics()), "in": "flash"})
    assert said.startswith(f"{sum(bench.nor.erases)} erases of pages in all") and "4 checkpoints" in said


@pytest.mark.parametrize("labels", [4, 1])  # of one class alone, most samples stay for long
def test_segments_are_erased_equally_often(labels: int):
    bench = Bench.started("nrf51822", "last:1", "8K")
    pages = int(bench.life.life["segment_pages"]) * int(bench.life.life["segments"])
    x, y = points(500)
    for i in range(500):
        bench.life.observe(x[i], label=int(y[i]) % labels, told=False)
        erases = bench.nor.erases[:pages]
        assert max(erases) - min(erases) <= 1, (i, erases)
    assert min(erases) >= 3 and bench.life.statistics()["wear"] == max(erases)
