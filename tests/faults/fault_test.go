//go:build faults

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// scene is where a fault strikes.
type scene struct {
	c            *cluster
	j            *job
	rng          *rand.Rand
	leader, peer string
	store        string // the folder, as this machine sees it
	undo         []func() error
}

// fault is one kind of misfortune.
type fault struct {
	name string
	hit  func(context.Context, *scene) error
	// lasts is how long it does before it is mended; 0: until the job has ended,
	// or is held because of it.
	lasts time.Duration
	mend  func(*scene, context.Context) error
	small bool // needs a store that can be filled
}

// beyond is longer than any phase but the dump waits for a node.
const beyond = 16 * time.Second

var faults = []fault{
	{"kill proxyd of the leader", daemon(leader, "proxyd", "daemon"), 2 * time.Second, heal(leader), false},
	{"kill proxyd of a peer", daemon(peer, "proxyd", "daemon"), 2 * time.Second, heal(peer), false},
	{"kill slurmd of the leader", daemon(leader, "slurmd", "-D"), 2 * time.Second, heal(leader), false},
	{"slurmctld is restarted", ended(ctl, "slurmctld", "-D", "-i"), 3 * time.Second, heal(ctl), false},
	{"kill slurmctld", daemon(ctl, "slurmctld", "-D", "-i"), 3 * time.Second, heal(ctl), false},
	{"leader's node dies", power(leader), 0, reboot(leader), false},
	{"peer's node dies", power(peer), 0, reboot(peer), false},
	{"leader's network is cut", cut(leader), beyond, heal(leader), false},
	{"peer's network is cut", cut(peer), beyond, heal(peer), false},
	{"the store is full", fill, 6 * time.Second, (*scene).restoreAll, true},
	{"damaged chunks", damageChunks, 0, (*scene).restoreAll, false},
	{"damaged manifest", damageManifest, 0, (*scene).restoreAll, false},
}

func leader(s *scene) string { return s.leader }
func peer(s *scene) string   { return s.peer }
func ctl(*scene) string      { return "ctl" }

func daemon(where func(*scene) string, command ...string) func(context.Context, *scene) error {
	return func(_ context.Context, s *scene) error { return s.c.kill(where(s), command...) }
}

// ended ends a daemon in order, as systemctl stop does: slurmctld writes down what it knows.
func ended(where func(*scene) string, command ...string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		pid, err := s.c.process(where(s), command...)
		if err != nil {
			return err
		}
		if err := unix.Kill(pid, unix.SIGTERM); err != nil {
			return err
		}
		return eventually(ctx, 30*time.Second, func() (bool, string) {
			return unix.Kill(pid, 0) != nil, command[0] + " does not end"
		})
	}
}

func heal(where func(*scene) string) func(*scene, context.Context) error {
	return func(s *scene, ctx context.Context) error {
		_, err := s.c.Run(ctx, "heal", where(s))
		return err
	}
}

func power(where func(*scene) string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		if _, err := s.c.Run(ctx, "fail", where(s)); err != nil {
			return err
		}
		// Slurm would find out by itself, after half a minute.
		return s.c.Scontrol(ctx, "update", "NodeName="+where(s), "State=DOWN", "Reason=power")
	}
}

func reboot(where func(*scene) string) func(*scene, context.Context) error {
	return func(s *scene, ctx context.Context) error {
		if err := heal(where)(s, ctx); err != nil {
			return err
		}
		// Refused if it is in service already: it has registered as a node that was reset.
		_ = s.c.Scontrol(ctx, "update", "NodeName="+where(s), "State=RESUME")
		return nil
	}
}

func cut(where func(*scene) string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		_, err := s.c.Run(ctx, "cut", where(s))
		return err
	}
}

// restoreAll undoes what was done to the store.
func (s *scene) restoreAll(context.Context) error {
	var err error
	for _, f := range slices.Backward(s.undo) {
		err = errors.Join(err, f())
	}
	s.undo = nil
	return err
}

// fill leaves no byte to be had where the checkpoints are.
func fill(_ context.Context, s *scene) error {
	f, err := os.Create(filepath.Join(s.store, "ballast"))
	if err != nil {
		return err
	}
	defer f.Close()
	s.undo = append(s.undo, func() error { return os.Remove(f.Name()) })
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return err
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize); err != nil && !errors.Is(err, unix.ENOSPC) {
		return err
	}
	if _, err := f.Seek(0, 2); err != nil {
		return err
	}
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return nil //nolint:nilerr // now it is full
		}
	}
}

// damageChunks changes a byte here and there in every file that has chunks, or part of them.
func damageChunks(_ context.Context, s *scene) error {
	seen := map[uint64]bool{}
	err := filepath.WalkDir(filepath.Join(s.store, "store/chunks"), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || seen[st.Ino] {
			return nil //nolint:nilerr // swept
		}
		seen[st.Ino] = true
		return s.damage(path, st.Size)
	})
	if err == nil && len(seen) == 0 {
		err = errors.New("no chunks to damage")
	}
	return err
}

// damageManifest changes a byte of the job's newest.
func damageManifest(_ context.Context, s *scene) error {
	all, err := filepath.Glob(filepath.Join(s.store, "store/manifests", s.c.Name, s.j.id, "*"))
	if err != nil || len(all) == 0 {
		return fmt.Errorf("manifests: %v, %w", all, err)
	}
	newest := slices.MaxFunc(all, func(a, b string) int {
		if n := len(a) - len(b); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	st, err := os.Stat(newest)
	if err != nil {
		return err
	}
	return s.damage(newest, st.Size())
}

// damage inverts bytes of a file, and remembers where.
func (s *scene) damage(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var at []int64
	for n := size/2 - s.rng.Int64N(size/4+1); n < size; n += 16 << 10 {
		at = append(at, n)
	}
	invert := func() error {
		for _, n := range at {
			var b [1]byte
			if _, err := f.ReadAt(b[:], n); err != nil {
				return err
			}
			b[0] ^= 0xff
			if _, err := f.WriteAt(b[:], n); err != nil {
				return err
			}
		}
		return nil
	}
	s.undo = append(s.undo, func() error { return errors.Join(invert(), f.Close()) })
	return invert()
}
