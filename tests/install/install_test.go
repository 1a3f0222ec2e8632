//go:build install

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/mini"
)

var (
	mcProgram = flag.String("minicluster", "../../contrib/minicluster/minicluster", "the minicluster program")
	name      = flag.String("name", "install-t", "of the cluster")
	treesIn   = flag.String("trees", "/var/cache/minicluster", "where minicluster keeps root file systems, whose Slurm the plugin is built for")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "tests/install needs root")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const (
	configuration = "/etc/singularity-slurm/proxyd.yaml"
	keyFile       = "/etc/singularity-slurm/key"
	plugstack     = "/etc/slurm/plugstack.conf"
)

// site is a cluster to install on.
type site struct {
	mini.Cluster
	page   page
	starts int // of daemons so far: each has files of its own
}

// runOn runs a shell's command on a host as root, and returns the output and the exit code.
func (s *site) runOn(t *testing.T, host, command string) (said string, code int) {
	t.Helper()
	// The code is printed: minicluster has codes of its own.
	out, err := s.Exec(t.Context(), host, "root", "sh", "-c", "{ "+command+"\n} 2>&1; echo exit $?")
	if err != nil {
		t.Fatalf("on %s: %s: %v", host, command, err)
	}
	i := strings.LastIndex(out, "exit ")
	if _, err := fmt.Sscanf(out[i:], "exit %d", &code); err != nil {
		t.Fatalf("on %s: %s: %q", host, command, out)
	}
	return strings.TrimSpace(out[:i]), code
}

// mustRun is runOn for a command that has to succeed.
func (s *site) mustRun(t *testing.T, host, command string) string {
	t.Helper()
	said, code := s.runOn(t, host, command)
	if code != 0 {
		t.Fatalf("on %s: %s: exit %d\n%s", host, command, code, said)
	}
	return said
}

// startDaemon starts a daemon as systemctl start does, and returns when the daemon listens; "" or why the daemon has ended.
func (s *site) startDaemon(t *testing.T, host, daemon, port string) (ended string) {
	t.Helper()
	s.starts++
	program := strings.Fields(daemon)[0]
	log := fmt.Sprintf("/run/%s.%d", program, s.starts)
	s.mustRun(t, host, fmt.Sprintf("ln -sf %[1]s.log /run/%[2]s.log; (setsid sh -c '%[3]s >%[1]s.log 2>&1; echo $? >%[1]s.end' </dev/null >/dev/null 2>&1 &)", log, program, daemon))
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		if _, code := s.runOn(t, host, "test -e "+log+".end"); code == 0 {
			return s.mustRun(t, host, "cat "+log+".log")
		}
		if out, _ := s.runOn(t, host, "ss -Hltn sport = :"+port+" 2>/dev/null || cat /proc/net/tcp6 /proc/net/tcp | grep -i :$(printf %04X "+port+")"); out != "" {
			return ""
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s on %s neither listens nor ends: %s", daemon, host, s.mustRun(t, host, "cat "+log+".log"))
		}
	}
}

func (s *site) stopDaemon(t *testing.T, host, program string) {
	t.Helper()
	s.mustRun(t, host, "pkill -x "+program+"; while pgrep -x "+program+" >/dev/null; do sleep 0.1; done")
}

// restartProxyd is systemctl restart proxyd.
func (s *site) restartProxyd(t *testing.T, host string) {
	t.Helper()
	s.stopDaemon(t, host, "proxyd")
	if ended := s.startDaemon(t, host, "proxyd daemon", "6830"); ended != "" {
		t.Fatalf("proxyd on %s: %s", host, ended)
	}
}

// checkCommand fails unless a command prints all of the texts and ends with the code.
func (s *site) checkCommand(t *testing.T, host, command string, code int, want ...string) {
	t.Helper()
	said, got := s.runOn(t, host, command)
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("on %s: %s: not said: %q\n%s", host, command, w, said)
		}
	}
	if got != code {
		t.Errorf("on %s: %s: exit %d, want %d\n%s", host, command, got, code, said)
	}
}

