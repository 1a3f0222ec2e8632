//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHosts(t *testing.T) {
	t.Parallel()
	c := raiseCluster(t, "t-hosts", "--nodes", "2", "--gpus", "2")

	t.Run("people", func(t *testing.T) {
		for _, h := range []string{"ctl", "n1", "n2"} {
			for user, want := range map[string]string{"alice": "1001", "bob": "1002", "operator": "1003", "": "0"} {
				if got := strings.TrimSpace(c.runOn(t, h, user, "id", "-u").mustSucceed(t)); got != want {
					t.Errorf("%s: user %q has uid %s, want %s", h, user, got, want)
				}
			}
		}
		if got := c.runScript(t, "id -Gn; pwd; echo $HOME $USER"); got != "alice proj\n/shared/home/alice\n/shared/home/alice alice" {
			t.Errorf("alice logs in to %q", got)
		}
	})
	t.Run("streams and codes", func(t *testing.T) { testExec(t, c) })
	t.Run("apart", func(t *testing.T) { testApart(t, c) })
	t.Run("slurm", func(t *testing.T) { testSlurm(t, c) })
	t.Run("status", func(t *testing.T) { testStatus(t, c) })
	t.Run("logs", func(t *testing.T) {
		if out := runMinicluster(t, "logs", "n1", "slurmd", "--name", c.name).mustSucceed(t); !strings.Contains(out, "slurmd started") {
			t.Errorf("slurmd's log: %q", out)
		}
		if out := runMinicluster(t, "logs", "--name", c.name, "ctl", "-n", "3").mustSucceed(t); !strings.Contains(out, "slurmctld.log <==") {
			t.Errorf("all logs of ctl: %q", out)
		}
	})
}

