"""A pairwise covering leaves no pair of values out, and needs far fewer cases than the product."""

from itertools import combinations

from support.pairwise import pairwise


def test_any_two_values_of_two_parameters_meet():
    parameters = ("abcde", [1, 2, 3, 4], [True, False], "xy", [None, 0.5])
    cases = pairwise(*parameters)
    for (first, values), (second, others) in combinations(enumerate(parameters), 2):
        assert {(case[first], case[second]) for case in cases} == {(value, other) for value in values for other in others}
    assert len(set(cases)) == len(cases) <= 24  # the product has 160, the two longest parameters alone need 20
