//go:build guest

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

//go:embed count.py
var countProgram string

// devices are the files that Slurm takes for two GPUs: devices of the kernel that no other program here opens.
var devices = map[string][]string{"/dev/gpu0": {"c", "1", "7"}, "/dev/gpu1": {"c", "7", "0"}} // full, vcs

// slurmrestdUnit is the drop-in that docs/install.md advises for Debian's unit of slurmrestd.
const slurmrestdUnit = `[Service]
User=slurmrestd
Group=slurmrestd
RuntimeDirectory=slurmrestd
UnsetEnvironment=SLURM_JWT
ExecStart=
ExecStart=/usr/sbin/slurmrestd -a rest_auth/local unix:/run/slurmrestd/slurmrestd.sock
`

// files is the configuration of a small cluster, as Slurm's documents advise for cgroups of version 2.
var files = map[string]string{
	"/etc/slurm/slurm.conf": `
ClusterName=guest
SlurmctldHost=n1
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=n1
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
JobAcctGatherType=jobacct_gather/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
MpiDefault=none
PlugStackConfig=/etc/slurm/plugstack.conf
ReturnToService=2
SlurmdTimeout=600
MessageTimeout=60
KillWait=60
UnkillableStepTimeout=300
SchedulerParameters=sched_interval=5,bf_interval=5
NodeName=n1 CPUs=1 RealMemory=1500 Gres=gpu:2
PartitionName=main Nodes=n1 Default=YES
`,
	"/etc/slurm/slurmdbd.conf": `
AuthType=auth/munge
DbdHost=n1
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
PidFile=/run/slurmdbd/slurmdbd.pid
`,
	"/etc/slurm/cgroup.conf":             "CgroupPlugin=cgroup/v2\nConstrainCores=yes\nConstrainRAMSpace=yes\nConstrainDevices=yes\n",
	"/etc/slurm/gres.conf":               "NodeName=n1 Name=gpu File=/dev/gpu[0-1]\n",
	"/etc/slurm/plugstack.conf":          "",
	"/etc/singularity-slurm/proxyd.yaml": "shared: /shared/singularity\n",
	"/shared/alice/count.py":             countProgram,
}

// machine is the virtual machine of the tests. Its subtests follow each other: the first failure ends the test.
type machine struct{ *testing.T }

func TestLife(t *testing.T) {
	for _, step := range []struct {
		name  string
		check func(m machine)
	}{
		{"installed", machine.checkInstalled},
		{"started", machine.checkStarted},
		{"requeued", machine.checkRequeued},
		{"controlled", machine.checkController},
		{"upgraded", machine.checkUpgraded},
		{"removed", machine.checkRemoved},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.check(machine{t}) }) {
			return
		}
	}
}

func (m machine) runCommand(args ...string) (string, error) {
	m.Helper()
	cmd := exec.CommandContext(m.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "SYSTEMD_PAGER=")
	out, err := cmd.CombinedOutput()
	m.Logf("$ %s\n%s", strings.Join(args, " "), out)
	return strings.TrimSpace(string(out)), err
}

func (m machine) mustRun(args ...string) string {
	m.Helper()
	out, err := m.runCommand(args...)
	if err != nil {
		m.runCommand("journalctl", "-b", "--no-pager", "-n", "60")
		m.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out
}

func (m machine) waitFor(what string, ok func() bool) {
	m.Helper()
	for end := time.Now().Add(10 * time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			m.runCommand("journalctl", "-b", "--no-pager", "-n", "100")
			m.Fatalf("not within 10 minutes: %s", what)
		}
	}
}

func (m machine) checkInstalled() {
	packages, err := filepath.Glob("/guest/packages/*.deb")
	if err != nil || len(packages) != 3 {
		m.Fatalf("packages %q: %v", packages, err)
	}
	m.mustRun(append([]string{"dpkg", "-i"}, packages...)...)
	for _, unit := range []string{"proxyd", "preemptd", "proxyd-relay", "proxyd-gc.timer"} {
		if out, err := m.runCommand("systemctl", "is-enabled", unit); err == nil || out != "disabled" {
			m.Errorf("%s is %s", unit, out)
		}
		if out, err := m.runCommand("systemctl", "is-active", unit); err == nil {
			m.Errorf("%s is %s", unit, out)
		}
	}
}

