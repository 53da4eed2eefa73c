#!/usr/bin/env python3
"""PyTorch's own TCPStore client against our server: every verb that this PyTorch has.

    tcpstore_verbs.py SERVER        with the python3 whose torch is to be the client
    tcpstore_verbs.py MASTER        against the server at MASTER_ADDR and MASTER_PORT, as a job's rank

SERVER prints its port and exits when its standard input ends.
"""

import datetime
import gc
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("torch is not installed for", sys.executable)
    sys.exit(77)

SERVER = sys.argv.pop(1)
MAJOR = int(torch.__version__.split(".")[0])
SECOND = datetime.timedelta(seconds=1)
PATIENCE = datetime.timedelta(seconds=60)
SOON = datetime.timedelta(milliseconds=50)


def has(verb):
    return unittest.skipUnless(hasattr(dist.TCPStore, verb),
                               f"torch {torch.__version__} has no {verb}")


def await_answer_of_network(thread):
    """Waits until the thread blocks in poll or recvfrom: system calls 7 and 45 on x86-64."""
    deadline = time.monotonic() + 20
    while pathlib.Path(f"/proc/self/task/{thread.native_id}/syscall").read_text().split()[0] not in ("7", "45"):
        assert time.monotonic() < deadline, "the thread waits for nobody"
        os.sched_yield()


def await_acceptance(host, port):
    """Waits until the server has accepted all earlier connections. The server accepts in order,
    and closes a connection that speaks another protocol."""
    with socket.create_connection((host, port), timeout=20) as last:
        last.sendall(b"\xff")
        assert last.recv(1) == b""