// TestInstall installs from the page's first command to a job that was requeued.
func TestInstall(t *testing.T) {
	s := raisePlainCluster(t)
	nodes := []string{"n1", "n2"}
	s.checkCommand(t, "n1", "singctl doctor", 6, "node n1: proxyd does not answer", "systemctl status proxyd")

	t.Run("5 proxyd.yaml", func(t *testing.T) {
		if ended := s.startDaemon(t, "n1", "proxyd daemon", "6830"); !strings.Contains(ended, configuration+": no such file") {
			t.Errorf("without its file proxyd says: %s", ended)
		}
		yaml := s.page.findBlock(t, "5. proxyd.yaml", "shared:")
		for _, n := range nodes {
			s.mustRun(t, n, "mkdir -p /etc/singularity-slurm; cat >"+configuration+" <<'END'\n"+yaml+"END")
		}
		s.mustRun(t, "n1", "sed -i s/shared/shraed/ "+configuration)
		if ended := s.startDaemon(t, "n1", "proxyd daemon", "6830"); !strings.Contains(ended, "shraed") || !strings.Contains(ended, "shared") {
			t.Errorf("to a misspelt key proxyd says: %s", ended)
		}
		s.mustRun(t, "n1", "sed -i s/shraed/shared/ "+configuration)
	})
	t.Run("3 the shared folder", func(t *testing.T) {
		if ended := s.startDaemon(t, "n1", "proxyd daemon", "6830"); !strings.Contains(ended, "it has no mark of a cluster") || !strings.Contains(ended, "proxyd init") {
			t.Errorf("without a mark proxyd says: %s", ended)
		}
		init := commandsOf(s.page.findBlock(t, "7. Start proxyd", "proxyd init"))[0]
		s.checkCommand(t, "n1", init, 0, "is marked as the folder of cluster "+*name)
	})
	t.Run("4 the key", func(t *testing.T) {
		if ended := s.startDaemon(t, "n1", "proxyd daemon", "6830"); !strings.Contains(ended, keyFile) || !strings.Contains(ended, "proxyd key") {
			t.Errorf("without a key proxyd says: %s", ended)
		}
		for _, c := range commandsOf(s.page.findBlock(t, "4. The key", "proxyd key")) {
			s.mustRun(t, "n1", c)
		}
		key := s.mustRun(t, "n1", "base64 -w0 "+keyFile)
		s.mustRun(t, "n2", "echo "+key+" | base64 -d >"+keyFile+"; chmod 600 "+keyFile)
	})
	t.Run("7 start proxyd", func(t *testing.T) {
		for _, c := range commandsOf(s.page.findBlock(t, "7. Start proxyd", "enable --now proxyd")) {
			switch {
			case strings.HasPrefix(c, "proxyd init"): // done; a second time the command says so
				s.mustRun(t, "n1", c)
			case c == "systemctl enable --now proxyd":
				for _, n := range nodes {
					if ended := s.startDaemon(t, n, "proxyd daemon", "6830"); ended != "" {
						t.Fatalf("proxyd on %s: %s", n, ended)
					}
				}
			case strings.HasPrefix(c, "systemctl"): // there is no systemd
			default:
				t.Errorf("the test does not know how to type %q", c)
			}
		}
		s.checkCommand(t, "n1", "singctl doctor --all", 8, "FAIL  slurm: plugin", "no line with it")
	})
	const last = "8. plugstack.conf, and ask doctor"
	line := strings.TrimSpace(s.page.findBlock(t, last, "optional"))
	t.Run("8 plugstack.conf", func(t *testing.T) {
		for _, h := range []string{"ctl", "n1", "n2"} {
			s.mustRun(t, h, "echo '"+line+"' >>"+plugstack)
		}
		for _, c := range commandsOf(s.page.findBlock(t, last, "doctor --all")) {
			if c != "systemctl restart slurmd" {
				s.checkCommand(t, "n1", c, 0, s.healthySummary(t))
				continue
			}
			for _, n := range nodes {
				if _, err := s.Run(t.Context(), "restart", n, "slurmd"); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	if t.Failed() {
		return
	}
	t.Run("a job is requeued", s.requeueJob)
	t.Run("mistakes", func(t *testing.T) { s.makeMistakes(t, line) })
	t.Run("9 the controller", s.installController)
}

// requeueJob runs the job of docs/use.md's first lines.
func (s *site) requeueJob(t *testing.T) {
	script := "#!/bin/bash\nfor i in $(seq 40); do echo $i; sleep 0.25; done\n"
	s.mustRun(t, "ctl", "printf '"+strings.ReplaceAll(strings.ReplaceAll(script, "%", "%%"), "\n", `\n`)+"' >/shared/count.sh")
	out, err := s.Exec(t.Context(), "ctl", "alice", "sh", "-c", "cd; sbatch --parsable --singularity --output=count.log /shared/count.sh")
	if err != nil {
		t.Fatal(err)
	}
	job := strings.TrimSpace(out)
	log := func() string {
		b, _ := os.ReadFile(s.Shared("home/alice/count.log")) //nolint:errcheck // not there yet
		return string(b)
	}
	s.waitFor(t, "the job counts", func() bool { return strings.Contains(log(), "\n6\n") })
	s.mustRun(t, "ctl", "scontrol requeue "+job)
	s.waitFor(t, "the job is captured", func() bool {
		said, _ := s.runOn(t, "ctl", "squeue -h -j "+job+" -O State,Comment:80")
		return strings.Contains(said, "PENDING") && strings.Contains(said, "checkpoint 1 at")
	})
	s.waitFor(t, "the job runs again and ends", func() bool {
		_, _ = s.runOn(t, "ctl", "scontrol update JobId="+job+" StartTime=now")
		return strings.Contains(log(), "\n40\n")
	})
	kept := regexp.MustCompile(`(?m)^\[.*\n`).ReplaceAllString(log(), "") // Slurm's line about the requeue
	var want strings.Builder
	for i := 1; i <= 40; i++ {
		fmt.Fprintln(&want, i)
	}
	if kept != want.String() {
		t.Errorf("the job's log:\n%s", kept)
	}
}

func (s *site) waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(300 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// makeMistakes makes the mistakes of a first week on n2, asks doctor after each, mends the mistake and asks again.
func (s *site) makeMistakes(t *testing.T, line string) {
	all := "singctl doctor --all"
	setLine := func(line string) func(*testing.T) {
		return func(t *testing.T) {
			s.mustRun(t, "n2", "sed -i '/spank_singularity/d' "+plugstack+"; echo '"+line+"' >>"+plugstack)
		}
	}
	shim := regexp.MustCompile(`shim=\S+`).FindString(line)
	for _, m := range []struct {
		name       string
		make, mend func(t *testing.T)
		code       int
		want       []string
	}{
		{"another key", func(t *testing.T) {
			s.mustRun(t, "n2", "mv "+keyFile+" /root/key; proxyd key "+keyFile)
			s.restartProxyd(t, "n2")
		},
			func(t *testing.T) { s.mustRun(t, "n2", "mv /root/key "+keyFile); s.restartProxyd(t, "n2") },
			8, []string{"nodes differ", "FAIL  key", "copy the cluster's key"}},
		{"no key", func(t *testing.T) { s.mustRun(t, "n2", "mv "+keyFile+" /root/key") }, func(t *testing.T) { s.mustRun(t, "n2", "mv /root/key "+keyFile) },
			8, []string{"FAIL  key", "proxyd key " + keyFile}},
		{"the key is replaced, and proxyd is not restarted", func(t *testing.T) { s.mustRun(t, "n2", "mv "+keyFile+" /root/key; proxyd key "+keyFile) },
			func(t *testing.T) { s.mustRun(t, "n2", "mv /root/key "+keyFile) },
			8, []string{"node n2: ", "FAIL  key", "the file was replaced since", "put the old key back"}},
		{"proxyd.yaml changes, and proxyd is not restarted", func(t *testing.T) { s.mustRun(t, "n2", "echo 'keep: 5' >>"+configuration) },
			func(t *testing.T) { s.mustRun(t, "n2", "sed -i /keep/d "+configuration) },
			0, []string{"node n2: ", "WARN  configuration", "an older configuration than the file has: keep", "systemctl restart proxyd"}},
		{"a mistake in proxyd.yaml, and proxyd is not restarted", func(t *testing.T) {
			s.mustRun(t, "n2", "echo 'kep: 5' >>"+configuration)
			s.checkCommand(t, "n2", "proxyd config check", 1, configuration+": kep: no such key; did you mean keep?")
		},
			func(t *testing.T) { s.mustRun(t, "n2", "sed -i /kep/d "+configuration) },
			8, []string{"node n2: ", "FAIL  configuration", "kep: no such key; did you mean keep?", "proxyd config check"}},
		{"another configuration", func(t *testing.T) { s.mustRun(t, "n2", "echo 'keep: 5' >>"+configuration); s.restartProxyd(t, "n2") },
			func(t *testing.T) { s.mustRun(t, "n2", "sed -i /keep/d "+configuration); s.restartProxyd(t, "n2") },
			0, []string{"nodes differ", "WARN  configuration", "copy proxyd.yaml"}},
		{"optinal", setLine(strings.Replace(line, "optional", "optinal", 1)), setLine(line),
			8, []string{"FAIL  slurm: plugin", "write optional in the place of optinal"}},
		{"a misspelt plugin", setLine(strings.Replace(line, "spank_singularity", "spank_singularty", 1)), func(t *testing.T) { //nolint:misspell // on purpose
			s.mustRun(t, "n2", "sed -i /spank_singularty/d "+plugstack)
			setLine(line)(t)
		},
			8, []string{"FAIL  slurm: plugin", "of " + plugstack + " seems to be meant: ", "write " + strings.Fields(line)[1] + " in the place of "}},
		{"shimm=", setLine(strings.Replace(line, "shim=", "shimm=", 1)), setLine(line), 8, []string{"FAIL  slurm: plugin", "there is no shimm="}},
		{"a shim that is not there", setLine(strings.Replace(line, shim, "shim=/usr/lib/shim.so", 1)), setLine(line), 8, []string{"FAIL  slurm: plugin", "no file /usr/lib/shim.so"}},
		{"no line", func(t *testing.T) { s.mustRun(t, "n2", "sed -i '/spank_singularity/d' "+plugstack) }, setLine(line), 8, []string{"FAIL  slurm: plugin", "no line with it"}},
		{"a plugin for another Slurm", func(t *testing.T) { s.otherPlugin(t) }, func(t *testing.T) { s.mustRun(t, "n2", "mv /root/plugin "+strings.Fields(line)[1]) },
			8, []string{"FAIL  slurm: plugin", "is built for Slurm 24.11", "headers of Slurm"}},
		{"the shared folder is not mounted", func(t *testing.T) { s.mustRun(t, "n2", "mount -t tmpfs -o mode=755 tmpfs /shared/singularity") }, func(t *testing.T) { s.mustRun(t, "n2", "umount -l /shared/singularity") },
			8, []string{"FAIL  shared folder", "it has no mark of a cluster", "mount the shared file system"}},
		{"the shared folder is not mounted, and a user owns the mount point", func(t *testing.T) {
			s.mustRun(t, "n2", "mount -t tmpfs -o mode=777,uid=1000 tmpfs /shared/singularity")
		}, func(t *testing.T) { s.mustRun(t, "n2", "umount -l /shared/singularity") },
			8, []string{"FAIL  shared folder", "the file system of /shared/singularity is not mounted", "mount the shared file system"}},
		{"another cluster's folder", func(t *testing.T) {
			s.mustRun(t, "n2", "mount -t tmpfs -o mode=755 tmpfs /shared/singularity && proxyd init --cluster other")
		}, func(t *testing.T) { s.mustRun(t, "n2", "umount -l /shared/singularity") },
			8, []string{"FAIL  shared folder", "it is another cluster's folder", `of cluster "other" now`}},
		{"another release", func(t *testing.T) { s.otherRelease(t); s.restartProxyd(t, "n2") },
			func(t *testing.T) { s.mustRun(t, "n2", "mv /root/proxyd /usr/sbin/proxyd"); s.restartProxyd(t, "n2") },
			0, []string{"nodes differ", "WARN  version"}},
		{"the shared folder is a user's", func(t *testing.T) { s.mustRun(t, "n2", "chown 1000 /shared/singularity") }, func(t *testing.T) { s.mustRun(t, "n2", "chown root /shared/singularity") },
			8, []string{"FAIL  shared folder", "owned by user 1000, mode 0755", "chown root:root /shared/singularity"}},
	} {
		t.Run(m.name, func(t *testing.T) {
			m.make(t)
			s.checkCommand(t, "n1", all, m.code, m.want...)
			m.mend(t)
			s.checkCommand(t, "n1", all, 0, s.healthySummary(t)) // at once: doctor does not cache results
		})
	}
}

// healthySummary returns doctor's summary of two healthy nodes, with a warning if this machine's disk is nearly full.
func (s *site) healthySummary(t *testing.T) string {
	t.Helper()
	var free, total uint64
	blocks := s.mustRun(t, "n1", "stat -f -c '%a %b' /shared/singularity")
	if _, err := fmt.Sscan(blocks, &free, &total); err != nil {
		t.Fatalf("stat -f of the shared folder printed %q: %v", blocks, err)
	}
	if free < total/20 {
		return "2 nodes: 0 ok, 2 with warnings, 0 failing"
	}
	return "2 nodes: 2 ok, 0 with warnings, 0 failing"
}

// otherPlugin puts a plugin of another release on n2.
func (s *site) otherPlugin(t *testing.T) {
	t.Helper()
	so := s.Shared("other.so")
	cc := exec.Command("cc", "-shared", "-fPIC", "-x", "c", "-o", so, "-")
	cc.Stdin = strings.NewReader("const unsigned plugin_version = 0x180b05;\n")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("cc failed: %v\n%s", err, out)
	}
	path := "/usr/lib/singularity-slurm/spank_singularity.so"
	s.mustRun(t, "n2", "mv "+path+" /root/plugin; cp /shared/other.so "+path)
}

// otherRelease puts a proxyd of another release on n2.
func (s *site) otherRelease(t *testing.T) {
	t.Helper()
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-X main.version=0.0.1 -X main.libexec=/usr/libexec/singularity-slurm", "-o", s.Shared("proxyd.other"), "../../proxyd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build of proxyd failed: %v\n%s", err, out)
	}
	s.mustRun(t, "n2", "mv /usr/sbin/proxyd /root/proxyd && install -m 755 /shared/proxyd.other /usr/sbin/proxyd")
}

// installController starts preemptd where slurmrestd's user may not operate, and follows the page.
func (s *site) installController(t *testing.T) {
	if ended := s.startDaemon(t, "ctl", "preemptd", "6831"); ended != "" {
		t.Fatalf("preemptd: %s", ended)
	}
	s.checkCommand(t, "ctl", "singctl doctor --controller", 8, "controller on ctl: preemptd", "FAIL  slurm: rights", "user slurmrestd", "sacctmgr add user slurmrestd", "ok    nodes               2 proxyds answer")
	s.checkCommand(t, "ctl", "singctl status", 0, "NOT READY: user slurmrestd")
	s.checkCommand(t, "ctl", "curl -sS -o /dev/stdout -w '%{http_code}' http://127.0.0.1:6832/readyz", 0, "rights: not ready", "503")
	for _, c := range commandsOf(s.page.findBlock(t, "9. The controller", "sacctmgr")) {
		s.mustRun(t, "ctl", strings.NewReplacer("NAME", "slurmrestd").Replace(c))
	}
	s.checkCommand(t, "ctl", "singctl doctor --controller", 0, "ok    slurm: rights       slurmrestd, Operator")
	s.checkCommand(t, "ctl", "mkdir -p /etc/singularity-slurm; echo 'intervall: 5s' >>/etc/singularity-slurm/preemptd.yaml; singctl doctor --controller", 8, "FAIL  configuration", "intervall: no such key; did you mean interval?", "preemptd config check")
	s.checkCommand(t, "ctl", "sed -i 's/^intervall: .*/interval: 7s/' /etc/singularity-slurm/preemptd.yaml; singctl doctor --controller", 0, "WARN  configuration", "an older configuration than the file has: interval", "systemctl reload preemptd")
	s.mustRun(t, "ctl", "rm /etc/singularity-slurm/preemptd.yaml")
	s.stopDaemon(t, "n2", "proxyd")
	s.checkCommand(t, "ctl", "singctl doctor --controller", 0, "WARN  nodes               1 of 2 proxyds do not answer: n2")
	if ended := s.startDaemon(t, "n2", "proxyd daemon", "6830"); ended != "" {
		t.Fatalf("proxyd: %s", ended)
	}
	journal := "/var/lib/singularity-slurm/preemptd.db"
	s.mustRun(t, "ctl", "rm "+journal+"*")
	s.waitFor(t, "preemptd writes its journal again", func() bool {
		_, code := s.runOn(t, "ctl", "test -s "+journal)
		return code == 0
	})
	s.checkCommand(t, "ctl", "cat /run/preemptd.log", 0, "the file was removed while preemptd worked")
	s.checkCommand(t, "ctl", "singctl status", 0, "works")
	s.stopDaemon(t, "ctl", "preemptd")
	s.mistakeController(t)
}

// mistakeController makes mistakes on preemptd's host, asks doctor after each, mends the mistake and asks again.
func (s *site) mistakeController(t *testing.T) {
	start := func(policies string) {
		t.Helper()
		s.mustRun(t, "ctl", "mkdir -p /etc/singularity-slurm; echo 'policies: ["+policies+"]' >/etc/singularity-slurm/preemptd.yaml")
		if ended := s.startDaemon(t, "ctl", "preemptd", "6831"); ended != "" {
			t.Fatalf("preemptd: %s", ended)
		}
	}
	doctorSays := func(code int, want ...string) {
		t.Helper()
		last := ""
		defer func() {
			if t.Failed() {
				t.Logf("doctor's last answer:\n%s", last)
			}
		}()
		s.waitFor(t, fmt.Sprintf("doctor says %q and exits with %d", want, code), func() bool {
			said, got := s.runOn(t, "ctl", "singctl doctor --controller")
			last = fmt.Sprintf("%s\nexit %d", said, got)
			return got == code && !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(said, w) })
		})
	}
	start("tiers, mine")
	doctorSays(8, "FAIL  policies", "mine: ", "singctl policy list", "WARN  slurm: preemption", "PreemptType=preempt/qos", "set PreemptType=preempt/none")
	s.stopDaemon(t, "ctl", "preemptd")
	s.mustRun(t, "ctl", "sed -i -e s,preempt/qos,preempt/none, -e s,^PreemptMode=.*,PreemptMode=OFF, /etc/slurm/slurm.conf")
	if _, err := s.Run(t.Context(), "restart", "ctl", "slurmctld"); err != nil {
		t.Fatal(err)
	}
	start("tiers")
	doctorSays(0, "ok    policies            tiers", "ok    slurm: preemption", "ok    slurm: database")
	s.mustRun(t, "ctl", "pkill -KILL -x slurmdbd")
	doctorSays(0, "WARN  slurm: database", "start slurmdbd")
	if _, err := s.Run(t.Context(), "heal", "ctl"); err != nil {
		t.Fatal(err)
	}
	doctorSays(0, "ok    slurm: database")
	s.stopDaemon(t, "ctl", "preemptd")
}

// raisePlainCluster builds, installs into a folder as the page says, and raises a plain cluster with that.
func raisePlainCluster(t *testing.T) *site {
	t.Helper()
	s := &site{Cluster: mini.Cluster{Program: *mcProgram, Name: *name}, page: readPage(t)}
	headers, err := filepath.Glob(filepath.Join(*treesIn, "forky-[0-9a-f]*/usr/include/slurm/spank.h"))
	if err != nil || len(headers) == 0 {
		t.Fatalf("no root file system of forky in %s: make trees (%v)", *treesIn, err)
	}
	tree := t.TempDir()
	install := commandsOf(s.page.findBlock(t, "2. Build, or make packages", "make install PREFIX"))
	for _, c := range install {
		words := strings.Fields(strings.Replace(c, "SPANK_INCLUDE=/usr/include", "SPANK_INCLUDE="+strings.TrimSuffix(headers[0], "/slurm/spank.h"), 1))
		if len(words) == 1 { // plain make: install builds missing files
			continue
		}
		cmd := exec.Command(words[0], append(words[1:], "DESTDIR="+tree, "-C", "../..")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("command %s: %v\n%s", c, err, out)
		}
	}
	_, _ = s.Run(context.Background(), "down") // removes the cluster of a test run that was killed
	t.Cleanup(func() { _, _ = s.Run(context.Background(), "down") })
	if _, err := s.Run(t.Context(), "up", "--nodes", "2", "--install", tree); err != nil {
		t.Fatal(err)
	}
	return s
}
