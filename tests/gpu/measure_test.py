"""Tests of the benchmarks' arithmetic."""

import statistics
import unittest

import checks
import measure


class MfuTest(unittest.TestCase):
    def test_a_token_of_gpt2_124m_takes_803_megaflop(self):
        self.assertAlmostEqual(measure.flops_per_token() / 1e6, 803.5, places=1)

    def test_468_000_tokens_a_second_are_38_percent_of_an_h100(self):
        self.assertAlmostEqual(measure.mfu(468_000, "NVIDIA H100 80GB HBM3"), 0.380, places=3)

    def test_cards_of_one_name_have_their_own_peaks(self):
        self.assertEqual(measure.peak("NVIDIA H100 PCIe"), 756e12)
        self.assertEqual(measure.peak("NVIDIA H200"), 989.4e12)

    def test_of_an_unknown_card_there_is_no_share(self):
        self.assertIsNone(measure.mfu(1000, "a card of tomorrow"))


def of(value, why="", **about):
    return measure.Figure(value, about, why)


class RowTest(unittest.TestCase):
    def test_a_rate_twice_as_high_is_twice_as_good(self):
        self.assertEqual(measure.row("cnn", of(200), of(100), "images/s"),
                         {"name": "cnn", "ours": 200, "peer": 100, "ratio": 2, "unit": "images/s"})

    def test_a_time_half_as_long_is_twice_as_good(self):
        self.assertEqual(measure.row("first", of(1), of(2), "s", more_is_better=False)["ratio"], 2)

    def test_where_one_is_missing_there_is_no_ratio_but_the_reason(self):
        row = measure.row("cnn", of(200), of(None, why="no PyTorch"), "images/s")
        self.assertIsNone(row["ratio"])
        self.assertEqual(row["peer_why"], "no PyTorch")
        self.assertNotIn("ours_why", row)
        self.assertIsNone(measure.row("cnn", of(None), of(100), "images/s")["ratio"])

    def test_a_row_says_with_what_each_side_was_measured(self):
        row = measure.row("gpt", of(1, batch=64), of(1, batch=48, torch="2.9"), "tokens/s")
        self.assertEqual((row["ours_batch"], row["peer_batch"], row["peer_torch"]), (64, 48, "2.9"))

    def test_a_cost_below_zero_is_told_as_none_and_has_no_ratio(self):
        row = measure.row("overhead", of(measure.cost(-0.1)), of(5), "%", more_is_better=False)
        self.assertEqual((row["ours"], row["ratio"]), (0, None))

    def test_more_columns_are_rounded_too(self):
        self.assertEqual(measure.row("gpt", of(1), of(1), "tokens/s", ours_mfu=0.3799999)["ours_mfu"], 0.38)


class TurnsTest(unittest.TestCase):
    def setUp(self):
        self.told = []

    def by_turns(self, rounds=3, **contenders):
        return measure.by_turns(contenders, rounds, self.told.append)

    def test_each_round_asks_all_in_turn_and_medians_count(self):
        asked, values = [], {"ours": iter((3, 1, 2)), "peer": iter((9, 8, 7))}

        def measuring(name):
            def measured():
                asked.append(name)
                return next(values[name]), {"batch": 8}
            return measured

        figures = self.by_turns(**{name: measuring(name) for name in values})
        self.assertEqual(figures, {"ours": of(2, batch=8), "peer": of(8, batch=8)})
        self.assertEqual(asked, ["ours", "peer"] * 3)

    def test_who_cannot_be_measured_is_asked_once_and_told(self):
        asked = []

        def absent():
            asked.append(1)
            raise measure.Missing("no PyTorch")

        self.assertEqual(self.by_turns(peer=absent), {"peer": of(None, why="no PyTorch")})
        self.assertEqual(len(asked), 1)
        self.assertIn("no PyTorch", self.told[0])

    def test_whatever_ends_one_measurement_does_not_end_the_others(self):
        def raising(error):
            def measured():
                raise error
            return measured

        figures = self.by_turns(late=raising(checks.Failed("not done within 600 s")),
                                absent=raising(checks.Skipped("no such program")),
                                empty=lambda: (statistics.median([]), {}),
                                wrong=lambda: None["images_per_second"],
                                fine=lambda: (1, {}))
        self.assertEqual(figures["fine"], of(1))
        for name, why in (("late", "600 s"), ("absent", "no such program"), ("empty", "StatisticsError"),
                          ("wrong", "TypeError")):
            self.assertIsNone(figures[name].value)
            self.assertIn(why, figures[name].why)

    def test_rounds_before_a_failure_count_and_the_row_says_that_there_were_no_more(self):
        def measuring(values=iter((3, 5))):
            for value in values:
                return value, {}
            raise measure.Missing("out of memory")

        self.assertEqual(self.by_turns(rounds=5, ours=measuring), {"ours": of(4, why="out of memory")})

    def test_the_best_is_the_highest_and_says_why_there_is_none(self):
        self.assertEqual(measure.best({"a": of(1), "b": of(2, batch=8), "c": of(None, why="x")}), of(2, batch=8))
        self.assertEqual(measure.best({"a": of(None, why="x"), "b": of(None, why="y")}).why, "a: x; b: y")


if __name__ == "__main__":
    unittest.main()
