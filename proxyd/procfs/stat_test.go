// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestParseStat: a name may look like the fields behind it.
func TestParseStat(t *testing.T) {
	const behind = " 1 301 302 -30719 301 4194560 100 0 0 0 0 0 0 0 20 0 1 0 12345 0 0\n"
	for name, c := range map[string]struct {
		line string
		want Stat
		bad  bool
	}{
		"plain":       {"301 (sleep) S" + behind, Stat{'S', 1, 302, 1<<32 - 30719, 12345}, false},
		"parentheses": {"301 (a) R (b)\n) Z 9 9) Z" + behind, Stat{'Z', 1, 302, 1<<32 - 30719, 12345}, false},
		"empty":       {"", Stat{}, true},
		"no name":     {"301 sleep S" + behind, Stat{}, true},
		"turned":      {"301 )sleep( S" + behind, Stat{}, true},
		"short":       {"301 (sleep) S 1 301 302 0 301 4194560", Stat{}, true},
		"state":       {"301 (sleep) SS" + behind, Stat{}, true},
		"letters":     {"301 (sleep) S x 301 302 0 301 4194560 100 0 0 0 0 0 0 0 20 0 1 0 12345 0 0", Stat{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat([]byte(c.line))
			if got != c.want || errors.Is(err, errStat) != c.bad {
				t.Errorf("%+v, error %v, want %+v, and an error: %v", got, err, c.want, c.bad)
			}
		})
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("301 (a) R (b) S 1 301 301 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 12345 0 0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseStat(b); err == nil && s.State == 0 {
			t.Errorf("parseStat(%q) = %+v without a state", b, s)
		}
	})
}

// TestReadStat follows a process of a session of its own from its start to its end.
func TestReadStat(t *testing.T) {
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	before, err := StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	s, err := ReadStat(pid)
	if err != nil || s.Parent != os.Getpid() || s.Session != pid || s.Terminal != 0 || s.HasEnded() || s.Start < before {
		t.Errorf("a running process: %+v, error %v; its parent is %d, its PID %d, and its parent was started at %d", s, err, os.Getpid(), pid, before)
	}
	in.Close()
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if ended, err := ReadStat(pid); err != nil || !ended.HasEnded() || ended.Start != s.Start {
		t.Errorf("a process that has ended, and was not waited for: %+v, error %v; it was started at %d", ended, err, s.Start)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadStat(pid); !IsEnded(err) {
		t.Errorf("a process that was waited for: error %v", err)
	}
}

// TestStartTime: the start of a process is that of its stat.
func TestStartTime(t *testing.T) {
	own, err := StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ReadStat(os.Getpid())
	if err != nil || own == 0 || own != s.Start {
		t.Errorf("started at %d, and by its stat at %d, error %v", own, s.Start, err)
	}
	if _, err := StartTime(1 << 29); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a PID that no process can have: error %v", err)
	}
}

// TestBootID: the name is a UUID, and the same at each call.
func TestBootID(t *testing.T) {
	id, err := BootID()
	if err != nil || !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(id) {
		t.Fatalf("boot ID %q, error %v", id, err)
	}
	if again, err := BootID(); again != id || err != nil {
		t.Errorf("boot ID %q, then %q, error %v", id, again, err)
	}
}
