"""Tests which parts of a line are mutated, and which mutants keep their id when a file is
edited."""

import pathlib
import runpy
import tempfile
import types
import unittest

import draw
from mutations import masked, mutations


def after(line, operator):
    """The operator's mutants of a line in a function, stripped."""
    found = mutations("x.cc", f"void F() {{\n  {line}\n}}")
    return [each.after.strip() for each in found if each.operator == operator]


class OperatorsTest(unittest.TestCase):
    def test_statements_are_dropped(self):
        for operator, line in (
                ("drop-call", "waiters_.erase(key);"), ("drop-call", "(void)stream->Cancel(id_);"),
                ("drop-call", "Sync();"), ("drop-update", "bytes_running_ -= bytes;"), ("drop-update", "--open_;"),
                ("drop-update", "job.suspicion = {};"), ("drop-guard", "if (!ok) return Later();"),
                ("drop-guard", "if (done(x)) continue;"), ("drop-jump", "return;"), ("drop-jump", "break;")):
            self.assertEqual(after(line, operator), [";"], line)

    def test_declarations_results_and_halves_of_statements_are_not(self):
        for line in ("const FileDescriptor fd(Open(path));", "int bytes = 0;", "return Find(key);", "Call(a,",
                     "DP_CHECK(held());", "Log(Severity::kInfo, \"done\", {});", "auto* job = Find(id);",
                     "results.reserve(size);", "pthread_setname_np(pthread_self(), \"lease\");"):
            for operator in ("drop-call", "drop-update"):
                self.assertEqual(after(line, operator), [], line)

    def test_an_error_is_ignored(self):
        self.assertEqual(after("DP_RETURN_IF_ERROR(Write(fd, \"a(b\"));", "ignore-error"), ["(void)(Write(fd, \"a(b\"));"])

    def test_conditions_are_negated_without_their_initialisers(self):
        self.assertEqual(after("if (a && f(b)) {", "negate"), ["if (!(a && f(b))) {"])
        self.assertEqual(after("if (auto* job = Find(id); job != nullptr) {", "negate"),
                         ["if (auto* job = Find(id);!(job != nullptr)) {"])
        self.assertEqual(after("while (Step())", "negate"), ["while (!(Step()))"])
        self.assertEqual(after("if (a &&", "negate"), [])  # the condition ends on another line

    def test_operators_and_constants_are_exchanged(self):
        self.assertEqual(after("x = a < b && c >= d;", "compare"), ["x = a <= b && c >= d;", "x = a < b && c > d;"])
        self.assertEqual(after("x = a || b;", "logic"), ["x = a && b;"])
        self.assertEqual(after("Insert(at + 1, n - 1);", "off-by-one"), ["Insert(at + 0, n - 1);", "Insert(at + 1, n - 0);"])
        self.assertEqual(after("x = std::min(a, b) - c;", "arithmetic"), ["x = std::min(a, b) + c;", "x = std::max(a, b) - c;"])
        self.assertEqual(after("told = true;", "boolean"), ["told = false;"])
        self.assertEqual(after("const bool first = std::exchange(first_, false);", "drop-reset"),
                         ["const bool first = (first_);"])

    def test_templates_references_and_text_are_left_alone(self):
        self.assertEqual(mutations("x.cc", "std::vector<int> a;\nauto&& b = c;\n#if A < B\ntemplate <typename T = true>"), [])
        self.assertEqual(after('Say("a < b && true", x);', "compare") + after('Say("a < b && true", x);', "boolean"), [])
        self.assertEqual(after("Call(x);  // is true", "boolean"), [])
        self.assertEqual(after("truest = untrue;", "boolean"), [])

    def test_masking_keeps_columns_and_lines(self):
        text = "a(\"x\\\"y\", 'c', 1'000); // d\n/* e\nf */ g(R\"(\n\")\");"
        self.assertEqual([len(line) for line in masked(text).split("\n")], [len(line) for line in text.split("\n")])
        self.assertNotRegex(masked(text), "[xydef]")
        self.assertIn("g(", masked(text))


