// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func newPool(t testing.TB, dir, space string) *Pool {
	t.Helper()
	p, err := OpenPool(dir, netip.MustParsePrefix(space))
	failOn(t, err)
	return p
}

func takeAddresses(t testing.TB, p *Pool, job string, n int) []netip.Addr {
	t.Helper()
	got, err := p.Take(context.Background(), job, n)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func giveBack(t testing.TB, p *Pool, job string) {
	t.Helper()
	failOn(t, p.Give(context.Background(), job))
}

// checkEmpty checks that jobs that gave their addresses back have left no files.
func checkEmpty(t testing.TB, p *Pool) {
	t.Helper()
	if jobs, err := p.Jobs(); err != nil || len(jobs) > 0 {
		t.Errorf("jobs with addresses = %v, %v; want none", jobs, err)
	}
	for _, d := range []string{"blocks", "jobs", "gone"} {
		names, err := readNames(filepath.Join(p.dir, d))
		failOn(t, err)
		for _, n := range names {
			if inside, err := readNames(filepath.Join(p.dir, d, n)); err != nil || len(inside) > 0 || d != "blocks" {
				t.Errorf("left in the pool: %s/%s with %v, %v", d, n, inside, err)
			}
		}
	}
}

func TestPool(t *testing.T) {
	dir := t.TempDir()
	p := newPool(t, dir, "100.64.0.0/10")
	seen := map[netip.Addr]string{}
	want := map[string][]netip.Addr{}
	for i, n := range []int{1, 2, 3, 5, 64, 1000, 32768, 1, 1, 7} {
		job := fmt.Sprint(800 + i)
		got := takeAddresses(t, p, job, n)
		if len(got) != n {
			t.Fatalf("%d addresses for %d nodes", len(got), n)
		}
		for _, a := range got {
			if other, ok := seen[a]; ok || !p.space.Contains(a) || !p.space.Contains(a.Next()) || a == p.space.Addr() {
				t.Fatalf("job %s got %s, also of %q", job, a, other)
			}
			seen[a] = job
		}
		want[job] = got
	}
	q := newPool(t, dir, "100.64.0.0/10") // another node
	for job, addrs := range want {
		if got := takeAddresses(t, q, job, len(addrs)); !slices.Equal(got, addrs) {
			t.Errorf("Take again: job %s has %s…, had %s…", job, got[0], addrs[0])
		}
	}
	if _, err := q.Take(context.Background(), "800", 2); err == nil || !strings.Contains(err.Error(), "job 800: it has 1, and cannot have 2") {
		t.Errorf("more than it has: %v", err)
	}
	jobs, err := q.Jobs()
	failOn(t, err)
	if len(jobs) != len(want) {
		t.Errorf("jobs with addresses = %v", jobs)
	}
	for job := range want {
		giveBack(t, q, job)
		giveBack(t, p, job)
	}
	checkEmpty(t, p)
}

func TestPoolExhausted(t *testing.T) {
	for _, space := range []string{"10.9.0.0/24", "10.9.0.16/28", "10.9.0.0/26"} {
		t.Run(space, func(t *testing.T) {
			p := newPool(t, t.TempDir(), space)
			var got []netip.Addr
			for i := 0; ; i++ {
				a, err := p.Take(context.Background(), fmt.Sprint(i), 1)
				if errors.Is(err, ErrExhausted) {
					if i < 3 {
						t.Errorf("the range is exhausted after %d jobs", i)
					}
					break
				}
				failOn(t, err)
				got = append(got, a...)
			}
			sortedUnique := slices.Compact(slices.SortedFunc(slices.Values(got), netip.Addr.Compare))
			if len(sortedUnique) != len(got) || sortedUnique[0] == p.space.Addr() || !p.space.Contains(sortedUnique[len(got)-1].Next()) {
				t.Errorf("addresses of all jobs = %v; want each once, without the first and the last of the range", got)
			}
			t.Logf("%s has %d single addresses", space, len(got))
			giveBack(t, p, "1")
			if a := takeAddresses(t, p, "new", 1); a[0] != got[1] {
				t.Errorf("got %s, free was %s", a, got[1])
			}
			for i := range got {
				giveBack(t, p, fmt.Sprint(i))
			}
			giveBack(t, p, "new")
			checkEmpty(t, p)
		})
	}
}

func TestPoolBadInput(t *testing.T) {
	dir := t.TempDir()
	p := newPool(t, dir, "100.64.0.0/10")
	ctx := context.Background()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for name, try := range map[string]struct {
		say string
		do  func() error
	}{
		"path":         {`job "../812": want letters`, func() error { _, err := p.Take(ctx, "../812", 1); return err }},
		"tilde":        {`job "8~1": want letters`, func() error { return p.Give(ctx, "8~1") }},
		"empty":        {`job "": want letters`, func() error { _, err := p.Take(ctx, "", 1); return err }},
		"none":         {"0 addresses: want 1 to 32768", func() error { _, err := p.Take(ctx, "1", 0); return err }},
		"too many":     {"32769 addresses: want 1 to 32768", func() error { _, err := p.Take(ctx, "1", 32769); return err }},
		"cancelled":    {"context canceled", func() error { _, err := p.Take(cancelled, "1", 1); return err }},
		"other range":  {"they are of 100.64.0.0/10, not of 10.0.0.0/16", func() error { _, err := OpenPool(dir, netip.MustParsePrefix("10.0.0.0/16")); return err }},
		"host bits":    {"range 10.0.0.1/16: want an IPv4 prefix", func() error { _, err := OpenPool(dir, netip.MustParsePrefix("10.0.0.1/16")); return err }},
		"too small":    {"range 10.0.0.0/29: want an IPv4 prefix", func() error { _, err := OpenPool(dir, netip.MustParsePrefix("10.0.0.0/29")); return err }},
		"IPv6":         {"range fd00::/64: want an IPv4 prefix", func() error { _, err := OpenPool(dir, netip.MustParsePrefix("fd00::/64")); return err }},
		"folder's end": {"not a directory", func() error { _, err := OpenPool(filepath.Join(dir, "range"), netip.Prefix{}); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			if err := try.do(); err == nil || !strings.Contains(err.Error(), try.say) {
				t.Errorf("error %v, want %q in it", err, try.say)
			}
		})
	}
}

// TestPoolStampede: many nodes ask at once, several for the same job.
func TestPoolStampede(t *testing.T) {
	dir := t.TempDir()
	newPool(t, dir, "10.9.0.0/20")
	const jobs, askers = 40, 4
	got := make([][jobs][]netip.Addr, askers)
	var wg sync.WaitGroup
	for i := range askers {
		p := newPool(t, dir, "10.9.0.0/20")
		for job := range jobs {
			wg.Go(func() {
				a, err := p.Take(context.Background(), fmt.Sprint(job), 1+job%7)
				if err != nil {
					t.Error(err)
				}
				got[i][job] = a
			})
		}
	}
	wg.Wait()
	owner := map[netip.Addr]int{}
	for job := range jobs {
		for i := range askers {
			if !slices.Equal(got[i][job], got[0][job]) {
				t.Errorf("job %d got both %v and %v", job, got[i][job], got[0][job])
			}
		}
		for _, a := range got[0][job] {
			if other, ok := owner[a]; ok {
				t.Errorf("%s is of jobs %d and %d", a, other, job)
			}
			owner[a] = job
		}
	}
	p := newPool(t, dir, "10.9.0.0/20")
	for job := range jobs {
		giveBack(t, p, fmt.Sprint(job))
	}
	checkEmpty(t, p)
}

// killed is the value of the panic by which a step ends a call.
type killed struct{}

// runUntilKilled runs f and tells whether it was killed.
func runUntilKilled(f func()) (died bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			died = true
		}
	}()
	f()
	return false
}

