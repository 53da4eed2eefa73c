"""The completions that dpctl writes, called as the shells call them."""

import os
import pathlib
import shutil
import subprocess
import unittest

DPCTL = pathlib.Path(os.environ["DP_BIN"]) / "dpctl"


def script(shell):
    return subprocess.run([DPCTL, "completion", shell], check=True, capture_output=True,
                          text=True).stdout


def verbs():
    """The verbs that the help lists."""
    text = subprocess.run([DPCTL, "--help"], check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in text.split("Subcommands:")[1].splitlines() if line.strip()]


class BashTest(unittest.TestCase):
    def complete(self, *words):
        """The words that bash offers after these words."""
        ask = 'COMP_WORDS=(dpctl "$@"); COMP_CWORD=$#; _dpctl; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", f"{script('bash')}\n{ask}", "bash", *words], check=True,
                              capture_output=True, text=True)
        return done.stdout.split()

    def test_every_verb_is_offered(self):
        self.assertGreater(len(verbs()), 5)
        self.assertLessEqual(set(verbs()), set(self.complete("")))

    def test_verbs_are_completed_below_verbs_too(self):
        self.assertEqual(self.complete("store", "wat"), ["watch"])

    def test_flags_are_those_of_the_verb_and_of_all(self):
        flags = self.complete("--no-headers", "logs", "7", "--")
        self.assertLessEqual({"--rank", "--tail", "--coordinator"}, set(flags))
        self.assertNotIn("--set", flags)

    def test_where_no_word_fits_bash_is_left_to_offer_files(self):
        self.assertEqual(self.complete("submit", "examples/fash"), [])


@unittest.skipUnless(shutil.which("zsh"), "needs zsh")
class ZshTest(unittest.TestCase):
    def test_every_verb_is_offered(self):
        ask = "_describe() { print -l ${(P)2}; }; words=(dpctl ''); CURRENT=2"
        done = subprocess.run(["zsh", "-fc", f"{ask}\n{script('zsh')}"], check=True,
                              capture_output=True, text=True)
        offered = {line.split(":")[0] for line in done.stdout.splitlines()}
        self.assertLessEqual(set(verbs()), offered)


if __name__ == "__main__":
    unittest.main()
