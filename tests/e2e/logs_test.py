"""Ranks' output is neither lost nor repeated, whatever dies. A line marks output for which there
was no room. Output can be shown by time, and equal lines of many ranks once."""

import itertools
import json
import os
import re
import subprocess
import unittest

from kit import small_disk
from kit.cluster import Cluster, eventually

MIB = 1 << 20
MARK = re.compile(r"\[log cut here: (\d+) bytes of rank (\d+)'s standard output are missing, ")


def numbers(output):
    """The numbers n of lines such as "[0 host] line n"."""
    return [int(n) for n in re.findall(r"^\[\d+[^]]*\] line (\d+)$", output, re.MULTILINE)]


def kept(spool):
    """The bytes of a spool file that were not given up."""
    with open(spool, "rb") as file:
        return os.fstat(file.fileno()).st_size - os.lseek(file.fileno(), 0, os.SEEK_DATA)


class LogsTest(unittest.TestCase):
    """Ranks are Python programs that continue at each byte from a named pipe."""

    def cluster_with(self, slots=1, worker_options=(), worker_disk=None, **options):
        """`worker_disk`: the size of a disk only for the worker's files."""
        self.cluster = self.enterContext(Cluster(lease="2s", **options))
        self.worker_options = worker_options
        self.worker_prefix = ()
        if worker_disk:
            disk = self.enterContext(small_disk.SmallDisk(self.cluster.dir / "state-worker-a", worker_disk))
            self.worker_prefix = disk.prefix
        self.slots = slots
        self.worker = self.start_worker()
        self.fifo = self.cluster.dir / "go"
        os.mkfifo(self.fifo)
        # Kept open: neither side then waits for the other to open it, or sees its end.
        self.go_on = os.open(self.fifo, os.O_RDWR)
        self.addCleanup(os.close, self.go_on)

    def start_worker(self):
        return self.cluster.worker(slots=self.slots, name="worker-a", options=self.worker_options,
                                   prefix=self.worker_prefix)

    def go(self, ranks=1):
        os.write(self.go_on, b"g" * ranks)

    def submit(self, program, ranks=1, name="writes"):
        source = "\n".join(["import os, sys", f"go = open({str(self.fifo)!r}, 'rb', buffering=0)",
                            "rank = int(os.environ['RANK'])", program])
        return self.cluster.submit({
            "apiVersion": "dp/v1", "kind": "Job", "name": name, "ranks": ranks,
            "restart": {"infra": 0},
            "command": {"argv": ["python3", "-c", source], "onIsolation": "continue"}})

    def remarks(self, job, rank=0):
        """Each command's remark about this rank's output that has not arrived. A command without
        a remark is left out."""
        told = {}
        for command in (("logs",), ("logs", "-f"), ("wait",), ("describe",)):
            found = re.findall(rf"dpctl: output of rank {rank} on \S+ is incomplete: (\d+) bytes arrived; "
                               rf"the rest is on \S+ in (\S+)\.\*, if that directory still exists; 'dpctl logs {job} --rank {rank}' ",
                               self.cluster.dpctl(*command, job).stderr)
            told.update({" ".join(command): (int(size), place) for size, place in found})
        return told

    def all_remark(self, size, place):
        return dict.fromkeys(("logs", "logs -f", "wait", "describe"), (size, str(place)))

    def logs(self, job, *flags):
        return self.cluster.dpctl("logs", job, *flags, check=0).stdout

    def spool(self, ending, generation=1, rank=0):
        return (self.cluster.dir / "state-worker-a" / "spool" / "1" / str(generation) /
                f"{rank}.{ending}")

    def start_coordinator(self, **options):
        self.cluster._coordinator_options = {"lease": "2s", **options}
        self.cluster.coordinator = self.cluster.start_coordinator(self.cluster.address)

    # Killed coordinators and daemons.

    def test_a_coordinator_that_is_killed_again_and_again_has_every_line_once(self):
        self.cluster_with()
        lines = 30_000
        blows = (1, 5_000, 10_000, 15_000)
        job = self.submit(f"for i in range({lines}):\n"
                          "  if i in (5_000, 10_000, 15_000, 20_000): go.read(1)\n"
                          "  print('line', i)")
        following = self.cluster.dir / "following"
        with open(following, "wb") as out:
            follower = subprocess.Popen([*map(str, self.cluster.dpctl_command()), "logs", "-f", job],
                                        stdout=out)
        self.addCleanup(lambda: (follower.kill(), follower.wait()))
        for seen in blows:
            self.assertTrue(eventually(lambda: len(numbers(following.read_text())) >= seen))
            self.go()  # the rank writes lines while nobody is there
            self.cluster.restart_coordinator()
        self.assertEqual(self.cluster.wait(job), 0)
        self.assertEqual(follower.wait(60), 0)
        self.assertEqual(numbers(following.read_text()), list(range(lines)))
        self.assertEqual(numbers(self.logs(job)), list(range(lines)))

    def test_what_a_killed_daemon_had_not_sent_is_sent_by_its_next_life(self):
        self.cluster_with()
        lines = 20_000
        job = self.submit(f"for i in range({lines}):\n  print('line', i)\n"
                          f"  if i in (0, {lines} // 2): go.read(1)\ngo.read(1)")
        self.cluster.follow_until(job, "line 0")
        self.go()
        self.cluster.follow_until(job, f"line {lines // 2}")
        self.cluster.coordinator.kill()
        self.go()  # nobody receives the rest
        written = sum(len(f"line {i}\n") for i in range(lines))
        self.assertTrue(eventually(lambda: self.spool("out").stat().st_size == written))
        self.worker.kill()
        self.start_coordinator()
        self.assertEqual(self.cluster.wait(job), 100)  # its worker was lost
        self.assertLess(len(numbers(self.logs(job))), lines)
        arrived = len("".join(f"line {n}\n" for n in numbers(self.logs(job))))
        self.assertEqual(self.remarks(job), self.all_remark(arrived, self.spool("out").with_suffix("")))
        self.worker = self.start_worker()
        self.assertTrue(eventually(lambda: not self.spool("out").exists()))
        self.assertEqual(numbers(self.logs(job)), list(range(lines)))
        self.assertEqual(self.remarks(job), {})

    def test_a_daemon_that_is_stopped_sends_what_is_missing_when_it_goes_on(self):
        self.cluster_with()
        job = self.submit("print('line 0', flush=True); go.read(1); print('line 1', flush=True); go.read(1)")
        self.cluster.follow_until(job, "line 0")
        self.worker.freeze()
        self.go()
        self.assertEqual(self.cluster.wait(job), 100)  # its worker was lost
        self.assertEqual(self.remarks(job), self.all_remark(len("line 0\n"), self.spool("out").with_suffix("")))
        self.assertTrue(eventually(lambda: self.spool("out").read_text() == "line 0\nline 1\n"))
        self.worker.thaw()
        self.assertTrue(eventually(lambda: not self.spool("out").exists()))
        self.assertEqual(numbers(self.logs(job)), [0, 1])
        self.assertEqual(self.remarks(job), {})

    # Ranks that empty their output files.

    def test_a_rank_that_empties_its_file_loses_lines_with_a_mark_and_is_heard_again(self):
        self.cluster_with()
        job = self.submit("os.system('echo line 1; echo late > /dev/stderr'); go.read(1)\n"
                          "os.system('echo line 2 > /dev/stdout'); go.read(1)\n"
                          "os.system('echo line 3 > /dev/stdout; echo line 4')")
        for shown in ("line 1", "line 2"):
            self.cluster.follow_until(job, shown)
            self.go()
        self.assertEqual(self.cluster.wait(job), 0)
        texts = [re.sub(r"^\[0[^]]*\] ", "", line) for line in self.logs(job, "--stdout").splitlines()]
        mark = ("[log cut here: rank 0 emptied the file of its standard output (> /dev/stdout does that, >&1 does not); "
                "what the rank wrote just before may be missing]")
        self.assertEqual(texts, ["line 1", mark, "line 2", mark, "line 3", "line 4"])
        self.assertIn("event=logs_emptied", self.worker.log())

    def test_what_a_rank_wrote_before_and_after_it_emptied_its_file_survives_its_daemon(self):
        self.cluster_with()
        job = self.submit("os.system('echo line 1'); go.read(1)\n"
                          "os.system('echo line 2 > /dev/stdout'); go.read(1)\n"
                          "os.system('echo line 3'); go.read(1)")
        for shown in ("line 1", "line 2"):
            self.cluster.follow_until(job, shown)
            if shown == "line 2":
                self.cluster.coordinator.kill()
            self.go()
        self.assertTrue(eventually(lambda: self.spool("out").read_text() == "line 2\nline 3\n"))
        self.worker.kill()
        self.start_coordinator()
        self.worker = self.start_worker()
        self.assertTrue(eventually(lambda: not self.spool("out").parent.exists()))
        self.assertEqual(numbers(self.logs(job)), [1, 2, 3])
        self.assertEqual(self.logs(job).count("[log cut here"), 1)

    # Too little room.

    @unittest.skipIf(small_disk.why_not(), small_disk.why_not())
    def test_on_a_small_disk_a_worker_keeps_less_than_its_bound_and_no_rank_fails_to_write(self):
        self.cluster_with(worker_disk="32m")
        done = self.cluster.dir / "done"
        state = self.cluster.dir / "state-worker-a"
        # Three times the disk's size. The rank writes only as fast as the daemon makes room.
        job = self.submit("print('begin', flush=True); go.read(1)\n"
                          "for _ in range(96):\n"
                          f"  while os.statvfs({str(state)!r}).f_bfree * 4096 < 2 << 20: os.sched_yield()\n"
                          "  print(*['x' * 1023] * 1024, sep='\\n', flush=True)\n"
                          f"print('end'); open({str(done)!r}, 'w').close()")
        self.cluster.follow_until(job, "begin")
        self.cluster.coordinator.kill()
        self.go()
        self.assertTrue(eventually(done.exists))
        self.start_coordinator()
        self.assertEqual(self.cluster.wait(job), 0)
        shown = self.logs(job)
        self.assertRegex(shown, r"\[log cut here: \d+ bytes .*a smaller disk has room for less\)\]\n")
        self.assertTrue(shown.endswith("] end\n"))
        self.assertIn("event=spool_disk_low", self.worker.log())

    def test_past_its_bound_a_worker_cuts_the_oldest_lines_with_a_mark_and_no_rank_waits(self):
        self.cluster_with(worker_options=("--spool-bytes-max", "1MiB"))
        line, lines = "x" * 90, 50_000
        done = self.cluster.dir / "done"
        job = self.submit(f"print('begin'); go.read(1)\nfor i in range({lines}): print('{line}', i)\n"
                          "print('quiet', file=sys.stderr)\nsys.stdout.flush()\n"
                          f"open({str(done)!r}, 'w').close(); go.read(1)")
        self.cluster.follow_until(job, "begin")
        self.cluster.coordinator.kill()
        self.go()
        self.assertTrue(eventually(done.exists))  # no write was blocked
        spool = self.spool("out")
        # All cuts are done now, so the coordinator learns of them in one piece.
        self.assertTrue(eventually(lambda: kept(spool) + len("quiet\n") <= MIB))
        self.start_coordinator()
        self.go()
        self.assertEqual(self.cluster.wait(job), 0)
        texts = [json.loads(text) for text in self.logs(job, "--stdout", "-o", "json").splitlines()]
        written = ["begin"] + [f"{line} {i}" for i in range(lines)]
        offsets = dict(zip(written, itertools.accumulate([0] + [len(text) + 1 for text in written])))
        # Lines in flight when the coordinator died may be there too, before the mark. Everything is
        # in its place.
        offset = 0
        for text in texts:
            self.assertEqual(offset, offsets.get(text["line"], offset), text)
            offset += text.get("cutBytes", len(text["line"]) + 1)
        self.assertEqual(offset, sum(len(text) + 1 for text in written))
        self.assertEqual((texts[0]["line"], texts[-1]["line"]), (written[0], written[-1]))
        marks = [text for text in texts if "cutBytes" in text]
        self.assertEqual(len(marks), 1, marks)
        self.assertEqual(MARK.match(marks[0]["line"]).groups(), (str(marks[0]["cutBytes"]), "0"))
        self.assertEqual([text["line"] for text in texts if text not in marks and text["line"] not in offsets], [])
        self.assertGreater(marks[0]["cutBytes"], offsets[written[lines // 2]])
        self.assertIn("quiet", self.logs(job, "--stderr"))
        self.assertIn("event=logs_cut", self.worker.log())

    def test_a_coordinator_without_room_says_so_and_the_worker_keeps_the_lines_until_there_is(self):
        self.cluster_with(log_disk_reserve="1000000GiB")
        job = self.submit("print('line 1')")
        self.assertEqual(self.cluster.wait(job), 0)  # although nobody stores its output
        self.assertEqual(self.logs(job), "")
        log = self.cluster.coordinator.log()
        self.assertIn("event=logs_not_stored", log)
        self.assertIn("--log-disk-reserve", log)
        self.assertEqual(log.count("event=logs_not_stored"), 1)
        self.assertEqual(self.spool("out").read_text(), "line 1\n")
        self.assertEqual(self.remarks(job), self.all_remark(0, self.spool("out").with_suffix("")))
        self.cluster.coordinator.kill()
        self.start_coordinator()
        self.assertTrue(eventually(lambda: not self.spool("out").exists()))
        self.assertEqual(numbers(self.logs(job)), [1])
        self.assertEqual(self.remarks(job), {})

    def test_past_the_limit_of_all_jobs_the_logs_of_the_one_that_ended_first_make_room(self):
        self.cluster_with(logs_bytes_max="2MiB")
        jobs = []
        for name in ("first", "second", "third"):
            jobs.append(self.submit(f"for i in range(10_000): print('x' * 99)\nprint('{name}')", name=name))
            self.assertEqual(self.cluster.wait(jobs[-1]), 0)
        first, *others = [self.logs(job) for job in jobs]
        self.assertRegex(first, r"^\[0[^]]*\] \[log cut here: 10\d+ bytes of rank 0's standard output "
                                r"are missing, .*--logs-bytes-max\)\]\n$")
        self.assertIn("third", others[1])
        self.assertIn("event=logs_removed job=1", self.cluster.coordinator.log())

    def test_past_its_own_limit_a_jobs_logs_are_cut_with_a_mark(self):
        self.cluster_with(job_logs_bytes_max="1MiB")
        job = self.submit("for i in range(20_000): print('x' * 99)")
        self.assertEqual(self.cluster.wait(job), 0)
        *lines, last = self.logs(job).splitlines()
        self.assertRegex(last, r"\[log cut here at byte 10\d+ of rank 0's standard output: ")
        self.assertGreater(len(lines), 10_000)

    # Ways to show logs.

    def test_lines_are_shown_with_their_time_and_from_a_time_on(self):
        self.cluster_with()
        job = self.submit("for i in range(3): print('line', i, flush=True); go.read(1)")
        for i in range(3):
            self.cluster.follow_until(job, f"line {i}")
            self.go()
        self.assertEqual(self.cluster.wait(job), 0)
        stamped = self.logs(job, "--timestamps").splitlines()
        self.assertEqual(len(stamped), 3)
        for i, line in enumerate(stamped):
            self.assertRegex(line, rf"^\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z \[0 .*\] line {i}$")
        times = [line.split()[0] for line in stamped]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len(set(times)), 3)
        # Each line was found before the next was written, so a line's own time separates them.
        self.assertEqual(numbers(self.logs(job, "--since", times[1])), [1, 2])
        self.assertEqual(numbers(self.logs(job, "--since", times[1], "--tail", 1)), [2])
        self.assertEqual(numbers(self.logs(job, "-f", "--since", times[2])), [2])
        self.assertEqual(numbers(self.logs(job, "--since", "1h")), [0, 1, 2])
        self.assertEqual(self.logs(job, "--since", "2100-01-01T00:00:00Z"), "")
        told = [json.loads(line) for line in self.logs(job, "-o", "json", "--since", times[1]).splitlines()]
        self.assertEqual([line["time"] for line in told], times[1:])

    def test_equal_lines_of_many_ranks_are_shown_once(self):
        self.cluster_with(slots=4)
        job = self.submit("print('hello'); print('I am', rank); print('bye')\n"
                          "if rank == 2: print('again'); print('again')", ranks=4)
        self.assertEqual(self.cluster.wait(job), 0)
        for flags in ((), ("-f",), ("--since", "1h"), ("--generation", "all"), ("--tail", 10)):
            shown = self.logs(job, "--dedup", *flags).splitlines()
            unlike = [re.sub(r" [^]]*\]", "]", line) for line in shown if not line.startswith("[0-3]")]
            self.assertEqual(sorted(unlike), sorted([f"[{rank}] I am {rank}" for rank in range(4)] +
                                                    2 * ["[2] again"]))
            self.assertEqual([line for line in shown if line.startswith("[0-3]")],
                             ["[0-3] hello", "[0-3] bye"])
        self.assertEqual(self.logs(job, "--dedup", "--rank", "1,3", "--tail", 1), "[1,3] bye\n")
        lines = [json.loads(line) for line in
                 self.logs(job, "--dedup", "--timestamps", "-o", "json").splitlines()]
        hello = next(line for line in lines if line["line"] == "hello")
        self.assertEqual((hello["ranks"], len(hello["hosts"])), ([0, 1, 2, 3], 4))
        self.assertRegex(hello["time"], r"Z$")

    def test_each_generation_or_all_of_them_can_be_shown(self):
        self.cluster_with()
        job = self.cluster.submit({
            "apiVersion": "dp/v1", "kind": "Job", "name": "twice", "restart": {"maxRestarts": 1},
            "command": {"argv": ["sh", "-c", "echo line $DP_GENERATION; exit $((2 - DP_GENERATION))"]}})
        self.assertEqual(self.cluster.wait(job), 0)
        shown = {flag: numbers(self.logs(job, *flag)) for flag in
                 ((), ("--generation", "latest"), ("--generation", "1"), ("--generation", "all"))}
        self.assertEqual(list(shown.values()), [[2], [2], [1], [1, 2]])


if __name__ == "__main__":
    unittest.main()