// TestPoolCrash kills Take and Give at each of their steps.
func TestPoolCrash(t *testing.T) {
	for _, what := range []string{"take", "give"} {
		for n := 0; ; n++ {
			dir := t.TempDir()
			// Another job has one of the two single addresses, the one that this job tries first.
			p := newPool(t, dir, "10.9.0.0/28")
			before := takeAddresses(t, p, "812", 1)
			giveBack(t, p, "812")
			for i := 0; takeAddresses(t, p, fmt.Sprint("x", i), 1)[0] != before[0]; i++ {
				giveBack(t, p, fmt.Sprint("x", i))
			}
			if what == "give" {
				takeAddresses(t, p, "812", 1)
			}
			left, died := n, ""
			q := newPool(t, dir, "10.9.0.0/28")
			q.step = func(next string) {
				if left--; left < 0 {
					died = next
					panic(killed{})
				}
			}
			if !runUntilKilled(func() {
				if what == "take" {
					takeAddresses(t, q, "812", 1)
				} else {
					giveBack(t, q, "812")
				}
			}) {
				if n < 5 {
					t.Errorf("%s has only %d steps", what, n)
				}
				t.Logf("%s: killed at each of %d steps", what, n)
				break
			}
			others := map[netip.Addr]bool{}
			for i := range 2 {
				if a, err := p.Take(context.Background(), fmt.Sprint("y", i), 1); err == nil {
					others[a[0]] = true
				}
			}
			if _, err := p.Jobs(); err != nil {
				t.Errorf("%s, killed at %s: Jobs: %v", what, died, err)
			}
			if a, err := p.Take(context.Background(), "812", 1); err == nil && others[a[0]] {
				t.Errorf("%s, killed at %s: address %s is of two jobs", what, died, a[0])
			} else if err != nil && !errors.Is(err, ErrExhausted) {
				t.Errorf("%s, killed at %s: Take: %v; want success or ErrExhausted", what, died, err)
			}
			jobs, err := p.Jobs()
			failOn(t, err)
			for _, job := range jobs {
				giveBack(t, p, job)
			}
			checkEmpty(t, p)
		}
	}
}

