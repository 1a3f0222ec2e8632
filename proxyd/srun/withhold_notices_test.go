// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"io"
	"os"
	"strings"
	"testing"
)

func TestNoticeFilter(t *testing.T) {
	const cancelled = "0: slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-20T17:21:30 DUE TO JOB REQUEUE ***\n"
	const stamped = "0: [2026-11-20T17:21:30.147] error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-20T17:21:30 DUE TO JOB REQUEUE ***\n"
	const aborted = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\nsrun: got SIGCONT\n"
	for name, c := range map[string]struct{ says, quiet, told string }{
		"nothing":              {"", "", ""},
		"the user's":           {"a\nb\n", "a\nb\n", "a\nb\n"},
		"no line":              {"no end", "no end", "no end"},
		"notices":              {"a\n" + cancelled + aborted + stamped + "b\n", "a\nb\n", "a\nb\n" + cancelled + aborted + stamped},
		"errors of srun":       {"a\nsrun: error: n2: task 1: Exited with exit code 4\n", "a\n", "a\nsrun: error: n2: task 1: Exited with exit code 4\n"},
		"other words of srun":  {"srun: job 4 queued\nsrun\n", "srun\n", "srun\nsrun: job 4 queued\n"},
		"a label and its data": {"12: x\n1", "12: x\n1", "12: x\n1"},
		"a progress bar":       {"[20%]\r[21%]\r", "[20%]\r[21%]\r", "[20%]\r[21%]\r"},
	} {
		for _, quiet := range []bool{true, false} {
			for _, size := range []int{1, 3, 1 << 20} {
				want := c.told
				if quiet {
					want = c.quiet
				}
				if got := runNoticeFilter(t, c.says, size, quiet); got != want {
					t.Errorf("%s, %d bytes at a time, quiet %v: got %q, want %q", name, size, quiet, got, want)
				}
			}
		}
	}
}

// runNoticeFilter returns the output of a noticeFilter when srun writes says, size bytes at a time, and ends.
func runNoticeFilter(t *testing.T, says string, size int, quiet bool) string {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	m := newNoticeFilter(inR, func(b []byte) { writeAll(int(outW.Fd()), b) }, nil)
	go m.forwardLines()
	for r := strings.NewReader(says); r.Len() > 0; {
		b := make([]byte, size)
		n, _ := r.Read(b)
		inW.Write(b[:n])
	}
	inW.Close()
	<-m.over
	if quiet {
		m.dropNotices()
	}
	m.flushNotices()
	outW.Close()
	got, err := io.ReadAll(outR)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestNoticeFilterAsks: messages of a failure are passed on while srun runs, if the job stays. An answer does not hold
// for messages after the question.
func TestNoticeFilterAsks(t *testing.T) {
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	questions, answers := make(chan bool), make(chan bool)
	m := newNoticeFilter(nil, func(b []byte) { writeAll(int(outW.Fd()), b) }, func() bool { questions <- true; return <-answers })
	say := func(line string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.filterBytes([]byte(line))
	}
	told := func(want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(outR, b); err != nil || string(b) != want {
			t.Errorf("the output goes on with %q (error %v), want %q", b, err, want)
		}
	}
	say("srun: error: 1\n")
	<-questions
	say("srun: error: 2\n")
	answers <- true
	told("srun: error: 1\n")
	<-questions
	answers <- false
	say("x\n")
	told("x\n")
	m.dropNotices()
	say("srun: error: 3\n") // the filter does not ask again
	m.flushNotices()
	outW.Close()
	if rest, err := io.ReadAll(outR); err != nil || len(rest) > 0 {
		t.Errorf("the rest of the output is %q (error %v), want none", rest, err)
	}
}

func TestCleanFile(t *testing.T) {
	path := t.TempDir() + "/out"
	const said = "1\n[2026-11-20T18:08:10.552] error: *** STEP 147.1 ON n11 CANCELLED AT 2026-11-20T18:08:10 DUE TO JOB REQUEUE ***\n2\nhalf"
	for range 2 {
		if err := os.WriteFile(path, []byte(said), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := cleanFile(path); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != "1\n2\nhalf" {
			t.Errorf("after cleanFile the file has %q, want no cancel notice in it", got)
		}
	}
	if err := cleanFile("/dev/null"); err != nil {
		t.Error(err)
	}
}