class IdentityTest(unittest.TestCase):
    TEXT = "void F() {\n  Sync();\n  Sync();\n}\nvoid G() {\n  Sync();\n}"

    def ids(self, text):
        return [each.id for each in mutations("x.cc", text)]

    def test_equal_lines_are_told_apart(self):
        self.assertEqual(len(set(self.ids(self.TEXT))), 3)

    def test_edits_elsewhere_and_indentation_change_no_identity(self):
        edited = "int more;\n\n" + self.TEXT.replace("void G", "int between;\nvoid G").replace("  Sync", "    Sync")
        self.assertEqual(self.ids(edited), self.ids(self.TEXT))

    def test_a_file_that_moves_keeps_them(self):
        self.assertEqual([each.id for each in mutations("folder/x.cc", self.TEXT)], self.ids(self.TEXT))

    def test_a_line_that_was_edited_has_another(self):
        self.assertNotEqual(self.ids(self.TEXT.replace("Sync", "Flush")), self.ids(self.TEXT))

    def test_a_mutation_changes_its_line_alone(self):
        second = mutations("x.cc", self.TEXT)[1]
        self.assertEqual(second.apply(self.TEXT), "void F() {\n  Sync();\n  ;\n}\nvoid G() {\n  Sync();\n}")
        self.assertEqual(second.diff(), "x.cc:3\n-  Sync();\n+  ;")
        with self.assertRaises(AssertionError):
            second.apply("another\ntext\naltogether")


class DrawTest(unittest.TestCase):
    def setUp(self):
        self.top = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("job.cc", "job_test.cc", "worker.cc", "testing/fake.cc"):
            path = self.top / "server/core" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("void F() {\n" + "".join(f"  Call{i}(a < b);\n" for i in range(20)) + "  --count;\n}\n")

    def test_tests_are_no_sources_nor_is_what_serves_them(self):
        self.assertEqual(draw.sources(self.top, "core"), ["server/core/job.cc", "server/core/worker.cc"])
        self.assertEqual(draw.sources(self.top, "core", lambda path: "job" in path), ["server/core/job.cc"])

    def test_a_seed_draws_the_same_again_and_another_one_other_mutants(self):
        first = [each.id for each in draw.draw(self.top, "core", 1)]
        self.assertEqual([each.id for each in draw.draw(self.top, "core", 1)], first)
        self.assertNotEqual([each.id for each in draw.draw(self.top, "core", 2)], first)

    def test_an_edit_leaves_the_rest_of_the_set_as_it_was(self):
        before = [each.id for each in draw.draw(self.top, "core", 1)]
        path = self.top / "server/core/job.cc"
        path.write_text(path.read_text().replace("Call7(a < b)", "Call7(a > b)"))
        self.assertLessEqual(len(set(before[:20]) - {each.id for each in draw.draw(self.top, "core", 1)[:20]}), 2)

    def test_a_rare_operator_has_its_turn_and_a_line_one_mutant(self):
        drawn = draw.draw(self.top, "core", 1)
        self.assertEqual({each.operator for each in drawn[:3]}, {"drop-call", "compare", "drop-update"})
        self.assertEqual(len({(each.path, each.line) for each in drawn}), len(drawn))

    def test_a_mutant_that_is_not_there_is_no_success(self):
        run = types.SimpleNamespace(**runpy.run_path(str(pathlib.Path(draw.__file__).parent / "run"), run_name="run"))
        graph = types.SimpleNamespace(is_production=lambda path: True)
        known = draw.all_of(self.top, "core")[0].id
        run.check_only(run.parse(["--only", known]), self.top, graph)
        for words in (["--only", known, "--only", "job.cc:compare:1234"], ["--only", known, "--area", "server"]):
            with self.assertRaisesRegex(SystemExit, "mutate: no mutant .*; its line has changed"):
                run.check_only(run.parse(words), self.top, graph)

    def test_the_set_has_a_hundred_mutants_at_least(self):
        self.assertGreaterEqual(sum(count for _, count in draw.AREAS.values()), 100)

    def test_an_equivalent_mutant_has_a_reason(self):
        path = self.top / "equivalent.txt"
        path.write_text("# words\n\nx.cc:compare:1234 both sides are never equal\n")
        self.assertEqual(draw.read_equivalent(path), {"x.cc:compare:1234": "both sides are never equal"})
        path.write_text("x.cc:compare:1234\n")
        with self.assertRaisesRegex(ValueError, "equivalent.txt:1: x.cc:compare:1234 has no reason"):
            draw.read_equivalent(path)

    def test_entries_of_lines_that_are_gone_are_found(self):
        known = draw.all_of(self.top, "core")[0].id
        self.assertEqual(draw.stale(self.top, {known: "why", "server/core/x.cc:compare:1234": "why"}),
                         ["server/core/x.cc:compare:1234"])


if __name__ == "__main__":
    unittest.main()
