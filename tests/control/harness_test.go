//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/mini"
)

const (
	program = "../../contrib/minicluster/minicluster"
	proxyd  = "../../bin/proxyd"
	// patience allows for a machine with much other load.
	patience = 5 * time.Minute
)

var (
	suite = flag.String("suite", "forky", "Debian release of the cluster, and so the Slurm: forky, trixie or bookworm")
	name  = flag.String("name", "control-test", "name of the cluster")
	more  = flag.Int("ballast", 0, "so many MiB make the checkpoints of the scenario \"premium preempts basic\" as long as real ones")
	seed  = flag.Uint64("seed", 1, "of the random moments")
	keep  = flag.Bool("keep", false, "use a cluster of that name that is up, and leave it")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "tests/control needs root")
		os.Exit(1)
	}
	if _, err := os.Stat(program); err != nil {
		fmt.Fprintln(os.Stderr, "build minicluster first: make build")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// site is the cluster, and a function calm that returns the first n bytes that the undisturbed run prints.
type site struct {
	*testing.T
	cluster mini.Cluster
	calm    func(n int) []byte
}

// withTest returns the site for a subtest t.
func (s *site) withTest(t *testing.T) *site { return &site{t, s.cluster, s.calm} }

// raiseSite brings a cluster up, and starts the calm run, of so many ranks and with more options.
func raiseSite(t *testing.T, name string, nodes, gpus, ranks int, options ...string) *site {
	t.Helper()
	s := &site{T: t, cluster: mini.Cluster{Program: program, Name: name}}
	t.Log("compiling the programs of jobs, and starting the run that stays undisturbed")
	bin := t.TempDir()
	s.runCommand("make", "-s", "-C", "../workloads", "O="+bin)
	calm := exec.CommandContext(t.Context(), proxyd, "run", "--soft", strconv.Itoa(ranks), "--", filepath.Join(bin, "mlp"), "--ranks", strconv.Itoa(ranks), "--steps", "0")
	calm.Args = append(calm.Args, options...)
	said := filepath.Join(bin, "said") // by a run that is killed at the end, for one
	errs, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	calm.Stderr = errs
	prints, err := calm.StdoutPipe()
	if err == nil {
		err = calm.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		prints.Close()
		_ = calm.Wait() // the calm run was killed, or could not print
	})
	if !*keep {
		t.Logf("raising the cluster %s: %d nodes with %d GPUs each, and a controller; the daemons are built first, if they changed", name, nodes, gpus)
		_, _ = s.cluster.Run(t.Context(), "down")
		if _, err := s.cluster.Run(t.Context(), "up", "--nodes", strconv.Itoa(nodes), "--gpus", strconv.Itoa(gpus), "--controller", "--suite", *suite); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				log, _ := exec.Command("tail", "-n", "60", s.cluster.Log("ctl", "preemptd")).Output()
				t.Logf("preemptd:\n%s", log)
			}
			if _, err := s.cluster.Run(context.Background(), "down"); err != nil {
				t.Error(err)
			}
		})
	}
	s.runCommand("mkdir", "-p", s.cluster.Shared("bin"))
	s.runCommand("cp", filepath.Join(bin, "mlp"), s.cluster.Shared("bin"))
	s.runCommand("cp", "testdata/train.sh", s.cluster.Shared("home/alice"))
	var printed []byte
	s.calm = func(n int) []byte { // the calm run goes no further than a pipe's length ahead of the longest job
		if missing := n - len(printed); missing > 0 {
			more := make([]byte, missing)
			if _, err := io.ReadFull(prints, more); err != nil {
				why, _ := os.ReadFile(said)
				t.Fatalf("the run that nothing disturbs: %v: %s", err, why)
			}
			printed = append(printed, more...)
		}
		return printed[:n]
	}
	return s
}

func (s *site) runCommand(argv ...string) {
	s.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		s.Fatalf("%v: %v\n%s", argv, err, out)
	}
}

// runOn runs a shell script on a host.
func (s *site) runOn(host, user, script string) string {
	s.Helper()
	out, err := s.cluster.Exec(s.Context(), host, user, "bash", "-euc", "cd; "+script)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// runMinicluster runs a verb of minicluster on the test's cluster.
func (s *site) runMinicluster(verb string, args ...string) {
	s.Helper()
	if _, err := s.cluster.Run(s.Context(), verb, args...); err != nil {
		s.Fatal(err)
	}
}

// configurePolicies has preemptd decide by these policies, with more lines of its configuration.
func (s *site) configurePolicies(policies string, more ...string) {
	s.Helper()
	lines := append([]string{`operators: ["operator"]`, "interval: 1s", "policies: [" + policies + "]", "rules: {min_run: 2s, cool_down: 5s, window: 10m}"}, more...)
	said := strings.Count(s.preemptdLog(), "configuration read again")
	s.writeFile("/etc/singularity-slurm/preemptd.yaml", strings.Join(lines, "\n"))
	s.runOn("ctl", "root", "preemptd config check; kill -HUP $(pidof preemptd)")
	s.waitFor("the configuration is read", func() (bool, string) {
		return strings.Count(s.preemptdLog(), "configuration read again") > said, ""
	})
}

// writeSettings writes the settings of a policy; an empty text means the default.
func (s *site) writeSettings(policy, text string) {
	s.Helper()
	file := "/etc/singularity-slurm/policies/" + policy + ".yaml"
	if text == "" {
		s.runOn("ctl", "root", "rm -f "+file)
		return
	}
	s.writeFile(file, text)
}

// writeFile writes a file of ctl, at once.
func (s *site) writeFile(file, text string) {
	s.Helper()
	s.runOn("ctl", "root", fmt.Sprintf("mkdir -p %s; cat >%s.new <<'END'\n%s\nEND\nmv %s.new %s", filepath.Dir(file), file, text, file, file))
}

// preemptdLog returns preemptd's log.
func (s *site) preemptdLog() string {
	s.Helper()
	text, err := os.ReadFile(s.cluster.Log("ctl", "preemptd"))
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// waitFor waits until ok says yes, and fails with the last answer of ok.
func (s *site) waitFor(what string, ok func() (bool, string)) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for {
		done, said := ok()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			s.Fatalf("%s: not within %s: %s", what, patience, said)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
