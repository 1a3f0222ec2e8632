//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/api"
	"github.com/singularity-slurm/singularity-slurm/proxyd/api/apitest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// This test's own program plays three parts: the test; with "serve NODE" a daemon with the
// real server, real munge and real probes; with anything else in that place, singctl.
const partVariable = "SINGCTL_TEST_PART"

func TestMain(m *testing.M) {
	part := os.Getenv(partVariable)
	if part == "" {
		os.Exit(m.Run())
	}
	var err error
	switch words := strings.Fields(part); words[0] {
	case "serve":
		err = serveNode(words[1])
	case "steal":
		err = stealNode(words[1], words[2])
	default:
		main()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var suite = flag.String("suite", "forky", "suite of the cluster: forky, trixie or bookworm")

const minicluster = "../../contrib/minicluster/minicluster"

// onSlurm is a conductor that knows the jobs of a real Slurm.
type onSlurm struct {
	*apitest.Conductor
	node string
}

func (c onSlurm) Owner(ctx context.Context, job string) (uint32, error) {
	out, err := slurm{}.runCommand(ctx, "scontrol", "show", "job", "--oneliner", job)
	if err != nil {
		return 0, fmt.Errorf("job %s: %w", job, rpc.ErrNoJob)
	}
	_, number, _ := strings.Cut(fieldOf(out, "UserId"), "(")
	uid, err := strconv.ParseUint(strings.TrimSuffix(number, ")"), 10, 32)
	return uint32(uid), err
}

func (c onSlurm) Show(_ context.Context, job string) (*rpc.Job, error) {
	return &rpc.Job{Id: job, State: "RUNNING", Leader: c.node}, nil
}

func serveNode(node string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := errors.Join(os.MkdirAll("/etc/singularity-slurm", 0o755), os.MkdirAll("/shared/singularity", 0o755),
		os.WriteFile(config.File, []byte("shared: /shared/singularity\noperators: [operator]\n"), 0o644)); err != nil {
		return err
	}
	cfg, err := config.Load(config.File, nil)
	if err != nil {
		return err
	}
	s, err := host.ReadSlurm(ctx, cfg.Scontrol, cfg.NodeName)
	if err != nil {
		return err
	}
	server := api.NewServer(api.Options{
		Node: node, Version: "test", SlurmUser: s.UID, Operators: cfg.Operators, Conductor: onSlurm{apitest.New(), node},
		Doctor: func(ctx context.Context, _ bool) []host.Finding { return host.Probe(ctx, cfg, host.LearntFacts{}) },
	}, munge.Programs{})
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		server.Stop()
	}()
	return server.Serve(l)
}

// stealNode asks node through the address of another: a user can do this with names.
func stealNode(node, address string) error {
	c, err := rpc.Dial(node, address, "n9", munge.Programs{})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Doctor(context.Background())
	return err
}

// cluster2 is a real cluster with a daemon on each node.
type cluster2 struct{ name string }

func (c cluster2) runOn(t *testing.T, node, user string, command ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, minicluster, append([]string{"exec", "--name", c.name, node, "--user", user, "--"}, command...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s on %s: %v\n%s", command, node, err, out.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// runSingctl runs singctl as a user.
func (c cluster2) runSingctl(t *testing.T, node, user string, args ...string) (string, int) {
	t.Helper()
	return c.runOn(t, node, user, append([]string{"env", partVariable + "=singctl", "/shared/singctl"}, args...)...)
}

// TestOnRealCluster: real munge, real users, real Slurm.
func TestOnRealCluster(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: raises a cluster")
	}
	if _, err := os.Stat(minicluster); err != nil {
		t.Fatal("build minicluster first: make build")
	}
	c := cluster2{"rpc"}
	mini := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(minicluster, args...).CombinedOutput(); err != nil {
			t.Fatalf("minicluster %s: %v\n%s", args, err, out)
		}
	}
	mini("up", "--name", c.name, "--suite", *suite, "--nodes", "2")
	t.Cleanup(func() { mini("down", "--name", c.name) })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("/var/lib/minicluster", c.name, "shared/singctl"), self, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"n1", "n2"} {
		daemon := exec.Command(minicluster, "exec", "--name", c.name, node, "--", "env", partVariable+"=serve "+node, "/shared/singctl")
		var said bytes.Buffer
		daemon.Stdout, daemon.Stderr = &said, &said
		if err := daemon.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			daemon.Process.Signal(os.Interrupt)
			daemon.Wait()
			if t.Failed() {
				t.Logf("daemon of %s:\n%s", node, said.String())
			}
		})
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out1, _ := c.runSingctl(t, "n1", "root", "doctor", "--all")
		if !strings.Contains(out1, "does not answer") {
			t.Logf("doctor of the cluster:\n%s", out1)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("doctor --all after a minute still has a node that does not answer:\n%s", out1)
		}
	}
	submit := func(user, node string) string {
		t.Helper()
		out, code := c.runOn(t, "ctl", user, "sbatch", "--parsable", "--output=/dev/null", "--nodelist="+node, "--wrap", "sleep 600")
		id := strings.TrimSpace(out)
		if code != 0 {
			t.Fatalf("sbatch failed: %s", out)
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			if out, _ := c.runOn(t, "ctl", "root", "squeue", "-h", "-j", id, "-o", "%T"); strings.TrimSpace(out) == "RUNNING" {
				return id
			}
			if time.Now().After(deadline) {
				t.Fatalf("job %s does not start", id)
			}
		}
	}
	alices, bobs := submit("alice", "n2"), submit("bob", "n1")

	expect := func(t *testing.T, out string, code, wantCode int, want string) {
		t.Helper()
		if code != wantCode || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("exit %d, want %d, and %q in:\n%s", code, wantCode, want, out)
		}
	}
	for _, tt := range []struct {
		name, user, job string
		code            int
		want            string
	}{
		{"own job, found on its node", "alice", alices, 0, "led by n2"},
		{"another's job", "bob", alices, 4, "show: not permitted: job " + alices + " belongs to another user"},
		{"own job on another node", "bob", bobs, 0, "led by n1"},
		{"operator", "operator", alices, 0, "led by n2"},
		{"root", "root", bobs, 0, "led by n1"},
		{"SlurmUser", "slurm", bobs, 0, "led by n1"},
		{"no such job", "alice", "4711", 3, "job 4711: no such job"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, code := c.runSingctl(t, "ctl", tt.user, "show", tt.job)
			expect(t, out, code, tt.code, tt.want)
		})
	}
	t.Run("checkpoint", func(t *testing.T) {
		out, code := c.runSingctl(t, "ctl", "alice", "checkpoint", alices)
		expect(t, out, code, 0, "checkpoint mini/"+alices+"/3: 4.0 GiB captured")
		out, code = c.runSingctl(t, "ctl", "bob", "checkpoint", alices)
		expect(t, out, code, 4, "belongs to another user")
		out, code = c.runSingctl(t, "ctl", "bob", "gc")
		expect(t, out, code, 4, "for operators only")
	})
	t.Run("credential for another node", func(t *testing.T) {
		out, code := c.runOn(t, "ctl", "alice", "env", partVariable+"=steal n1 n2:"+rpc.Port, "/shared/singctl")
		expect(t, out, code, 1, `credential refused: made for another: for node "n1", this is "n2"`)
		out, code = c.runOn(t, "ctl", "alice", "env", partVariable+"=steal n2 n2:"+rpc.Port, "/shared/singctl")
		expect(t, out, code, 0, "^$")
	})
	t.Run("completion", func(t *testing.T) {
		out, code := c.runSingctl(t, "ctl", "alice", "__complete", "show", "")
		expect(t, out, code, 0, "(?m)^"+alices+"\twrap$")
	})
	t.Run("doctor", func(t *testing.T) {
		out, code := c.runSingctl(t, "n1", "bob", "doctor")
		// The key is not made here, and there is no plugin; the rest of this cluster is well.
		expect(t, out, code, 8, `(?m)^  FAIL  slurm: plugin`)
		for _, well := range []string{"rights", "kernel", "kernel: freezer", "kernel: network", "munge", "slurm: slurmctld", "slurm: node", "slurm: proctrack", "slurm: requeue", "slurm: killwait", "shared folder", "clock"} {
			expect(t, out, code, 8, `(?m)^  ok    `+regexp.QuoteMeta(well)+` `)
		}
	})
	t.Run("criu", func(t *testing.T) {
		out, code := c.runSingctl(t, "n1", "bob", "doctor")
		if *suite == "forky" {
			expect(t, out, code, 8, `(?m)^  ok    criu  +criu 4\.[2-9]`)
		} else {
			expect(t, out, code, 8, `(?m)^  FAIL  criu  +checkpoints needs criu 4.2, found (no criu|criu [34]\.)`)
		}
	})
	t.Run("munged is dead", func(t *testing.T) {
		if out, code := c.runOn(t, "n2", "root", "sh", "-c", "kill -9 $(cat /run/munge/munged.pid)"); code != 0 {
			t.Fatalf("kill of munged on n2 failed: %s", out)
		}
		// Slurm's commands would hang, so the daemon is asked without them.
		out, code := c.runOn(t, "n2", "alice", "env", partVariable+"=steal n2 n2:"+rpc.Port, "/shared/singctl")
		expect(t, out, code, 1, "munge does not work on this node: .*munge.socket")
	})
	t.Run("node is dead", func(t *testing.T) {
		mini("fail", "--name", c.name, "n1")
		out, code := c.runSingctl(t, "ctl", "bob", "doctor", "--node", "n1")
		expect(t, out, code, 6, "node n1: proxyd does not answer")
	})
}
