// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// pair is a job of two hosts: two device servers, with half of the ranks each.
type pair struct {
	w       *soft.World
	dir     string
	log     [2]bytes.Buffer
	keepers [2]*keeper
	moves   int
}

// addresses are the addresses of the hosts, which exchange them when they move.
var addresses = [2]string{"127.0.0.1", "127.0.0.2"}

// pathOf returns the path of a file of host i.
func (p *pair) pathOf(name string, i int) string { return filepath.Join(p.dir, name+strconv.Itoa(i)) }

// startBoth starts the device servers of both hosts.
func (p *pair) startBoth() error {
	for i := range p.keepers {
		order := []string{"0,1", "1,0"}[p.moves%2]
		k, err := startKeeper(p.w, p.pathOf("device", i), order, &p.log[i], "--self", strconv.Itoa(i), "--address", addresses[(i+p.moves)%2])
		if err != nil {
			return err
		}
		p.keepers[i] = k
	}
	return nil
}

// killBoth kills the device servers of both hosts.
func (p *pair) killBoth() error {
	var errs []error
	for i, k := range p.keepers {
		if k != nil {
			errs = append(errs, k.killServer())
		}
		p.keepers[i] = nil
	}
	return errors.Join(errs...)
}

// Exchange implements cut.Member with a connection of its own.
func (k *keeper) Exchange(ctx context.Context, o *cut.Orders) (*cut.Events, error) {
	c, err := k.connectController()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Exchange(ctx, o)
}

// moveBoth finds a cut of both servers, saves and kills them, and has two new servers take their places.
func (p *pair) moveBoth(ctx context.Context) error {
	p.moves++
	found, err := cut.Find(ctx, []cut.Member{p.keepers[0], p.keepers[1]}, cut.Options{Attempt: uint64(p.moves), LeaderTimeout: time.Minute})
	if err != nil {
		return err
	}
	var reports [2]*server.Report
	for i, k := range p.keepers {
		if reports[i], err = k.saveAt(ctx, server.Folder(p.pathOf("state", i)), uint64(p.moves)); err != nil {
			return err
		}
	}
	if err := p.killBoth(); err != nil {
		return err
	}
	_ = found.Open(ctx) // fails: both servers were killed
	if err := p.startBoth(); err != nil {
		return err
	}
	peers := map[int]string{}
	for i, k := range p.keepers {
		if peers[i], err = k.takeOver(ctx, server.Folder(p.pathOf("state", i)), reports[i]); err != nil {
			return err
		}
	}
	var all errgroup.Group
	for _, k := range p.keepers {
		all.Go(func() error { return k.reconnect(ctx, peers) })
	}
	return all.Wait()
}

// saveAt saves at the cut of an attempt.
func (k *keeper) saveAt(ctx context.Context, to server.Folder, attempt uint64) (*server.Report, error) {
	c, err := k.connectController()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Save(ctx, to, server.SaveOptions{Attempt: attempt})
}

// takeOver has the server build the saved state and adopt the processes. The result is the server's address.
func (k *keeper) takeOver(ctx context.Context, from server.Folder, r *server.Report) (string, error) {
	c, err := k.connectController()
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.Restore(ctx, from); err != nil {
		return "", err
	}
	for _, p := range r.Processes {
		if err := c.Adopt(ctx, p.ID, p.PID, nil); err != nil && !isGone(p.PID) {
			return "", err
		}
	}
	return c.Address(ctx)
}

// reconnect connects the server with the other server, and has the job go on.
func (k *keeper) reconnect(ctx context.Context, peers map[int]string) error {
	c, err := k.connectController()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Reconnect(ctx, peers); err != nil {
		return err
	}
	return c.Resume(ctx)
}