// checkStarted carries out the steps of docs/install.md, in their order.
func (m machine) checkStarted() {
	for path, text := range files {
		m.writeFile(path, text)
	}
	m.mustRun("chown", "alice:alice", "/shared/alice")
	m.mustRun("chown", "slurm:slurm", "/var/spool/slurmctld")
	for path, device := range devices {
		m.mustRun(append([]string{"mknod", "-m", "666", path}, device...)...)
	}
	m.mustRun("sh", "-c", "head -c 1024 /dev/urandom >/etc/munge/munge.key && chown munge:munge /etc/munge/munge.key && chmod 600 /etc/munge/munge.key")
	m.mustRun("systemctl", "daemon-reload")
	m.mustRun("systemctl", "start", "address", "munge")
	m.startDatabase()
	m.mustRun("systemctl", "start", "slurmctld", "slurmd")
	m.waitFor("Slurm's node is idle", m.nodeIsIdle)

	m.mustRun("proxyd", "key", "/etc/singularity-slurm/key")
	m.writeFile("/etc/slurm/plugstack.conf", "optional /usr/lib/singularity-slurm/spank_singularity.so shim=/usr/lib/singularity-slurm/libsingshim.so retry=120\n")
	m.mustRun("systemctl", "restart", "slurmd")
	m.mustRun("proxyd", "init")
	m.mustRun("systemctl", "enable", "--now", "proxyd")
	m.mustRun("systemctl", "enable", "--now", "proxyd-gc.timer")
	m.waitFor("Slurm's node is idle", m.nodeIsIdle)
	if out := m.mustRun("singctl", "doctor"); regexp.MustCompile(`(?m)^ +(WARN|FAIL)`).MatchString(out) {
		m.Error("doctor is not content")
	}
	m.checkNoFailedUnits()
}

// startDatabase starts slurmdbd, from which preemptd learns the rights of its user.
func (m machine) startDatabase() {
	m.mustRun("chown", "slurm:slurm", "/etc/slurm/slurmdbd.conf")
	m.mustRun("chmod", "600", "/etc/slurm/slurmdbd.conf")
	m.mustRun("systemctl", "start", "mariadb")
	m.mustRun("mariadb", "-e", "CREATE DATABASE slurm_acct_db; CREATE USER slurm@localhost IDENTIFIED VIA unix_socket; GRANT ALL ON slurm_acct_db.* TO slurm@localhost")
	m.mustRun("systemctl", "start", "slurmdbd")
	m.waitFor("slurmdbd knows the cluster", func() bool {
		m.runCommand("sacctmgr", "-i", "add", "cluster", "guest")
		out, err := m.runCommand("sacctmgr", "-n", "list", "cluster", "format=cluster")
		return err == nil && out == "guest"
	})
}

func (m machine) nodeIsIdle() bool {
	out, _ := exec.CommandContext(m.Context(), "sinfo", "-h", "-o", "%t").Output()
	return strings.TrimSpace(string(out)) == "idle"
}

func (m machine) checkNoFailedUnits() {
	m.Helper()
	if out := m.mustRun("systemctl", "--failed", "--no-legend", "--plain"); out != "" {
		m.runCommand("journalctl", "-b", "--no-pager", "-n", "60")
		m.Errorf("units have failed: %s", out)
	}
}

func (m machine) writeFile(path, text string) {
	m.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.Fatal(err)
	}
}

const output = "/shared/alice/count.log"

// counted is how many lines the job has written.
func counted() int {
	raw, _ := os.ReadFile(output)
	return strings.Count(string(raw), "\n")
}

// waitForCount waits until the job has written more lines than it has now.
func (m machine) waitForCount(more int) {
	m.Helper()
	want := counted() + more
	m.waitFor(fmt.Sprintf("the job has counted to %d", want), func() bool { return counted() >= want })
}

// jobProgram returns the PID of the job's program.
func (m machine) jobProgram() string {
	m.Helper()
	return m.mustRun("pgrep", "-x", "-u", "alice", "-f", "python3 /shared/alice/count.py")
}

