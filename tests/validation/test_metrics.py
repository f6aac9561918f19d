"""The numbers of a family, against computation by hand."""

import dataclasses
import math

import pytest
from gtsim.hwconfigs import load_hardware
from gtsim.validation.best_of import best_of
from gtsim.validation.cases import Case, Measured, NotBuilt, Plan, Work
from gtsim.validation.floors import roofline_us
from gtsim.validation.inputs import spread
from gtsim.validation.metrics import best_factor, kendall_tau, percentile, scores
from gtsim.validation.outcome import Outcome
from gtsim.validation.registry import Suite, Target
from gtsim.validation.run import Choice
from gtsim.validation.scoring import families, verdicts


def case(name, measured, family="f", table="", clock=None):
    return Case(name, family, "h200_sxm", Measured(measured, clock), Work(0, 1e6), lambda: Plan(()), table)


def outcome(name, measured, predicted, *, family="f", table="", clock=1000.0, floor=1.0, tuned=False):
    made = Outcome.of("s", case(name, measured, family, table, clock))
    return made.predicted(cycles=round(predicted * 1000), clock_mhz=1000.0, tuned=tuned, seconds=0.0, floor_us=floor)


def test_errors_of_three_cases():
    s = scores([110, 95, 100], [100, 100, 100])
    assert s.n == 3
    assert s.mape == pytest.approx(0.05)  # 10, 5, 0 %
    assert s.median == pytest.approx(0.05)
    assert s.worst == pytest.approx(0.10)
    assert s.p90 == pytest.approx(0.09)  # 0, 5, 10: nine tenths of the way
    assert s.bias == pytest.approx((0.10 - 0.05) / 3)
    assert s.tau is None  # all measured times are equal


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 3.0), (0.9, 4.6), (1.0, 5.0)])
def test_percentile_is_linear_between_neighbours(share, value):
    assert percentile([1, 2, 3, 4, 5], share) == pytest.approx(value)


def test_tau_counts_pairs():
    assert kendall_tau([1, 2, 3, 4], [10, 20, 30, 40]) == 1
    assert kendall_tau([4, 3, 2, 1], [10, 20, 30, 40]) == -1
    assert kendall_tau([1, 3, 2, 4], [10, 20, 30, 40]) == pytest.approx(4 / 6)  # five pairs agree, one does not
    assert kendall_tau([1, 1, 2], [10, 20, 30]) == pytest.approx(2 / math.sqrt(2 * 3))  # tau-b: one pair tied in a
    assert kendall_tau([1], [1]) is None


def test_clear_pairs_are_those_that_measuring_twice_can_tell_apart():
    assert kendall_tau([2, 1, 3], [100, 102, 150], 0.03) == 1  # 100 and 102 swap, which does not count
    assert kendall_tau([2, 1, 3], [100, 104, 150], 0.03) == pytest.approx(1 / 3)
    assert kendall_tau([2, 1], [100, 102], 0.03) is None


def test_the_factor_gives_the_least_mean_error():
    predicted, measured = [1.0, 2.0, 4.0, 3.0], [2.0, 4.4, 7.0, 9.0]
    factor = best_factor(predicted, measured)

    def mape(f):
        return sum(abs(f * p / m - 1) for p, m in zip(predicted, measured, strict=True))

    assert all(mape(factor) <= mape(factor * (1 + d / 1000)) + 1e-12 for d in range(-500, 501))


def test_where_the_clock_is_known_nothing_is_scaled():
    (family,) = families([outcome("a", 10.0, 11.0), outcome("b", 20.0, 22.0)])
    assert family.factors == {}
    assert family.scores.mape == pytest.approx(0.1) and family.scores.tau == 1


def test_each_table_of_unknown_clock_has_its_own_factor():
    rows = [outcome(f"{t}{i}", i * scale, float(i), table=t, clock=None)
            for t, scale in (("x", 2.0), ("y", 3.0)) for i in (1, 2, 5)]
    (family,) = families(rows)
    assert family.factors == {"x": pytest.approx(2.0), "y": pytest.approx(3.0)}
    assert family.scores.mape == pytest.approx(0.0)
    assert [c.ratio for c in family.cases] == [pytest.approx(1.0)] * 6


def test_the_floor_is_scaled_by_one_factor_and_scored_alike():
    rows = [outcome(name, us, us, floor=floor) for name, us, floor in (("a", 10.0, 1.0), ("b", 20.0, 2.0), ("c", 60.0, 3.0))]
    (family,) = families(rows)
    assert family.floor_factors == {"": pytest.approx(10.0)}
    assert family.floor.mape == pytest.approx(0.5 / 3)  # 10, 20, 30 for 10, 20, 60


