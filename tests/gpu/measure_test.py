"""The benchmarks' arithmetic."""

import unittest

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


class RowTest(unittest.TestCase):
    def test_a_rate_twice_as_high_is_twice_as_good(self):
        self.assertEqual(measure.row("cnn", 200, 100, "images/s"),
                         {"name": "cnn", "ours": 200, "peer": 100, "ratio": 2, "unit": "images/s"})

    def test_a_time_half_as_long_is_twice_as_good(self):
        self.assertEqual(measure.row("first", 1, 2, "s", more_is_better=False)["ratio"], 2)

    def test_where_one_is_missing_there_is_no_ratio(self):
        self.assertIsNone(measure.row("cnn", 200, None, "images/s")["ratio"])
        self.assertIsNone(measure.row("cnn", None, 100, "images/s")["ratio"])

    def test_a_cost_below_zero_has_no_ratio(self):
        self.assertIsNone(measure.row("overhead", -0.1, 5, "%", more_is_better=False)["ratio"])

    def test_more_columns_are_rounded_too(self):
        self.assertEqual(measure.row("gpt", 1, 1, "tokens/s", ours_mfu=0.3799999, peer_mfu=None)["ours_mfu"], 0.38)


class TurnsTest(unittest.TestCase):
    def test_each_round_asks_all_in_turn_and_medians_count(self):
        asked, figures = [], {"ours": iter((3, 1, 2)), "peer": iter((9, 8, 7))}

        def measuring(name):
            def measured():
                asked.append(name)
                return next(figures[name])
            return measured

        medians = measure.by_turns({name: measuring(name) for name in figures}, rounds=3)
        self.assertEqual(medians, {"ours": 2, "peer": 8})
        self.assertEqual(asked, ["ours", "peer"] * 3)

    def test_who_cannot_be_measured_is_asked_once_and_told(self):
        asked, told = [], []

        def absent():
            asked.append(1)
            raise measure.Missing("no PyTorch")

        self.assertEqual(measure.by_turns({"peer": absent}, 3, told.append), {"peer": None})
        self.assertEqual(len(asked), 1)
        self.assertIn("no PyTorch", told[0])


if __name__ == "__main__":
    unittest.main()