func mustGetwd(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func testExec(t *testing.T, c raised) {
	in := strings.Repeat("0123456789abcdef\n", 1<<16)
	if got := runMiniclusterWith(t, in, "exec", "--name", c.name, "n1", "--", "cat"); got.out != in || got.code != 0 {
		t.Errorf("1 MiB through cat: %d bytes came back, code %d", len(got.out), got.code)
	}
	cases := []struct {
		name string
		args []string
		want result
	}{
		{"code", []string{"exec", "n1", "--name", c.name, "--", "sh", "-c", "echo out; echo err >&2; exit 7"}, result{"out\n", "err\n", 7}},
		{"signal", []string{"exec", "--name", c.name, "n1", "--", "sh", "-c", "kill -SEGV $$"}, result{"", "", 128 + 11}},
		{"not found", []string{"exec", "n1", "--name", c.name, "--", "no-such"}, result{"", "minicluster: no-such: command not found\n", 127}},
		{"not executable", []string{"exec", "n1", "--name", c.name, "--", "/etc/passwd"}, result{"", "minicluster: /etc/passwd: permission denied\n", 126}},
		{"untouched", []string{"exec", "n1", "--name=" + c.name, "--", "echo", "--name", "x", "--", "-h"}, result{"--name x -- -h\n", "", 0}},
		{"no host", []string{"exec", "n9", "--name", c.name, "--", "id"}, result{"", fmt.Sprintf("minicluster: no host \"n9\" in cluster %s (hosts: ctl n1 n2)\n", c.name), 125}},
		{"no user", []string{"exec", "n1", "--name", c.name, "--user", "eve", "--", "id"}, result{"", "minicluster: no user \"eve\" here (users: root alice bob operator)\n", 125}},
		{"no command", []string{"exec", "n1", "--name", c.name}, result{"", "minicluster: exec wants HOST and then a command: minicluster exec HOST -- COMMAND [ARG…]\n", 2}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := runMinicluster(t, tc.args...); got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
	t.Run("relative to the home", func(t *testing.T) {
		c.runScript(t, "printf '#!/bin/sh\\numask\\n' >here; chmod +x here")
		if r := c.runOn(t, "n1", "alice", "./here"); r.out != "0022\n" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("nothing of ours leaks", func(t *testing.T) {
		cmd := exec.Command("sh", "-c", `exec 8</ && exec "$@"`, "sh", program, "exec", "n1", "--name", c.name, "--user", "alice", "--", "ls", "/proc/self/fd")
		if r := runProgram(t, cmd, ""); r.out != "0\n1\n2\n3\n" { // 3 is ls's own
			t.Errorf("open in a command: %q", r.out)
		}
		if out := c.runOn(t, "ctl", "", "sh", "-c", "ls -l /proc/$(pgrep -x munged)/fd").mustSucceed(t); strings.Contains(out, "/work") || strings.Contains(out, "go-build") {
			t.Errorf("open in a daemon: %s", out)
		}
	})
	t.Run("signals are passed on", func(t *testing.T) {
		cmd := exec.Command(program, "exec", "n1", "--name", c.name, "--", "sh", "-c", "trap 'exit 42' TERM; echo ready; sleep 1000 & wait")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.Read(make([]byte, 6)) // the trap is set
		cmd.Process.Signal(unix.SIGTERM)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 42 {
			t.Errorf("exit code %d, want the trap's 42", code)
		}
	})
}

// testApart: hosts have their own files, processes and network, and /shared is the same on all hosts.
func testApart(t *testing.T, c raised) {
	for _, dir := range []string{"/tmp", "/dev/shm", "/var/tmp", "/run", "/root", "/etc"} {
		c.runOn(t, "n1", "", "touch", dir+"/from-n1").mustSucceed(t)
		if r := c.runOn(t, "n2", "", "ls", dir+"/from-n1"); r.code == 0 {
			t.Errorf("n2 sees what n1 has in %s", dir)
		}
	}
	c.runOn(t, "n1", "alice", "touch", "/shared/from-n1").mustSucceed(t)
	c.runOn(t, "n2", "bob", "ls", "/shared/from-n1").mustSucceed(t)
	for _, h := range []string{"ctl", "n1", "n2"} {
		if got := strings.TrimSpace(c.runOn(t, h, "", "hostname").mustSucceed(t)); got != h {
			t.Errorf("%s calls itself %s", h, got)
		}
		if out := c.runOn(t, h, "", "sh", "-c", "ps -e | grep -c slurmd$").out; h != "ctl" && strings.TrimSpace(out) != "1" {
			t.Errorf("%s sees %s slurmd", h, strings.TrimSpace(out))
		}
	}
	c.runOn(t, "n1", "", "ping", "-c1", "-W2", "n2").mustSucceed(t)
	if r := c.runOn(t, "n1", "alice", "sh", "-c", "ls /dev/sgpu0 /dev/sgpu1; echo x >/dev/sgpu1; ls /dev/sgpu2"); !strings.Contains(r.err, "/dev/sgpu2") || strings.Count(r.out, "sgpu") != 2 {
		t.Errorf("device files: %+v", r)
	}
}

func testSlurm(t *testing.T, c raised) {
	if got := c.runScript(t, "srun -N2 hostname | sort"); got != "n1\nn2" {
		t.Errorf("srun -N2 hostname: %q", got)
	}
	if got := c.runScript(t, "srun -n1 --gpus=2 printenv CUDA_VISIBLE_DEVICES"); got != "0,1" {
		t.Errorf("CUDA_VISIBLE_DEVICES=%s", got)
	}
	if got := c.runScript(t, "sacctmgr -nP show qos format=name,preempt | sort"); got != "basic|\nnormal|\npremium|basic,standard\nstandard|basic" {
		t.Errorf("QOS: %q", got)
	}
	if got := c.runScript(t, "sacctmgr -nP show user operator format=adminlevel"); got != "Operator" {
		t.Errorf("operator's admin level: %q", got)
	}
	ping := "curl -sf --unix-socket /run/slurmrestd/slurmrestd.sock http://localhost/slurm/v0.0.45/ping/"
	if out := c.runOn(t, "ctl", "", "sh", "-c", ping).mustSucceed(t); !strings.Contains(out, `"pings"`) {
		t.Errorf("REST over the socket: %q", out)
	}
	jwt := `eval $(cat); curl -sf -H "X-SLURM-USER-TOKEN: $SLURM_JWT" http://ctl:6820/slurm/v0.0.45/ping/`
	token := c.runOn(t, "ctl", "", "scontrol", "token", "username=alice").mustSucceed(t)
	if r := runMiniclusterWith(t, token, "exec", "n2", "--name", c.name, "--user", "alice", "--", "bash", "-c", jwt); !strings.Contains(r.out, `"pings"`) {
		t.Errorf("REST over TCP with a token: %+v", r)
	}
}

func testStatus(t *testing.T, c raised) {
	var s struct {
		Name, Suite string
		Hosts       []struct {
			Name, State string
			Daemons     []struct{ Name, State string }
		}
	}
	if err := json.Unmarshal([]byte(runMinicluster(t, "status", "--json", "--name", c.name).mustSucceed(t)), &s); err != nil {
		t.Fatal(err)
	}
	if s.Name != c.name || s.Suite != "forky" || len(s.Hosts) != 3 {
		t.Errorf("status: %+v", s)
	}
	for _, h := range s.Hosts {
		for _, d := range h.Daemons {
			if h.State != "up" || d.State != "running" && d.State != "done" {
				t.Errorf("%s is %s, its %s is %s", h.Name, h.State, d.Name, d.State)
			}
		}
	}
}

// TestYoungController: a controller that dies before anything is saved.
func TestYoungController(t *testing.T) {
	t.Parallel()
	for _, suite := range []string{"forky", "trixie", "bookworm"} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			c := raiseCluster(t, "t-young-"+suite, "--nodes", "1", "--suite", suite)
			for range 3 {
				runMinicluster(t, "fail", "ctl", "--name", c.name).mustSucceed(t)
				runMinicluster(t, "heal", "ctl", "--name", c.name).mustSucceed(t)
				c.runOn(t, "ctl", "alice", "sinfo").mustSucceed(t)
			}
		})
	}
}

// TestDeathInTheMiddle: a host dies while one of its daemons is restarted. The restart fails, and the cluster goes on.
func TestDeathInTheMiddle(t *testing.T) {
	t.Parallel()
	c := raiseCluster(t, "t-middle", "--nodes", "1")
	c.runOn(t, "n1", "", "pkill", "-STOP", "-x", "slurmd").mustSucceed(t) // slurmd does not end on SIGTERM
	cmd := exec.Command(program, "restart", "n1", "slurmd", "--name", c.name)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, p := range listProcesses(t) {
		if pid, args, _ := strings.Cut(p, " "); strings.Contains(args, "host-init "+c.name+"/n1") {
			killProcess(t, pid)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("restart says that it is done")
	}
	// The keeper may not have noticed yet that the host is gone.
	waitFor(t, 20*time.Second, func() (bool, string) {
		r := runMinicluster(t, "heal", "n1", "--name", c.name)
		return r.code == 0, r.err
	})
	c.runOn(t, "n1", "", "pgrep", "-x", "slurmd").mustSucceed(t)
}

// TestFaults: a node dies, comes back, is cut off, comes back; a daemon dies.
func TestFaults(t *testing.T) {
	t.Parallel()
	c := raiseCluster(t, "t-faults", "--nodes", "2")
	state := func(node, want string) {
		t.Helper()
		waitFor(t, 90*time.Second, func() (bool, string) {
			got := c.runOn(t, "ctl", "", "sinfo", "-h", "-n", node, "-p", "main", "-o", "%t").mustSucceed(t)
			return strings.TrimSpace(got) == want, node + " is " + strings.TrimSpace(got) + ", not " + want
		})
	}
	c.runOn(t, "n1", "", "sh", "-c", "echo kept >/root/disk; echo lost >/tmp/memory").mustSucceed(t)

	// No daemon hears of a power cut.
	const connected = "ss -Htn state established dst n1 dport = :6818"
	c.runOn(t, "n2", "", "bash", "-c", "setsid bash -c 'exec 3<>/dev/tcp/n1/6818; sleep 30' >/dev/null 2>&1 </dev/null &").mustSucceed(t)
	waitFor(t, 10*time.Second, func() (bool, string) {
		got := c.runOn(t, "n2", "", "sh", "-c", connected).mustSucceed(t)
		return got != "", "n2 is not connected to n1"
	})
	runMinicluster(t, "fail", "n1", "--name", c.name).mustSucceed(t)
	if got := c.runOn(t, "n2", "", "sh", "-c", connected).mustSucceed(t); got == "" {
		t.Error("n2 heard that n1 lost its power")
	}
	if r := c.runOn(t, "n1", "", "true"); r.code != 125 || !strings.Contains(r.err, "host n1 is off") {
		t.Errorf("exec on a dead host: %+v", r)
	}
	if r := runMinicluster(t, "fail", "n1", "--name", c.name); r.code != 1 || !strings.Contains(r.err, "off already") {
		t.Errorf("fail on a dead host: %+v", r)
	}
	state("n1", "down*")
	runMinicluster(t, "heal", "n1", "--name", c.name).mustSucceed(t)
	state("n1", "idle")
	if got := c.runOn(t, "n1", "", "sh", "-c", "cat /root/disk; ls /tmp").mustSucceed(t); got != "kept\n" {
		t.Errorf("after a power cut n1 has %q", got)
	}

	runMinicluster(t, "cut", "n2", "--name", c.name).mustSucceed(t)
	if r := c.runOn(t, "ctl", "", "ping", "-c1", "-W1", "n2"); r.code == 0 {
		t.Error("n2 answers though it is cut off")
	}
	c.runOn(t, "n2", "", "pgrep", "-x", "slurmd").mustSucceed(t) // slurmd lives
	runMinicluster(t, "heal", "n2", "--name", c.name).mustSucceed(t)
	waitFor(t, 60*time.Second, func() (bool, string) {
		r := c.runOn(t, "ctl", "", "ping", "-c1", "-W5", "n2")
		return r.code == 0, r.out
	})
	state("n2", "idle")

	c.runOn(t, "n2", "", "pkill", "-9", "-x", "slurmd").mustSucceed(t)
	waitFor(t, 10*time.Second, func() (bool, string) {
		out := runMinicluster(t, "status", "--name", c.name).mustSucceed(t)
		return strings.Contains(out, "slurmd: ended (exit code 137)"), out
	})
	runMinicluster(t, "heal", "n2", "--name", c.name).mustSucceed(t)
	runMinicluster(t, "restart", "ctl", "slurmctld", "--name", c.name).mustSucceed(t)
	if r := runMinicluster(t, "restart", "ctl", "accounts", "--name", c.name); r.code != 1 {
		t.Errorf("restart of a program that ends: %+v", r)
	}
	if r := runMinicluster(t, "restart", "ctl", "slurmd", "--name", c.name); r.code != 1 || !strings.Contains(r.err, "(daemons: munged ") {
		t.Errorf("restart of what is not there: %+v", r)
	}
	runMinicluster(t, "fail", "ctl", "--name", c.name).mustSucceed(t)
	runMinicluster(t, "heal", "ctl", "--name", c.name).mustSucceed(t)
	waitFor(t, 60*time.Second, func() (bool, string) {
		r := c.runOn(t, "ctl", "alice", "srun", "-I5", "-N2", "hostname")
		return r.code == 0, r.err
	})
}

func TestSideBySideAndEight(t *testing.T) {
	t.Parallel()
	a := raiseCluster(t, "t-eight", "--nodes", "8", "--gpus", "1")
	b := raiseCluster(t, "t-one", "--nodes", "1")
	if got := a.runScript(t, "stat -c %a /shared"); got != "1777" {
		t.Errorf("/shared has mode %s", got)
	}
	if got := a.runScript(t, "srun -N8 hostname | sort | tr '\\n' ' '"); got != "n1 n2 n3 n4 n5 n6 n7 n8" {
		t.Errorf("the cluster of eight nodes has the hosts %q", got)
	}
	if got := b.runScript(t, "srun hostname; sinfo -h -o %D"); !strings.HasPrefix(got, "n1\n1") {
		t.Errorf("the cluster of a single node has the hosts and nodes %q", got)
	}
	a.runScript(t, "touch /shared/of-eight")
	if r := b.runOn(t, "n1", "", "ls", "/shared/of-eight"); r.code == 0 {
		t.Error("two clusters share /shared")
	}
}

// TestWarmUpBuildsNothing: with a warm cache, a cluster is raised without a build of its root. How long that takes is
// logged: on an otherwise idle machine, under 15 s.
func TestWarmUpBuildsNothing(t *testing.T) {
	runMinicluster(t, "up", "--name", "t-warm").mustSucceed(t)
	runMinicluster(t, "down", "--name", "t-warm").mustSucceed(t)
	before := lastBuild(t)
	began := time.Now()
	raiseCluster(t, "t-quick", "--nodes", "2", "--gpus", "2")
	t.Logf("up took %s", time.Since(began).Round(10*time.Millisecond))
	if after := lastBuild(t); !after.Equal(before) {
		t.Errorf("the root was built at %s, and before at %s", after, before)
	}
}

// lastBuild returns when the root of the default suite was built last: when the build wrote its log.
func lastBuild(t *testing.T) time.Time {
	t.Helper()
	info, err := os.Stat(filepath.Join(cmp.Or(os.Getenv("MINICLUSTER_CACHE"), "/var/cache/minicluster"), "forky.log"))
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

func TestInstall(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	files := map[string]uint32{
		"usr/local/bin/hello":               0o755,
		"lib/systemd/system/hello.service":  0o644, // Debian's /lib is a link
		"etc/singularity-slurm/proxyd.yaml": 0o600,
		"usr/lib/hello/setuid":              0o4755,
	}
	for path, mode := range files {
		full := filepath.Join(tree, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte("#!/bin/sh\necho hello from $(hostname)\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(full, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Chmod(filepath.Join(tree, "etc/singularity-slurm"), 0o1771); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(tree, tree+".link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("hello", filepath.Join(tree, "usr/local/bin/hi")); err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(mustGetwd(t), tree+".link")
	if err != nil {
		t.Fatal(err)
	}
	c := raiseCluster(t, "t-install", "--nodes", "1", "--install", relative)
	if got := c.runScript(t, "hi; srun hello"); got != "hello from ctl\nhello from n1" {
		t.Errorf("the installed program says %q", got)
	}
	got := c.runOn(t, "n1", "", "stat", "-c", "%a %U %n", "/usr/lib/systemd/system/hello.service", "/etc/singularity-slurm/proxyd.yaml", "/usr/lib/hello/setuid", "/etc/singularity-slurm", "/usr", "/lib/.").mustSucceed(t)
	want := "644 root /usr/lib/systemd/system/hello.service\n600 root /etc/singularity-slurm/proxyd.yaml\n4755 root /usr/lib/hello/setuid\n1771 root /etc/singularity-slurm\n755 root /usr\n755 root /lib/.\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