// checkRequeued: a job is captured and restored, and Slurm's cgroups hold it as before.
func (m machine) checkRequeued() {
	m.mustRun(asAlice("sbatch", "--singularity", "--requeue", "--gres=gpu:1", "--mem=200M", "-D", "/shared/alice",
		"-o", output, "--open-mode=append", "--wrap", "exec python3 /shared/alice/count.py")...)
	m.waitForCount(5)
	m.checkCgroup()
	m.requeue()
	m.checkCgroup()
}

func (m machine) jobState() string {
	out, _ := exec.CommandContext(m.Context(), "squeue", "-h", "-t", "all", "-j", "1", "-o", "%T").Output()
	return strings.TrimSpace(string(out))
}

// requeue has Slurm requeue the job, and waits until the job goes on.
func (m machine) requeue() {
	m.Helper()
	before := m.mustRun("squeue", "-h", "-j", "1", "-O", "RestartCnt")
	m.mustRun("scontrol", "requeue", "1")
	m.waitFor("the job is requeued", func() bool {
		now, err := exec.CommandContext(m.Context(), "squeue", "-h", "-j", "1", "-O", "RestartCnt").Output()
		return err == nil && strings.TrimSpace(string(now)) != before
	})
	m.waitUntilRestored()
}

func (m machine) waitUntilRestored() {
	m.Helper()
	m.waitFor("the job runs again", func() bool {
		if m.jobState() == "PENDING" { // Slurm would have the job wait for two minutes
			m.runCommand("scontrol", "update", "JobId=1", "StartTime=now")
		}
		return m.jobState() == "RUNNING"
	})
	m.waitForCount(5)
	m.waitFor("the job's comment says that it was restored", func() bool {
		comment, err := m.runCommand("squeue", "-h", "-j", "1", "-O", "Comment:90")
		return err == nil && strings.Contains(comment, "restored from checkpoint")
	})
}

// checkCgroup: the job's program is in the cgroup of Slurm's step, below the scope that systemd made for slurmd.
func (m machine) checkCgroup() {
	m.Helper()
	raw, err := os.ReadFile(filepath.Join("/proc", m.jobProgram(), "cgroup"))
	if err != nil {
		m.Fatal(err)
	}
	if !regexp.MustCompile(`^0::/system.slice/[^/]*slurmstepd.scope/[^/]+/step_batch/user/`).Match(raw) {
		m.Errorf("the program is in the cgroup %s", raw)
	}
	m.Logf("the program is in %s", raw)
}

// checkController: preemptd waits for slurmrestd and says so, and systemd does not wait for preemptd. When slurmrestd is
// there, and may act, the job's user parks the job and has it go on.
func (m machine) checkController() {
	m.mustRun("sh", "-c", "preemptd config >/etc/singularity-slurm/preemptd.yaml")
	m.mustRun("systemctl", "enable", "--now", "preemptd")
	m.waitForStatus("waits for slurmrestd: .*no such file or directory")
	m.writeFile("/etc/systemd/system/slurmrestd.service.d/local.conf", slurmrestdUnit)
	m.mustRun("sacctmgr", "-i", "add", "user", "slurmrestd", "account=root", "adminlevel=Operator")
	m.mustRun("systemctl", "daemon-reload")
	m.mustRun("systemctl", "start", "slurmrestd")
	m.waitForStatus("^working$")
	m.waitFor("doctor is content with the controller", func() bool {
		out, err := m.runCommand("singctl", "doctor", "--controller")
		return err == nil && strings.Contains(out, "answers at unix:/run/slurmrestd/slurmrestd.sock") && strings.Contains(out, "1 proxyds answer") &&
			!regexp.MustCompile(`(?m)^ +(WARN|FAIL)`).MatchString(out)
	})
	m.mustRun(asAlice("singctl", "preempt", "1", "--hold", "--reason", "back tomorrow")...)
	m.waitFor("the job waits for its user", func() bool { return m.jobState() == "PENDING" })
	if out := m.mustRun("squeue", "-h", "-j", "1", "-O", "Comment:90"); !strings.Contains(out, "back tomorrow") {
		m.Errorf("the comment of the parked job: %s", out)
	}
	if out, err := m.runCommand("pgrep", "-u", "alice"); err == nil {
		m.Errorf("of the parked job these run: %s", out)
	}
	m.mustRun(asAlice("singctl", "resume", "1")...)
	m.waitUntilRestored()
	m.checkCgroup()
	m.checkNoFailedUnits()
}

