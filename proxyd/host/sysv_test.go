// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSysVNumbers: the probe asks the kernel, not its release: a thread without CAP_CHECKPOINT_RESTORE is told what it
// would be told by a kernel without the feature. Afterwards all threads of this process have their rights again.
func TestSysVNumbers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it makes namespaces")
	}
	err := chooseSysVNumber(0)
	if !errors.Is(err, ErrUnsupported) || !strings.HasPrefix(err.Error(), "to choose the numbers of System V objects without being root needs Linux 5.17, found Linux "+Release()) {
		t.Errorf("without capabilities: %v, want an UnsupportedError", err)
	}
	for range 20 {
		if err := SysVNumbers.Probe(); err != nil && !errors.Is(err, ErrUnsupported) {
			t.Fatal(err)
		}
	}
	space, err := os.Readlink("/proc/self/ns/ipc")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range all {
		other, err := os.Readlink(thread + "/ns/ipc")
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil || other != space {
			t.Errorf("%s is in %s (%v), want %s", thread, other, err, space)
		}
		if status, err := os.ReadFile(thread + "/status"); err != nil || rightsIn(status) != rightsIn(own) {
			t.Errorf("%s has the rights\n%s(%v), want\n%s", thread, rightsIn(status), err, rightsIn(own))
		}
	}
}

// rightsIn returns the lines of users and capabilities in the status file of a thread.
func rightsIn(status []byte) string {
	return strings.Join(regexp.MustCompile(`(?m)^(Uid|Cap...):.*\n`).FindAllString(string(status), -1), "")
}

func TestJudgeSysV(t *testing.T) {
	lacks := unsupportedByKernel("to choose the numbers", "Linux 5.17")
	for name, test := range map[string]struct {
		probe   error
		allowed bool
		level   Level
		found   string
		do      string
	}{
		"new kernel":               {nil, false, OK, "are restored as their user", ""},
		"new kernel, allowed":      {nil, true, OK, "are restored as their user", ""},
		"old kernel":               {lacks, false, Warn, "held when they are to go on here: to choose the numbers needs Linux 5.17", "set restore_as_root: allow"},
		"old kernel, allowed":      {lacks, true, OK, "by root, as restore_as_root allows", ""},
		"a probe that cannot tell": {errors.New("probe: no /proc"), false, Warn, "no /proc", "set restore_as_root: allow"},
	} {
		t.Run(name, func(t *testing.T) {
			f := judgeSysV(test.probe, test.allowed)
			if f.Level != test.level || !strings.Contains(f.Found, test.found) || !strings.HasSuffix(f.Do, test.do) || (f.Do == "") != (test.do == "") {
				t.Errorf("finding = %+v", f)
			}
		})
	}
}
