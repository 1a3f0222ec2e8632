// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// realBuilds lets a test build with the real mmdebstrap from the host's mirror.
func realBuilds(t *testing.T) {
	t.Helper()
	if os.Getenv("MINICLUSTER_BUILD_TESTS") != "1" {
		t.Skip("skip: builds real root file systems for minutes, as root, from a Debian mirror: MINICLUSTER_BUILD_TESTS=1 runs it")
	}
	if os.Geteuid() != 0 {
		t.Fatal("MINICLUSTER_BUILD_TESTS=1 needs root")
	}
}

func TestRealTrees(t *testing.T) {
	realBuilds(t)
	cache := filepath.Join(t.TempDir(), "cache")
	passwd := map[string]string{} // lines of our accounts by suite
	for _, s := range suites {
		t.Run(s.Name, func(t *testing.T) {
			began, last, gap := time.Now(), time.Now(), time.Duration(0)
			dir, err := Ensure(context.Background(), Options{Suite: s, CacheDir: cache, Progress: func(Progress) {
				gap, last = max(gap, time.Since(last)), time.Now()
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("built in %v, longest silence %v", time.Since(began), gap)
			if gap > 2*time.Second {
				t.Errorf("the build reported no progress for %v, want at most 2 s", gap)
			}
			checkTree(t, dir, s)
			passwd[s.Name] = recipeLines(t, dir, "passwd") + recipeLines(t, dir, "group")
			if passwd[s.Name] != passwd["forky"] {
				t.Errorf("accounts differ:\n%s\nforky:\n%s", passwd[s.Name], passwd["forky"])
			}
		})
	}
	checkClean(t, cache)
}

// recipeLines are the lines of etc/passwd or etc/group that the recipe makes.
func recipeLines(t *testing.T, dir, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "etc", file))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		switch name, _, _ := strings.Cut(line, ":"); name {
		case "alice", "bob", "operator", "proj", "slurm", "munge", "mysql", "slurmrestd":
			out.WriteString(line)
		}
	}
	return out.String()
}

func checkTree(t *testing.T, dir string, s Suite) {
	t.Helper()
	for _, c := range []struct{ command, want string }{
		{"slurmctld -V", "slurm-wlm " + s.Slurm},
		{"slurmd -V", "slurm-wlm " + s.Slurm},
		{"slurmrestd -V", "slurm-wlm " + s.Slurm},
		{"munged --version", "munge-"},
		{"mariadbd --version", "MariaDB"},
		{"python3 -c 'import json,socket,ctypes,multiprocessing;print(1)'", "1"},
		{"id alice", "uid=1001(alice) gid=1001(alice) groups=1001(alice),2000(proj)"},
		{"id operator", "uid=1003(operator) gid=100(users) groups=100(users)"},
		{"su alice -c 'echo $HOME $SHELL'", "/shared/home/alice /bin/bash"},
		{"stat -c '%U %a' /var/spool/slurmctld /var/spool/slurmd /var/log/slurm /shared",
			"slurm 755\nroot 755\nslurm 755\nroot 755"},
		{"stat -c '%U:%G' /var/lib/mysql /var/lib/mysql/ibdata1", "mysql:mysql\nmysql:mysql"},
		{"cat /etc/machine-id; find /tmp /etc/munge /etc/hostname /etc/resolv.conf /etc/apt/sources.list* -mindepth 1 2>/dev/null", ""},
		{"ls /etc/hostname /etc/resolv.conf /etc/apt/sources.list /etc/apt/apt.conf.d/99mmdebstrap 2>/dev/null", ""},
		{"test -e /usr/lib/*/slurm-wlm/auth_jwt.so -a -e /usr/include/slurm/spank.h -a -d /etc/slurm && echo yes", "yes"},
		{"which ip ping nft ps killall curl hostname mount unshare nsenter | wc -l", "10"},
	} {
		cmd := exec.Command("chroot", dir, "sh", "-c", c.command)
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, %v; want %q", c.command, got, err, c.want)
		}
	}
	if out, err := exec.Command("chroot", dir, "criu", "--version").Output(); err != nil || !strings.HasPrefix(string(out), "Version: "+s.CRIU) {
		t.Errorf("criu --version: %s, %v; want %s", out, err, s.CRIU)
	}
}

// Half a minute of building, killed at random moments.
func TestRealKilled(t *testing.T) {
	realBuilds(t)
	killAndEnsure(t, 8, 24*time.Second, filepath.Join(t.TempDir(), "cache"))
}

func TestRealDiskFull(t *testing.T) {
	realBuilds(t)
	for _, size := range []string{"1m", "40m", "150m", "300m", "450m"} {
		diskFull(t, size, Options{Suite: suites[0], CacheDir: filepath.Join(t.TempDir(), "cache")})
	}
}

// Without a network, the message has apt's reason, and no more than a line.
func TestRealNoNetwork(t *testing.T) {
	realBuilds(t)
	cache := filepath.Join(t.TempDir(), "cache")
	cmd := exec.Command("/proc/self/exe", ensureArg, cache, "http://deb.example.org/debian")
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err == nil {
		t.Fatal("built without a network")
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := lines[len(lines)-1]
	want := fmt.Sprintf("(log: %s/forky.log)", cache)
	if !strings.HasPrefix(last, "build forky: Failed to fetch http://deb.example.org/debian/dists/forky/InRelease ") || !strings.HasSuffix(last, want) {
		t.Errorf("last line of the build = %s", last)
	}
	t.Log(last)
	checkClean(t, cache, "forky.lock", "forky.log")
}