// asAlice returns a command that runs another command as the job's user.
func asAlice(command ...string) []string {
	return append([]string{"setpriv", "--reuid=alice", "--regid=alice", "--init-groups"}, command...)
}

// waitForStatus waits until preemptd tells systemd a status that a pattern matches.
func (m machine) waitForStatus(want string) {
	m.Helper()
	pattern, last := regexp.MustCompile(want), ""
	m.waitFor("preemptd's status is "+want, func() bool {
		if status := m.mustRunQuietly("systemctl", "show", "-P", "StatusText", "preemptd"); status != last {
			last = status
			m.Logf("preemptd: %s", status)
		}
		return pattern.MatchString(last)
	})
}

func (m machine) mustRunQuietly(args ...string) string {
	m.Helper()
	out, err := exec.CommandContext(m.Context(), args[0], args[1:]...).Output()
	if err != nil {
		m.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// checkUpgraded: the next release is installed while the job runs. systemd starts the new proxyd, and the job goes on in its
// process; then it is requeued again, and ends.
func (m machine) checkUpgraded() {
	process, daemon := m.jobProgram(), m.mustRun("systemctl", "show", "-P", "MainPID", "proxyd")
	m.mustRun("dpkg", "-i", "--force-confdef", "--force-confold", "/guest/next/next.deb")
	if now := m.mustRun("systemctl", "show", "-P", "MainPID", "proxyd"); now == daemon || now == "0" {
		m.Errorf("proxyd was process %s and is %s", daemon, now)
	}
	m.waitForCount(5)
	if now := m.jobProgram(); now != process {
		m.Errorf("the job's program was process %s and is %s", process, now)
	}
	m.mustRun("systemctl", "restart", "slurmd")
	m.waitForCount(5)
	if now := m.jobProgram(); now != process {
		m.Errorf("after a restart of slurmd the job's program was process %s and is %s", process, now)
	}
	m.requeue()
	m.checkCgroup()
	m.writeFile("/shared/alice/enough", "")
	m.waitFor("the job has ended", func() bool { state := m.jobState(); return state == "COMPLETED" || state == "FAILED" })
	if out := m.mustRun("scontrol", "show", "job", "1"); !strings.Contains(out, "JobState=COMPLETED") || !strings.Contains(out, "ExitCode=0:0") {
		m.Error("the job has not completed")
	}
	m.checkOutput()
	m.checkNoFailedUnits()
}

// checkOutput: the lines are those of an undisturbed run, and at each the program could open only its own device.
func (m machine) checkOutput() {
	raw, err := os.ReadFile(output)
	if err != nil {
		m.Fatal(err)
	}
	before, count := "", 0
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(line, "*** JOB 1 ON n1 CANCELLED AT") { // Slurm's own
			continue
		}
		count++
		want := fmt.Sprintf("%d %x yes no", count, sha256.Sum256([]byte(before)))
		if line != want {
			m.Fatalf("line %d is %q, want %q", count, line, want)
		}
		before = line
	}
	m.Logf("%d lines", count)
}

// checkRemoved carries out the steps of docs/install.md under "Removing".
func (m machine) checkRemoved() {
	m.writeFile("/etc/slurm/plugstack.conf", "")
	m.mustRun("systemctl", "restart", "slurmd")
	m.mustRun("dpkg", "-r", "singularity-slurm-node", "singularity-slurm-controller", "singularity-slurm-client")
	for _, unit := range []string{"proxyd", "preemptd", "proxyd-gc.timer"} {
		if out, err := m.runCommand("systemctl", "is-active", unit); err == nil {
			m.Errorf("%s is %s", unit, out)
		}
	}
	if out, err := m.runCommand("pgrep", "-a", "-f", "singularity-slurm|proxyd|preemptd"); err == nil {
		m.Errorf("these run: %s", out)
	}
	m.waitFor("Slurm's node is idle", m.nodeIsIdle)
	if out := m.mustRun("srun", "--immediate=600", "echo", "as before"); !strings.Contains(out, "as before") {
		m.Errorf("a job says %s", out)
	}
	m.checkNoFailedUnits()
}