// poolArg makes the test binary a process that calls Take and Give without end.
const poolArg = "pool-worker"

func poolWorker(dir, id string) {
	p, err := OpenPool(dir, netip.MustParsePrefix("10.9.0.0/24"))
	for i := 0; err == nil; i = (i + 1) % 5 {
		job := fmt.Sprintf("%s.%d", id, i)
		if _, err = p.Take(context.Background(), job, 1+i); err == nil {
			err = p.Give(context.Background(), job)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestPoolKill kills real processes that call Take and Give.
func TestPoolKill(t *testing.T) {
	dir := t.TempDir()
	p := newPool(t, dir, "10.9.0.0/24")
	keep := takeAddresses(t, p, "keep", 4)
	for round := range 20 {
		var workers []*exec.Cmd
		var said [3]strings.Builder
		for i := range 3 {
			cmd := exec.Command("/proc/self/exe", poolArg, dir, fmt.Sprint("w", i))
			cmd.Stderr = &said[i]
			failOn(t, cmd.Start())
			workers = append(workers, cmd)
		}
		time.Sleep(time.Duration(20+rand.IntN(30)) * time.Millisecond)
		for i, w := range workers {
			w.Process.Kill()
			w.Wait()
			if said[i].Len() > 0 {
				t.Fatalf("round %d: a worker printed %s", round, said[i].String())
			}
		}
	}
	jobs, err := p.Jobs()
	failOn(t, err)
	for _, job := range jobs {
		if job != "keep" {
			giveBack(t, p, job)
		}
	}
	if got := takeAddresses(t, p, "keep", 4); !slices.Equal(got, keep) {
		t.Errorf("the addresses of job keep are %v, were %v", got, keep)
	}
	giveBack(t, p, "keep")
	checkEmpty(t, p)
}