// startRanks starts the ranks of a program, as a launcher does, two on each host. The channel gets the first rank's
// output when all have ended.
func (p *pair) startRanks(ctx context.Context, t *testing.T, libs, path string, args ...string) <-chan string {
	t.Helper()
	var all errgroup.Group
	var first bytes.Buffer
	for rank := range 4 {
		c := exec.CommandContext(ctx, path, append(args, "--id-file", p.pathOf("id", 0))...)
		c.Env = append(append(os.Environ(), environmentFor(libs, p.pathOf("device", rank/2))...),
			fmt.Sprint("RANK=", rank), "WORLD_SIZE=4", fmt.Sprint("LOCAL_RANK=", rank%2))
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		var stderr bytes.Buffer
		c.Stderr = &stderr
		if rank == 0 {
			c.Stdout = &first
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() error {
			if err := c.Wait(); err != nil {
				return fmt.Errorf("rank %d: %w: %s", rank, err, &stderr)
			}
			return nil
		})
	}
	ended := make(chan string, 1)
	go func() {
		if err := all.Wait(); err != nil {
			t.Error(err)
		}
		ended <- first.String()
	}()
	return ended
}

// countHeld returns how many collectives the last save has left queued.
func (p *pair) countHeld(t *testing.T) (n int) {
	t.Helper()
	for i := range p.keepers {
		text, err := os.ReadFile(filepath.Join(p.pathOf("state", i), "state.json"))
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte(`"nccl_group"`))
	}
	return n
}

// TestMovedHosts: ranks that train over two hosts, both of which are saved at a cut, killed and replaced at random moments, with their
// addresses exchanged, print the same as in an undisturbed run on a single host. Ranks that have queued all of their
// steps are saved with most of these still queued.
func TestMovedHosts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root finds the rings of processes")
	}
	w := soft.Need(t)
	if err := w.Command("make", "-s", "-C", "tests/workloads", "O="+w.Dir); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, program string
		args          []string
		held          int // so many collectives are left queued by one of the saves, at least
	}{
		{"mlp", "mlp", []string{"--steps", "24"}, 0},
		{"gpt", "gpt", []string{"--steps", "4"}, 0},
		{"grid", "grid", []string{"--steps", "12"}, 0},
		{"all queued", "mlp", []string{"--steps", "400", "--every", "400"}, 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(w.Dir, tc.program)
			want := w.Run(t, soft.Program{Devices: 2, Path: path, Args: append([]string{"--ranks", "4"}, tc.args...), Limit: 2 * time.Minute})
			if want.Exit != 0 {
				t.Fatalf("undisturbed, it ends with %d\n%s\n%s", want.Exit, want.Stdout, want.Stderr)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			p := &pair{w: w, dir: t.TempDir()}
			for i := range 2 {
				if err := os.Mkdir(p.pathOf("state", i), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			libs := filepath.Join(p.dir, "lib")
			makePreloadFolder(t, w, libs)
			if err := p.startBoth(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.killBoth() }()
			ended := p.startRanks(ctx, t, libs, path, tc.args...)
			most := 0
			r := rand.New(rand.NewPCG(7, 1))
			for {
				strike := time.After(time.Duration(r.Int64N(int64(300 * time.Millisecond))))
				if p.moves == strikes/2 {
					strike = nil
				}
				select {
				case got := <-ended:
					if got != want.Stdout {
						t.Errorf("after %d moves it printed\n%s, not\n%s", p.moves, got, want.Stdout)
					}
					t.Logf("%d moves, at most %d collectives queued", p.moves, most)
					if most < tc.held {
						t.Errorf("at most %d collectives were left queued by a save, want %d", most, tc.held)
					}
					if t.Failed() {
						t.Log(&p.log[0], &p.log[1])
					}
					return
				// The moment of the disturbance.
				case <-strike:
				}
				if err := p.moveBoth(ctx); err != nil {
					cancel()
					<-ended
					t.Fatalf("move %d: %v\n%s\n%s", p.moves, err, &p.log[0], &p.log[1])
				}
				most = max(most, p.countHeld(t))
			}
		})
	}
}
