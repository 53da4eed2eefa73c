"""Tests the shape of step_cost's table, with a measured column and without.

    step_cost_test.py BUILD_DIR
"""

import pathlib
import subprocess
import sys
import unittest

TESTS = pathlib.Path(sys.argv.pop(1)) / "tests"
ON_HOST = TESTS / "step_cost_on_host"
COLUMNS = ["operation", "count", "launches", "GB", "GFLOP", "fused ms", "apart ms"]
# Kernels on the host are slow.
SMALL = ("--preset", "cnn", "--batch", "2", "--precision", "float32", "--rounds", "3")
# The clock of the device on the host gives every operation so much.
MS_OF_AN_OPERATION = 0.5


class StepCostTest(unittest.TestCase):
    def table(self, program, *options):
        """The rows of the table as dicts by column; the last is the whole step."""
        done = subprocess.run([program, *SMALL, *options], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.told = done.stderr
        head, *rows, arena = done.stdout.splitlines()
        self.assertRegex(arena, r"^arena: \d+\.\d\d GB$")
        columns = [*COLUMNS, *(["measured ms"] if "measured ms" in head else [])]
        self.assertEqual(head.split(), " ".join(columns).split())
        cells = [row.rsplit(maxsplit=len(columns) - 1) for row in rows]
        self.assertEqual({len(row) for row in cells}, {len(columns)})
        return [dict(zip(columns, row)) for row in cells]

    def expect_sums(self, rows, *columns):
        *operations, step = rows
        self.assertEqual(step["operation"], "step")
        for column in columns:
            told = sum(float(row[column]) for row in operations if row[column] != "-")
            self.assertAlmostEqual(float(step[column]), told, delta=0.001 * len(rows), msg=column)

    def test_what_is_expected_has_a_row_for_each_kind_of_operation(self):
        rows = self.table(TESTS / "step_cost", "--rounds", "0")
        self.assertEqual([rows[0]["operation"], *(row["operation"] for row in rows[-2:])],
                         ["gather", "optimizer", "step"])
        self.assertNotIn("measured ms", rows[0])
        self.expect_sums(rows, *COLUMNS[1:])

    @unittest.skipUnless(ON_HOST.exists(), "step_cost_on_host has not been built: no CUDA headers")
    def test_each_operation_is_measured_beside_what_is_expected(self):
        rows = self.table(ON_HOST)
        self.expect_sums(rows, *COLUMNS[1:], "measured ms")
        for row in rows[1:-1]:
            self.assertEqual(float(row["measured ms"]), int(row["count"]) * MS_OF_AN_OPERATION, row)
        self.assertEqual(rows[0]["measured ms"], "-")  # the gather
        self.assertEqual(self.told, "")

    def test_without_a_card_the_reason_is_told_and_the_table_printed(self):
        rows = self.table(TESTS / "step_cost")
        if "measured ms" in rows[0]:
            self.skipTest("this host has a GPU")
        self.assertIn("step_cost: nothing is measured: ", self.told)
        self.expect_sums(rows, *COLUMNS[1:])


if __name__ == "__main__":
    unittest.main()
