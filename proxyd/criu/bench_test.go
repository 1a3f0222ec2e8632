// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A comparison with plain criu, with images in files on a tmpfs:
//
//	criu.test -test.run TestSpeed -speed 1024,8192 -test.v
var speed = flag.String("speed", "", "sizes of programs in MiB, for TestSpeed")

// hog fills memory with pages that are not zero and that differ from each other.
const hog = `
import mmap, sys
n = int(sys.argv[1]) << 20; a = mmap.mmap(-1, n, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block = bytes(range(1, 256)) * 4112 + bytes(16)
for i in range(0, n, 1 << 20): a[i:i + (1 << 20)] = (i.to_bytes(8, 'little') + block)[:1 << 20]
print('ready', flush=True)
for line in sys.stdin:
    print(all(int.from_bytes(a[i:i + 8], 'little') == i for i in range(0, n, 1 << 20)), flush=True)
`

// TestSpeed dumps and restores a large program by turns with this package and with plain
// criu, and compares the medians.
func TestSpeed(t *testing.T) {
	needCRIU(t)
	if *speed == "" {
		t.Skip("SKIP: needs -speed")
	}
	for _, size := range strings.Split(*speed, ",") {
		t.Run(size+"MiB", func(t *testing.T) {
			times := map[string][]time.Duration{}
			rounds, mib := 5, 0
			if fmt.Sscan(size, &mib); mib > 2048 {
				rounds = 3
			}
			compareTimes(t, size, 0, map[string][]time.Duration{}) // the machine's memory is slow at the first touch
			for round := range rounds {
				compareTimes(t, size, round, times)
				t.Log(times)
			}
			ratio := func(a, b string) float64 { return float64(medianOf(times[a])) / float64(medianOf(times[b])) }
			for _, kind := range []string{"plain dump", "dump", "dump to memory", "plain restore", "restore", "restore from memory"} {
				t.Logf("%-20s %v median %v", kind, times[kind], medianOf(times[kind]))
			}
			for _, kind := range []string{"dump", "dump to memory"} {
				if r := ratio(kind, "plain dump"); r > 1.25 {
					t.Errorf("%s took %.2f times as long as plain criu, want at most 1.25", kind, r)
				} else {
					t.Logf("%s: %.2f × plain", kind, r)
				}
			}
			for _, kind := range []string{"restore", "restore from memory"} {
				if r := ratio(kind, "plain restore"); r > 1.25 {
					t.Errorf("%s took %.2f times as long as plain criu, want at most 1.25", kind, r)
				} else {
					t.Logf("%s: %.2f × plain", kind, r)
				}
			}
			var usage syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
				t.Fatal(err)
			}
			t.Logf("the most memory that this process had: %d MiB", usage.Maxrss>>10)
			if usage.Maxrss>>10 > 256 {
				t.Error("this process had more than 256 MiB of memory")
			}
		})
	}
}

func medianOf(all []time.Duration) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// compareTimes runs each operation once. The order changes from round to round.
func compareTimes(t *testing.T, size string, round int, times map[string][]time.Duration) {
	took := func(kind string, f func()) {
		begin := time.Now()
		f()
		times[kind] = append(times[kind], time.Since(begin).Round(time.Millisecond))
	}
	inTurn := func(all ...func()) {
		for i := range all {
			all[(i+round)%len(all)]()
		}
	}
	c := newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", hog, size)
	r.expectLine("ready")
	// The tmpfs has room for a single copy of the largest program.
	into := func(kind string, f func(dir folder)) func() {
		return func() {
			dir := newImageFolder(t)
			defer os.RemoveAll(string(dir))
			took(kind, func() { f(dir) })
		}
	}
	inTurn(into("plain dump", func(dir folder) {
		runPlainCriu(t, c, nil, "setpriv", "--ruid", fmt.Sprint(user), "--rgid", fmt.Sprint(user), "--keep-groups", "criu", "dump", "-t", fmt.Sprint(r.program.PID),
			"-D", ".", "--network-lock", "skip", "--leave-running", "-o", "dump.log", string(dir))
	}), into("dump", func(dir folder) { dumpProgram(t, r.program, dir) }))
	took("dump to memory", func() { dumpProgram(t, r.program, discard{}) })
	// All restores read this copy.
	dir := newImageFolder(t)
	defer os.RemoveAll(string(dir))
	img := dumpProgram(t, r.program, dir)
	c.endCapsule()

	ours := func(kind string, src Source) func() {
		return func() {
			c := newCapsule(t)
			var q *running
			took(kind, func() { q = c.restoreImage(img, src) })
			q.askAndExpect("?", "True")
			c.endCapsule()
		}
	}
	inTurn(func() {
		c := newCapsule(t)
		q := makePipes(t)
		took("plain restore", func() {
			runPlainCriu(t, c, q.far[:2], "criu", "restore", "-d", "-D", ".", "-o", "restore.log",
				"--inherit-fd", "fd[3]:"+r.program.Stdio[0], "--inherit-fd", "fd[4]:"+r.program.Stdio[1], string(dir))
		})
		q.closeFar()
		q.askAndExpect("?", "True")
		c.endCapsule()
	}, ours("restore", dir), ours("restore from memory", copied{dir}))
}

// runPlainCriu runs criu in a capsule; the last argument is its working directory.
func runPlainCriu(t *testing.T, c *capsule, files []*os.File, args ...string) {
	t.Helper()
	ns := fmt.Sprintf("/proc/%d/ns/", c.initPID())
	last := len(args) - 1
	dir, err := os.Open(args[last])
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command("nsenter", append([]string{fmt.Sprintf("--wd=/proc/self/fd/%d", 3+len(files)), "--mount=" + ns + "mnt", "--net=" + ns + "net", "--uts=" + ns + "uts",
		"--ipc=" + ns + "ipc", "--time=" + ns + "time_for_children", "--pid=" + ns + "pid"}, args[:last]...)...)
	cmd.ExtraFiles = append(append([]*os.File{}, files...), dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		log, _ := exec.Command("sh", "-c", "grep -h Error "+args[last]+"/*.log").Output()
		t.Fatalf("criu %v: %v: output %s, errors in its logs %s", args, err, out, log)
	}
}

// copied hides that a source has files: the source's bytes are copied.
type copied struct{ Source }

func (c copied) Open(name string) (io.ReadCloser, error) {
	r, err := c.Source.Open(name)
	if err != nil {
		return nil, err
	}
	return readCloser{r, r}, nil
}
