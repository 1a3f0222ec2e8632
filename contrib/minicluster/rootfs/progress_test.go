// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// testdata/mmdebstrap.log is a recording, shortened: most packages are left out
// and the counts of newly installed packages changed to fit.
func TestProgressOfRecordedBuild(t *testing.T) {
	log, err := os.ReadFile("testdata/mmdebstrap.log")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	var kept bytes.Buffer
	report := newReporter(func(p Progress) { fmt.Fprintln(&got, p) }, time.Hour)
	followBuilder(bytes.NewReader(log), &kept, report)
	report.stopReporting()
	if !bytes.Equal(kept.Bytes(), log) {
		t.Errorf("the log that is kept has %d bytes and is not the builder's output of %d bytes", kept.Len(), len(log))
	}
	checkGolden(t, "testdata/mmdebstrap.progress", got.String())
}

func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (-update writes it anew):\n%s", file, got)
	}
}

func TestReason(t *testing.T) {
	for _, c := range []struct {
		name, said, want string
		noSpace          bool
	}{
		{"network down", `Err:1 http://deb.example.org/debian forky InRelease
  Could not resolve 'deb.example.org'
Reading package lists...
E: Failed to fetch http://deb.example.org/debian/dists/forky/InRelease  Could not resolve 'deb.example.org'
E: Some index files failed to download. They have been ignored, or old ones used instead.
E: mmdebstrap failed to run
`, "Failed to fetch http://deb.example.org/debian/dists/forky/InRelease Could not resolve 'deb.example.org'", false},
		{"dpkg", `dpkg: error processing package munge (--configure):
 installed munge package post-installation script subprocess returned error exit status 1
E: Sub-process env returned an error code (1)
`, "dpkg: error processing package munge (--configure):", false},
		{"disk full", "dpkg: error processing archive x.deb (--unpack):\n cannot copy: No space left on device\n",
			"dpkg: error processing archive x.deb (--unpack):", true},
		{"apt knows beforehand", "E: You don't have enough free space in /var/cache/apt/archives/.\n",
			"You don't have enough free space in /var/cache/apt/archives/.", true},
		{"died", "Unpacking munge (1) ...\n\n", `signal: killed after "Unpacking munge (1) ..."`, false},
		{"silent", "", "signal: killed", false},
		{"no newline at the end", "E: short", "short", false},
		{"endless line", strings.Repeat("x", 200<<10) + "\nE: end\n", "end", false},
	} {
		report := newReporter(nil, time.Hour)
		tr := followBuilder(strings.NewReader(c.said), io.Discard, report)
		report.stopReporting()
		if got := tr.failureReason(fmt.Errorf("signal: killed")); got != c.want || tr.noSpace != c.noSpace {
			t.Errorf("%s: %q, disk full %t; want %q, %t", c.name, got, tr.noSpace, c.want, c.noSpace)
		}
	}
}

func TestFraction(t *testing.T) {
	for _, c := range []struct {
		p     Progress
		want  float64
		known bool
		text  string
	}{
		{Progress{Stage: "finishing"}, 0, false, "finishing"},
		{Progress{Stage: "unpacking", Done: 1, Total: 4, Unit: "packages"}, 0.25, true, "unpacking 1/4 packages"},
		{Progress{Stage: "unpacking", Done: 5, Total: 4, Unit: "packages"}, 1, true, "unpacking 5/4 packages"},
	} {
		got, known := c.p.Fraction()
		if got != c.want || known != c.known || c.p.String() != c.text {
			t.Errorf("%+v: fraction %v (known: %t), text %q; want %v (%t), %q", c.p, got, known, c.p, c.want, c.known, c.text)
		}
	}
}

// While a stage lasts, the caller gets the same Progress again, with a later time.
func TestReporterRepeats(t *testing.T) {
	heard := make(chan Progress, 1000)
	r := newReporter(func(p Progress) { heard <- p }, time.Millisecond)
	r.setState(Progress{Stage: "unpacking"})
	var first, last Progress
	for range 5 {
		if p := <-heard; p.Stage == "unpacking" {
			if first.Stage == "" {
				first = p
			}
			last = p
		}
	}
	r.stopReporting()
	if last.Elapsed <= first.Elapsed {
		t.Errorf("progress %+v, then %+v: want more time elapsed", first, last)
	}
	n := len(heard)
	time.Sleep(20 * time.Millisecond)
	if len(heard) != n {
		t.Errorf("%d reports of progress after stopReporting, want none", len(heard)-n)
	}
}

func FuzzParser(f *testing.F) {
	log, err := os.ReadFile("testdata/mmdebstrap.log")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(log))
	f.Add("0 upgraded, 99999999999999999999 newly installed\nGet:1\n")
	f.Fuzz(func(t *testing.T, said string) {
		var p parser
		for line := range strings.Lines(said) {
			got, _ := p.parseLine(line)
			if got.Done < 0 || got.Total < 0 || got.Total > 0 && got.Done > got.Total {
				t.Fatalf("progress %+v after the line %q: want a part between nothing and all", got, line)
			}
		}
	})
}