def test_cases_without_a_prediction_are_counted_and_in_no_average():
    (family,) = families([outcome("a", 10.0, 11.0), Outcome.of("s", case("b", 5.0, clock=1000.0)).failed("no such thing")])
    assert family.scores.n == 1 and family.not_predicted == 1
    assert family.to_dict()["not_predicted"] == 1


def test_the_best_of_many_is_a_family_of_its_own():
    made = families([outcome("a", 10.0, 11.0), outcome("b", 10.0, 11.0, tuned=True)])
    assert [f.name for f in made] == ["f", "f-tuned"]


def test_a_choice_loses_what_the_predicted_best_takes_longer():
    def contestant(name, measured, predicted, contest):
        return dataclasses.replace(outcome(name, measured, predicted), contest=contest)

    (family,) = families([contestant("a", 10.0, 9.0, "x"), contestant("b", 12.0, 8.0, "x"), contestant("c", 10.0, 9.0, "y"),
                          contestant("d", 10.2, 8.0, "y"), contestant("e", 5.0, 5.0, "z"), outcome("f", 1.0, 1.0)])
    assert family.choices == {"x": pytest.approx(0.2), "y": pytest.approx(0.02)}
    suite = Suite("s", "t", lambda inputs: (), "", targets=(Target(("f",), "choice", 0.9, "choosing"),))
    (verdict,) = verdicts(suite, [family])
    assert verdict.value == 0.5 and verdict.met is False


def test_targets_are_judged_by_the_worst_family():
    targets = (Target(("f*",), "mape", 0.15, "error"), Target(("f*",), "tau", 0.9, "order"), Target(("g",), "mape", 0.1, "none"))
    suite = Suite("s", "t", lambda inputs: (), "", targets=targets)
    found = families([outcome("a", 10.0, 11.0), outcome("b", 20.0, 21.0), outcome("c", 10.0, 12.0, family="f2"),
                      outcome("d", 20.0, 11.0, family="f2")])
    error, order, none = verdicts(suite, found)
    assert (error.family, error.met) == ("f2", False) and error.value == pytest.approx((0.2 + 0.45) / 2)
    assert (order.family, order.met, order.value) == ("f2", False, -1.0)
    assert none.met is None


def test_the_roofline_is_the_larger_of_both_times():
    hw = load_hardware("h200_sxm")
    assert roofline_us(Work(0, 4.8e6, "float16"), hw, 1500) == pytest.approx(1.0, rel=1e-3)  # 4.8 TB/s
    flops = 132 * 4096 * 1500.0  # a microsecond of all tensor cores at 1500 MHz
    assert roofline_us(Work(flops, 0, "float16"), hw, 1500) == pytest.approx(1.0)
    assert roofline_us(Work(flops, 0, "float8_e4m3fn"), hw, 1500) == pytest.approx(0.5)
    assert roofline_us(Work(flops, 4.8e6 * 3, "float32"), hw, 1500) == pytest.approx(3.0, rel=1e-3)  # no tensor cores for it


def test_best_of_takes_the_cheapest_and_keeps_why_others_failed():
    def attempt(x):
        if x < 0:
            raise NotBuilt(f"{x} does not fit")
        return x * x

    best = best_of([3, -1, 2, 4, -2], attempt, float, (NotBuilt,))
    assert (best.candidate, best.cost, best.tried) == (2, 4.0, 3)
    assert best.failed == ("-1 does not fit", "-2 does not fit")
    with pytest.raises(NotBuilt, match="-1 does not fit"):
        best_of([-1, -2], attempt, float, (NotBuilt,))


@pytest.mark.parametrize(("limit", "kept"), [(0, list(range(10))), (20, list(range(10))), (1, [0]), (2, [0, 9]),
                                             (4, [0, 3, 6, 9])])
def test_thinning_keeps_the_first_and_spreads_the_rest(limit, kept):
    assert spread(list(range(10)), limit) == kept


def test_a_choice_counts_in_the_order_of_the_suite():
    cases = [case(f"{op}--{i}", 1.0, family=op.lower()) for op in ("A", "B") for i in range(3)]
    assert [c.id for c in Choice(per_group=2).of(cases)] == ["A--0", "A--1", "B--0", "B--1"]
    assert [c.id for c in Choice(case="*--[12]", limit=3).of(cases)] == ["A--1", "A--2", "B--1"]
    assert [c.id for c in Choice(family="b").of(cases)] == ["B--0", "B--1", "B--2"]