class TcpStoreTest(unittest.TestCase):
    def setUp(self):
        if SERVER == "MASTER":
            self.host, self.port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            self.addCleanup(self.clear)
        else:
            self.server = subprocess.Popen([SERVER, "127.0.0.1"], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, text=True)
            self.addCleanup(self.stop)
            self.host, self.port = "127.0.0.1", int(self.server.stdout.readline())
        self.store = self.connect()

    def clear(self):
        """Clears the store for the next test; each test leaves its queues empty."""
        for key in self.store.list_keys():
            self.store.delete_key(key)

    def stop(self):
        self.store = None  # its thread would spin on a lost server
        self.server.stdin.close()
        self.assertEqual(self.server.wait(), 0)
        self.server.stdout.close()

    def connect(self, timeout=PATIENCE, **more):
        return dist.TCPStore(self.host, self.port, is_master=False, timeout=timeout, **more)

    def test_set_get_and_add_share_their_keys(self):
        for i in (1, 2, 3):
            self.store.add("sum", i)
        self.store.set("-key", "value")
        self.store.set("empty", "")
        self.assertEqual(self.store.get("sum"), b"6")
        self.assertEqual(self.store.get("-key"), b"value")
        self.assertEqual(self.store.get("empty"), b"")
        self.assertEqual(self.store.add("sum", -7), -1)

    def test_a_large_value_comes_back_whole(self):
        value = bytes(range(256)) * (4 << 12)  # 4 MiB
        self.store.set("large", value)
        self.assertEqual(self.store.get("large"), value)

    def test_compare_set_answers_what_is_there_afterwards(self):
        self.assertEqual(self.store.compare_set("c", "x", "new"), b"x")
        self.assertEqual(self.store.compare_set("c", "", "first"), b"first")
        self.assertEqual(self.store.compare_set("c", "x", "second"), b"first")
        self.assertEqual(self.store.compare_set("c", "first", "second"), b"second")

    def test_keys_are_counted_and_deleted(self):
        before = self.store.num_keys()
        self.store.set("a", "1")
        self.store.set("b", "1")
        self.assertEqual(self.store.num_keys(), before + 2)
        self.assertTrue(self.store.delete_key("a"))
        self.assertFalse(self.store.delete_key("a"))
        self.assertEqual(self.store.num_keys(), before + 1)

    def test_get_waits_for_another_client(self):
        other = self.connect()
        setter = threading.Timer(0.1, lambda: other.set("late", "v"))
        setter.start()
        self.assertEqual(self.store.get("late"), b"v")
        setter.join()

    def test_a_wait_that_times_out_leaves_the_connection_usable(self):
        with self.assertRaises(Exception):
            self.store.wait(["never"], SECOND)
        self.store.set("k", "v")
        self.assertEqual(self.store.get("k"), b"v")
        self.store.set("never", "now")
        self.assertEqual(self.store.get("never"), b"now")
        self.store.wait(["k", "never"], PATIENCE)

    @unittest.skipIf(MAJOR < 2, "torch 1 says only that its socket has timed out")
    def test_a_timeout_names_the_key(self):
        self.store.set_timeout(SOON)
        with self.assertRaisesRegex(Exception, "never"):
            self.store.get("never")
        self.store.set_timeout(PATIENCE)

    def test_a_wait_through_a_prefix_store_is_ended_by_another_client(self):
        mine, others = (dist.PrefixStore("p", store) for store in (self.store, self.connect()))
        setter = threading.Timer(0.1, lambda: others.set("late", "v"))
        setter.start()
        mine.wait(["late"], PATIENCE)
        self.assertEqual(mine.get("late"), b"v")
        setter.join()

    def test_what_was_set_stays_when_all_clients_have_gone(self):
        self.store.set("k", "v")
        self.store = None
        gc.collect()
        self.store = self.connect()
        self.assertEqual(self.store.get("k"), b"v")

    def test_a_program_that_asks_for_its_store_by_url_or_environment_is_a_client(self):
        place = {"MASTER_ADDR": self.host, "MASTER_PORT": str(self.port), "RANK": "0", "WORLD_SIZE": "1",
                 "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
        with unittest.mock.patch.dict(os.environ, place):
            for url in ("env://", f"tcp://{self.host}:{self.port}?rank=0&world_size=1"):
                store, rank, size = next(dist.rendezvous(url))
                self.assertEqual((rank, size), (0, 1))
                store.set(url, "met")
                self.assertEqual(store.get(url), b"met")

    @unittest.skipIf(SERVER == "MASTER", "the job's server stays")
    def test_a_server_that_ends_fails_who_waits(self):
        failed = []

        def get():
            try:
                self.store.get("never")
            except Exception as error:
                failed.append(error)
        waiting = threading.Thread(target=get)
        waiting.start()
        # PyTorch 1.13's client ends its process if it cannot even send its request. It also ends if
        # its second connection, on which it waits for changes, is reset. The kernel resets a
        # connection that the server has not accepted yet.
        await_answer_of_network(waiting)
        await_acceptance(self.host, self.port)
        self.server.stdin.close()
        waiting.join()
        self.assertEqual(len(failed), 1)
        # Each release's own words for a connection that the server closed.
        self.assertRegex(str(failed[0]), "(?i)connection|recv|broken pipe|end of file")
        self.assertNotRegex(str(failed[0]), "(?i)timeout|timed out")

    def test_many_clients_count_together(self):
        stores = [self.connect() for _ in range(8)]
        threads = [threading.Thread(target=lambda s=s: [s.add("n", 1) for _ in range(200)])
                   for s in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.store.get("n"), b"1600")

    def test_each_client_is_counted_once(self):
        others = [self.connect(world_size=5, wait_for_workers=True) for _ in range(4)]
        self.assertEqual(others[0].num_keys(), 1)  # init/
        del others

    def test_a_prefix_store_is_a_part_of_it(self):
        outer = dist.PrefixStore("o", self.store)
        dist.PrefixStore("i", outer).set("x", "1")
        self.assertEqual(self.store.get("o/i/x"), b"1")

    @has("append")
    def test_append_adds_to_what_is_there_or_begins(self):
        self.store.set("a", "po")
        for key in ("a", "b"):
            self.store.append(key, "po" if key == "b" else "ta")
            self.store.append(key, "ta" if key == "b" else "to")
        self.assertEqual(self.store.get("a"), b"potato")
        self.assertEqual(self.store.get("b"), b"pota")

    @has("multi_get")
    def test_several_keys_in_one_call(self):
        self.store.multi_set(["m1", "m2"], ["a", "bb"])
        self.assertEqual(self.store.multi_get(["m2", "m1"]), [b"bb", b"a"])

    @has("append")
    def test_check_says_whether_all_keys_are_there(self):
        self.store.set("k", "v")
        self.assertTrue(self.store.check(["k"]))
        self.assertFalse(self.store.check(["k", "gone"]))

    @has("queue_push")
    def test_queues_are_first_in_first_out(self):
        self.assertFalse(self.store.check(["q"]))
        self.assertEqual(self.store.queue_len("q"), 0)
        self.store.queue_push("q", "one")
        self.store.queue_push("q", "two")
        self.assertTrue(self.store.check(["q"]))
        self.assertEqual(self.store.queue_len("q"), 2)
        self.store.wait(["q"])
        self.assertEqual(self.store.queue_pop("q"), b"one")
        self.assertEqual(self.store.queue_pop("q"), b"two")
        self.assertFalse(self.store.check(["q"]))
        with self.assertRaises(Exception):
            self.store.queue_pop("q", block=False)

    @has("queue_push")
    def test_two_clients_talk_through_queues(self):
        other = self.store.clone()

        def echo():
            for _ in range(50):
                other.queue_push("back", other.queue_pop("there"))
        thread = threading.Thread(target=echo)
        thread.start()
        for i in range(50):
            self.store.queue_push("there", str(i))
            self.assertEqual(self.store.queue_pop("back"), str(i).encode())
        thread.join()

    @has("queue_push")
    def test_each_element_goes_to_one_of_many_poppers(self):
        got = []
        stores = [self.connect() for _ in range(6)]
        threads = [threading.Thread(target=lambda s=s: got.append(s.queue_pop("jobs")))
                   for s in stores]
        for thread in threads:
            thread.start()
        for i in range(6):
            self.store.queue_push("jobs", str(i))
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(got), [str(i).encode() for i in range(6)])

    @has("queue_push")
    def test_a_pop_that_times_out_leaves_the_connection_usable(self):
        store = self.connect(timeout=SOON)
        with self.assertRaises(Exception):
            store.queue_pop("empty")
        store.set("k", "v")
        self.assertEqual(store.get("k"), b"v")

    @has("clone")
    def test_a_clone_sees_the_same_keys(self):
        clone = self.store.clone()
        self.store.set("k", "v")
        self.assertEqual(clone.get("k"), b"v")

    @has("list_keys")
    def test_keys_are_listed(self):
        self.store.set("a", "1")
        self.store.set("b", "1")
        self.assertLessEqual({"a", "b"}, set(self.store.list_keys()))

    @has("barrier")
    def test_a_barrier_lets_all_pass_when_the_last_has_come(self):
        stores = [self.connect() for _ in range(4)]
        passed = []
        threads = [threading.Thread(
            target=lambda s=s: (s.barrier("bar", 5, PATIENCE), passed.append(1)))
            for s in stores]
        for thread in threads:
            thread.start()
            await_answer_of_network(thread)
        self.assertEqual(passed, [])
        self.store.barrier("bar", 5, PATIENCE)
        for thread in threads:
            thread.join()
        self.assertEqual(len(passed), 4)

    @has("barrier")
    def test_a_barrier_that_times_out_leaves_the_connection_usable(self):
        with self.assertRaisesRegex(Exception, "(?i)timeout|timed out"):
            self.store.barrier("alone", 2, SOON)
        self.store.set("k", "v")
        self.assertEqual(self.store.get("k"), b"v")

    def test_a_signal_does_not_end_a_wait(self):
        import signal
        came = []
        signal.signal(signal.SIGALRM, lambda *_: came.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        other = self.connect()
        setter = threading.Timer(0.3, lambda: other.set("late", "7"))
        setter.start()
        try:
            self.store.wait(["late"], PATIENCE)
            self.assertEqual(self.store.add("late", 0), 7)  # 0 if nobody has set the key yet
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            setter.join()
        self.assertTrue(came)


if __name__ == "__main__":
    unittest.main(verbosity=2)
