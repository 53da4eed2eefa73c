"""Certificates of a company's authority, and its revocation list while the coordinator runs."""

import pathlib
import shutil
import subprocess
import unittest

from kit.cluster import Cluster, eventually

CONFIG = """[ca]
default_ca = company
[company]
database = index.txt
default_md = sha256
default_crl_days = 1
"""
NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"


@unittest.skipUnless(shutil.which("openssl"), "needs openssl, to sign as a company would")
class RevocationListTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Company())

    def whoami(self, person, of="company"):
        return self.cluster.dpctl("--credentials", self.cluster.person(person, of=of), "whoami")

    def test_a_list_that_appears_ends_what_it_names_without_a_restart(self):
        self.assertIn("admin ann", self.whoami("ann").stdout)
        self.assertIn("admin bob", self.whoami("bob").stdout)
        self.cluster.revoke("ann")
        self.assertTrue(eventually(lambda: self.whoami("ann").returncode != 0))
        self.assertIn("does not accept the certificate of admin ann", self.whoami("ann").stderr)
        self.assertIn("admin bob", self.whoami("bob").stdout)
        self.cluster.revoke("bob")  # the list of the same name changes
        self.assertTrue(eventually(lambda: self.whoami("bob").returncode != 0))

    def test_a_list_counts_whatever_its_file_is_called(self):
        self.assertIn("admin ann", self.whoami("ann").stdout)
        self.cluster.revoke("ann", list_name="company.crl")
        self.assertTrue(eventually(lambda: self.whoami("ann").returncode != 0))
        self.assertIn("admin bob", self.whoami("bob").stdout)

    def test_a_later_list_that_names_others_takes_nothing_back(self):
        self.assertIn("admin ann", self.whoami("ann").stdout)
        self.assertIn("admin bob", self.whoami("bob").stdout)
        index = (self.cluster.dir / "index.txt").read_text()
        self.cluster.revoke("ann", list_name="first.crl")
        (self.cluster.dir / "index.txt").write_text(index)
        self.cluster.revoke("bob", list_name="second.crl")
        for person in ("bob", "ann"):
            self.assertTrue(eventually(lambda: self.whoami(person).returncode != 0), person)
        (self.cluster.dir / "lists/first.crl").unlink()
        self.assertTrue(eventually(lambda: "admin ann" in self.whoami("ann").stdout))
        self.assertNotEqual(self.whoami("bob").returncode, 0)

    def test_the_certificates_of_an_authority_between_end_with_it(self):
        self.cluster.make_authority("unit", of="company")
        self.assertIn("admin dan", self.whoami("dan", of="unit").stdout)
        self.cluster.revoke("unit")
        self.assertTrue(eventually(lambda: self.whoami("dan", of="unit").returncode != 0))
        self.assertIn("does not accept the certificate of admin dan", self.whoami("dan", of="unit").stderr)
        self.assertIn("admin ann", self.whoami("ann").stdout)
        self.cluster.restart_coordinator()
        self.assertNotEqual(self.whoami("dan", of="unit").returncode, 0)

    def test_a_certificate_among_the_lists_is_no_authority(self):
        self.cluster.add_authority_to_lists("intruder")
        self.assertTrue(eventually(lambda: "crl_dir_certificate_ignored" in self.cluster.coordinator.log()))
        eve = self.cluster.dpctl("--credentials", self.cluster.person("eve", of="intruder"), "whoami")
        self.assertNotEqual(eve.returncode, 0, eve.stdout)
        self.cluster.restart_coordinator()
        eve = self.cluster.dpctl("--credentials", self.cluster.person("eve", of="intruder"), "whoami")
        self.assertNotEqual(eve.returncode, 0, eve.stdout)
        self.assertIn("admin ann", self.whoami("ann").stdout)


class Company(Cluster):
    """A cluster that trusts the company's authority, and reads its lists."""

    def start_coordinator(self, listen, **how):
        if not (self.dir / "lists").exists():
            self.set_up()
        return super().start_coordinator(listen, **how)

    def set_up(self):
        (self.dir / "lists").mkdir()
        (self.dir / "openssl.cnf").write_text(CONFIG)
        (self.dir / "index.txt").touch()
        self.make_authority("company")
        self.set_coordinator_option("client_ca", self.dir / "company.crt")
        self.set_coordinator_option("crl_dir", self.dir / "lists")

    def openssl(self, command):
        done = subprocess.run(["openssl", *command.split()], check=True, cwd=self.dir, capture_output=True, text=True)
        return done.stdout.strip()

    def make_authority(self, name, of=None):
        usage = "-addext keyUsage=critical,keyCertSign,cRLSign"
        if of is None:
            self.openssl(f"req -x509 {NEW_KEY} -days 30 -subj /CN={name} {usage} -keyout {name}.key -out {name}.crt")
            return
        self.openssl(f"req {NEW_KEY} -subj /CN={name} {usage} -addext basicConstraints=critical,CA:TRUE "
                     f"-keyout {name}.key -out {name}.csr")
        self.sign(name, f"{name}.crt", of)

    def sign(self, name, certificate, of):
        self.openssl(f"x509 -req -in {name}.csr -CA {of}.crt -CAkey {of}.key -CAcreateserial "
                     f"-copy_extensions copy -days 1 -out {certificate}")

    def add_authority_to_lists(self, name):
        """Under the name by which OpenSSL looks for authorities."""
        self.make_authority(name)
        certificate_hash = self.openssl(f"x509 -in {name}.crt -hash -noout")
        shutil.copy(self.dir / f"{name}.crt", self.dir / "lists" / f"{certificate_hash}.0")

    def person(self, name, of="company"):
        """The directory with the credential of an administrator."""
        credential = self.dir / name
        if credential.exists():
            return credential
        credential.mkdir()
        self.openssl(f"req {NEW_KEY} -subj /CN={name} -addext subjectAltName=URI:spiffe://dp/admin/{name} "
                     f"-keyout {name}/tls.key -out {name}.csr")
        self.sign(name, f"{name}/tls.crt", of)
        if of != "company":
            with open(credential / "tls.crt", "a") as chain:
                chain.write((self.dir / f"{of}.crt").read_text())
        shutil.copy(self.dir / "coordinator" / "identity" / "ca.crt", credential / "ca.crt")
        return credential

    def revoke(self, name, list_name=None):
        """Puts a list in place that names the person or authority, and everybody who was revoked before."""
        company = "ca -config openssl.cnf -cert company.crt -keyfile company.key"
        certificate = f"{name}.crt" if (self.dir / f"{name}.crt").exists() else f"{name}/tls.crt"
        self.openssl(f"{company} -revoke {certificate}")
        self.openssl(f"{company} -gencrl -out list.pem")
        if list_name is None:
            list_name = self.openssl("crl -in list.pem -hash -noout") + ".r0"
        pathlib.Path(self.dir / "list.pem").rename(self.dir / "lists" / list_name)


if __name__ == "__main__":
    unittest.main()
