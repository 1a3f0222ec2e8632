// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// TestCRIU moves a job of two capsules between the nodes of a cluster, again and again,
// while its programs send each other data; every byte must arrive, once. It runs on the
// machine of a minicluster that has CRIU, of two nodes:
//
//	minicluster up --name net --suite forky --nodes 2
//	OVERLAY_CLUSTER=net MINICLUSTER=contrib/minicluster/minicluster go test -run CRIU ./proxyd/overlay
//
// Each command below is a process of its own on a node, so that each finds the state of the earlier
// ones by Open and capsule.Adopt.
func TestCRIU(t *testing.T) {
	name, mc := os.Getenv("OVERLAY_CLUSTER"), os.Getenv("MINICLUSTER") //nolint:forbidigo // a test has no other argument
	if name == "" {
		t.Skip("SKIP: needs a cluster: OVERLAY_CLUSTER and MINICLUSTER name one")
	}
	shared := filepath.Join("/var/lib/minicluster", name, "shared")
	dir, err := os.MkdirTemp(shared, "overlay-")
	failOn(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	inside := "/shared/" + filepath.Base(dir)
	for from, to := range map[string]string{"/proc/self/exe": "node", "testdata/pump.py": "pump.py"} {
		b, err := os.ReadFile(from)
		failOn(t, err)
		failOn(t, os.WriteFile(filepath.Join(dir, to), b, 0o755))
	}
	on := func(host string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second) // cleans up, too
		defer cancel()
		cmd := exec.CommandContext(ctx, mc, append([]string{"exec", "--name", name, host, "--", inside + "/node", nodeArg, inside}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: run %v: %v\n%s", host, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	hosts := []string{"n1", "n2"}
	address := map[string]string{"n1": "10.77.0.2", "n2": "10.77.0.3"}
	capsules := []string{"812.0", "812.1"}
	addr := map[string]string{"812.0": "100.64.0.8", "812.1": "100.64.0.9"}
	where := func(round, i int) string { return hosts[(round+i)%2] }
	meet := func(round int) {
		for _, h := range hosts {
			on(h, "peers", "812", addr["812.0"]+"="+address[where(round, 0)], addr["812.1"]+"="+address[where(round, 1)])
		}
	}
	clean := func() {
		for _, h := range hosts {
			for _, c := range capsules {
				on(h, "remove", c)
			}
			on(h, "sweep")
		}
	}
	clean() // of a test that was killed
	t.Cleanup(clean)
	wait := func(file string, until func(string) bool) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			b, _ := os.ReadFile(filepath.Join(dir, file))
			if until(string(b)) {
				return
			}
			if time.Now().After(deadline) {
				for _, c := range capsules {
					log, _ := os.ReadFile(filepath.Join(dir, c+".log"))
					t.Logf("%s: %s", c, log)
				}
				t.Fatalf("%s is still %q after a minute", file, b)
			}
		}
	}
	const total = 24 << 20
	for _, h := range hosts {
		on(h, "check")
	}
	for i, c := range capsules {
		on(where(0, i), "make", c, addr[c], "")
	}
	meet(0)
	on(where(0, 1), "run", "812.1", "listen", "812.1", fmt.Sprint(total), inside)
	wait("812.1.ready", func(string) bool { _, err := os.Stat(filepath.Join(dir, "812.1.ready")); return err == nil })
	on(where(0, 0), "run", "812.0", addr["812.1"], "812.0", fmt.Sprint(total), inside)

	const moves = 4
	for round := range moves {
		// After so many bytes the stream is surely under way.
		wait("812.0.net", func(s string) bool { n, _ := strconv.Atoi(s); return n > (round+1)*total/(moves+1) })
		began := time.Now()
		for i, c := range capsules {
			on(where(round, i), "lock", c)
		}
		var last []string
		for i, c := range capsules {
			last = append(last, on(where(round, i), "dump", c, fmt.Sprint(round)))
		}
		for i, c := range capsules {
			on(where(round, i), "remove", c)
		}
		for i, c := range capsules {
			on(where(round+1, i), "make", c, addr[c], "restore")
		}
		meet(round + 1)
		for i, c := range capsules {
			on(where(round+1, i), "lock", c)
		}
		for i, c := range capsules {
			on(where(round+1, i), "restore", c, fmt.Sprint(round), last[i])
		}
		for i, c := range capsules {
			on(where(round+1, i), "unlock", c)
		}
		t.Logf("move %d took %v", round+1, time.Since(began).Round(time.Millisecond))
	}
	for i, c := range capsules {
		for what, seed := range map[string]string{"net": capsules[1-i], "lo": "lo " + c} {
			want := fmt.Sprintf("%d %x", total, hashOfStream(seed, total))
			wait(c+"."+what+".done", func(s string) bool { return s != "" })
			got, err := os.ReadFile(filepath.Join(dir, c+"."+what+".done"))
			if err != nil || string(got) != want {
				t.Errorf("%s received %s, want %s", c, got, want)
			}
		}
	}
}

// hashOfStream returns the hash of the bytes that pump.py sends.
func hashOfStream(seed string, total int) []byte {
	h := sha256.New()
	for n := range total / 8192 {
		for i := range 8192 / 32 {
			sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", seed, n, i))
			h.Write(sum[:])
		}
	}
	return h.Sum(nil)
}

// nodeArg makes the test binary carry out one of nodeCommands on a node of the cluster.
const nodeArg = "node"

// capsulesFolder has the capsules of a node.
func capsulesFolder(name string) string { return filepath.Join("/var/lib/overlay-test", name) }

var nodeCommands = map[string]func(ctx context.Context, dir string, args []string) error{
	"check": func(ctx context.Context, _ string, _ []string) error {
		return runCommand(ctx, "criu", "check")
	},
	"make": func(ctx context.Context, _ string, a []string) error {
		return onNode(func(o *Overlay) error {
			addr, err := netip.ParseAddr(a[1])
			if err != nil {
				return err
			}
			if err := os.MkdirAll(capsulesFolder(""), 0o700); err != nil {
				return err
			}
			c, err := capsule.Make(ctx, capsule.Spec{
				Dir: capsulesFolder(a[0]), Hostname: a[0], Restore: a[2] != "",
				Network: func(pid int) error { return o.Attach(ctx, pid, a[0], addr) },
			})
			if err == nil {
				c.Close()
			}
			return err
		})
	},
	"remove": func(ctx context.Context, _ string, a []string) error {
		return onNode(func(o *Overlay) error {
			if err := capsule.Discard(ctx, capsulesFolder(a[0])); err != nil {
				return err
			}
			return o.Detach(ctx, a[0])
		})
	},
	"sweep": func(ctx context.Context, _ string, _ []string) error {
		return onNode(func(o *Overlay) error { return o.Sweep(ctx, nil) })
	},
	"peers": func(ctx context.Context, _ string, a []string) error {
		return onNode(func(o *Overlay) error {
			var peers []Peer
			for _, p := range a[1:] {
				addr, node, _ := strings.Cut(p, "=")
				peers = append(peers, Peer{netip.MustParseAddr(addr), netip.MustParseAddr(node)})
			}
			return o.SetPeers(ctx, a[0], peers)
		})
	},
	"lock": func(ctx context.Context, _ string, a []string) error {
		return onCapsule(ctx, a[0], func(c *capsule.Capsule) error { return Lock(c.PID()) })
	},
	"unlock": func(ctx context.Context, _ string, a []string) error {
		return onCapsule(ctx, a[0], func(c *capsule.Capsule) error { return Unlock(c.PID()) })
	},
	"run": func(ctx context.Context, dir string, a []string) error {
		return onCapsule(ctx, a[0], func(c *capsule.Capsule) error {
			script := `n=$1; shift; d=$1; shift
setsid sh -c 'echo $$ >$0.pid; exec python3 "$@" >$0.log 2>&1 </dev/null' $d/$n $d/pump.py "$@" >/dev/null 2>&1 </dev/null &`
			return runInCapsule(ctx, c, append([]string{"sh", "-c", script, "sh", a[0], dir}, a[1:]...)...)
		})
	},
	"dump": func(ctx context.Context, dir string, a []string) error {
		return onCapsule(ctx, a[0], func(c *capsule.Capsule) error {
			last, err := c.LastPID(ctx)
			if err != nil {
				return err
			}
			pid, err := os.ReadFile(filepath.Join(dir, a[0]+".pid"))
			if err != nil {
				return err
			}
			images := filepath.Join(dir, a[0]+"."+a[1])
			if err := os.Mkdir(images, 0o700); err != nil {
				return err
			}
			fmt.Fprintln(os.Stdout, last)
			return runInCapsule(ctx, c, "criu", "dump", "-t", strings.TrimSpace(string(pid)), "-D", images, "-o", "dump.log", "--network-lock", "skip", "--tcp-established")
		})
	},
	"restore": func(ctx context.Context, dir string, a []string) error {
		return onCapsule(ctx, a[0], func(c *capsule.Capsule) error {
			last, err := strconv.Atoi(a[2])
			if err != nil {
				return err
			}
			if err := runInCapsule(ctx, c, "criu", "restore", "-d", "-D", filepath.Join(dir, a[0]+"."+a[1]), "-o", "restore.log", "--tcp-established"); err != nil {
				return err
			}
			return c.LoadLastPID(ctx, last)
		})
	},
}

func onNode(f func(*Overlay) error) error {
	o, err := Open(Config{})
	if err != nil {
		return err
	}
	defer o.Close()
	return f(o)
}

func onCapsule(ctx context.Context, name string, f func(*capsule.Capsule) error) error {
	c, err := capsule.Adopt(ctx, capsulesFolder(name))
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

func runInCapsule(ctx context.Context, c *capsule.Capsule, args ...string) error {
	ns := fmt.Sprintf("/proc/%d/ns/", c.PID())
	return runCommand(ctx, "nsenter", append([]string{"--mount=" + ns + "mnt", "--net=" + ns + "net", "--uts=" + ns + "uts",
		"--ipc=" + ns + "ipc", "--pid=" + ns + "pid", "--time=" + ns + "time_for_children"}, args...)...)
}

func runCommand(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func nodeCommand(dir, verb string, args []string) {
	if err := nodeCommands[verb](context.Background(), dir, args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
