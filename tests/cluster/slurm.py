"""A Slurm cluster of one node on the loopback: two CPUs, a fake GPU, no accounting.

Debian's packages (`PACKAGES`) do the work. The configuration has to lie in /etc/slurm, as the
executor's job steps drop SLURM_CONF; a file there that is not ours is never touched.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
CONFIG = Path("/etc/slurm")
FILES = (CONFIG / "slurm.conf", CONFIG / "gres.conf")
OURS = "# minbert's test cluster: written anew at each start, removed at its end.\n"
NODE = "localhost"
DAEMONS = ("slurmctld", "slurmd", "munged")

SLURM_CONF = """\
ClusterName=minbert
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
SlurmdUser=root
# Nothing listens but on the loopback.
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
# No control groups: a container seldom lets one have them.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# A step that takes more memory than it asked for is killed.
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
GresTypes=gpu
ReturnToService=2
KillWait=5
MinJobAge=3600
SchedulerParameters=sched_interval=1,bf_interval=5,batch_sched_delay=0,sched_min_interval=200000
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
NodeName={node} NodeAddr=127.0.0.1 CPUs=2 RealMemory={memory} Gres=gpu:1
PartitionName=main Nodes={node} Default=YES MaxTime=INFINITE State=UP
"""
GRES_CONF = f"NodeName={NODE} Name=gpu Count=1 File=/dev/null\n"


class NoSlurm(Exception):
    """Slurm cannot be had on this machine; says why."""


def install() -> None:
    """Install what is missing of Slurm with apt-get; raise `NoSlurm` where that cannot be done."""
    if all(_program(name) for name in DAEMONS):
        return
    if os.geteuid() != 0:
        raise NoSlurm("Slurm is not installed, and only root can install it")
    if shutil.which("apt-get") is None:
        raise NoSlurm("Slurm is not installed, and there is no apt-get to install it with")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    words = ("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *PACKAGES)
    for command in (("apt-get", "update", "--quiet"), words):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoSlurm(f"`{' '.join(command)}` failed: {done.stderr.strip()[-300:]}")


def why_not() -> str | None:
    """Return why no cluster can be started here, or None; installs nothing."""
    if missing := [name for name in DAEMONS if not _program(name)]:
        return f"Slurm is not installed ({', '.join(missing)} missing); `make test-cluster` does it"
    if os.geteuid() != 0:
        return "Slurm's daemons are started by root here, and the tests do not run as root"
    for path in FILES:
        if path.exists() and not path.read_text(encoding="utf-8").startswith(OURS):
            return f"{path} is another cluster's, which is left alone"
    return None


class Slurm:
    """The cluster; a context manager that starts it, and stops and removes it in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Slurm:
        if (why := why_not()) is not None:
            raise NoSlurm(why)
        CONFIG.mkdir(exist_ok=True)
        try:
            self._configure()
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End all jobs and daemons, and remove the configuration."""
        if len(self._daemons) > 1 and self._daemons[1].poll() is None:
            self.command("scancel", "--user=root", ends=None)
            with suppress(NoSlurm):
                self._wait_until(lambda: not self.jobs(), "jobs to end")
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(timeout=15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons = []
        for path in FILES:
            path.unlink(missing_ok=True)

    def command(self, *words: str, ends: int | None = 0) -> str:
        """Run a command of Slurm; return what it printed."""
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert ends is None or done.returncode == ends, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def jobs(self) -> dict[str, tuple[str, str]]:
        """Return {number: (state, comment)} of the jobs that have not ended."""
        lines = self.command("squeue", "--noheader", "--format=%i|%T|%k").splitlines()
        return {n: (state, comment) for n, state, comment in (x.split("|", 2) for x in lines)}

    def shown(self) -> dict[str, dict[str, str]]:
        """Return {number: what `scontrol show job` says} of all jobs since the start."""
        lines = self.command("scontrol", "show", "job", "--oneliner").splitlines()
        found = [dict(word.split("=", 1) for word in x.split() if "=" in word) for x in lines]
        return {job["JobId"]: job for job in found if "JobId" in job}

    def _configure(self) -> None:
        for name in ("state", "spool", "munge"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
        text = SLURM_CONF.format(folder=self.folder, node=NODE, memory=min(16000, memory * 9 // 10))
        for path, content in zip(FILES, (text, GRES_CONF), strict=True):
            path.write_text(OURS + content, encoding="utf-8")

    def _start(self) -> None:
        munge = self.folder / "munge"
        key = munge / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = (f"--{name}-file={munge / name}" for name in ("key", "log", "pid", "seed"))
        # --force: the folders above may be open to others, as those of pytest are.
        self._run("munged", "--foreground", "--force", f"--socket={munge / 'socket'}", *files)
        self._wait_until((munge / "socket").exists, "munged's socket")
        self._run("slurmctld", "-D", "-c")
        self._wait_until(lambda: "UP" in self.command("scontrol", "ping", ends=None), "slurmctld")
        self._run("slurmd", "-D", "-N", NODE)
        states = ("sinfo", "-h", "-o", "%T")
        self._wait_until(lambda: "idle" in self.command(*states, ends=None), "slurmd")

    def _run(self, *words: str) -> None:
        command = [str(_program(words[0])), *words[1:]]
        with (self.folder / f"{words[0]}.log").open("ab") as out:
            self._daemons.append(
                subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
            )

    def _wait_until(self, holds: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + 30
        while not holds():
            if time.monotonic() > deadline or any(of.poll() is not None for of in self._daemons):
                logs = sorted(self.folder.glob("*.log"))
                said = "; ".join(f"{p.name}: {p.read_text(errors='replace')[-400:]}" for p in logs)
                raise NoSlurm(f"waited in vain for {what}: {said}")
            time.sleep(0.1)


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
