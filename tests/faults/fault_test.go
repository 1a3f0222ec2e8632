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

// scene has the cluster, the nodes and the job that a fault strikes.
type scene struct {
	c            *cluster
	j            *job
	rng          *rand.Rand
	leader, peer string
	store        string // the folder, as a path of this machine
	undo         []func() error
}

// fault is a kind of failure that a trial causes.
type fault struct {
	name string
	hit  func(context.Context, *scene) error
	// lasts is how long the fault lasts before the repair; 0: until the job has ended,
	// or is held because of the fault.
	lasts   time.Duration
	mend    func(*scene, context.Context) error
	small   bool // needs a store that can be filled
	stored  bool // harms data in the store, which only a restore reads
	devices bool // needs a device server, which only jobs with GPUs have
}

// isTriedAt says whether the fault is tried at a moment.
func (f fault) isTriedAt(m stageMoment) bool { return m.stage.hasGPUs() || !f.devices }

// beyond is longer than any phase but the dump waits for a node.
const beyond = 16 * time.Second

var faults = []fault{
	{name: "kill proxyd of the leader", hit: killDaemonOf(leaderNode, "proxyd", "daemon"), lasts: 2 * time.Second, mend: healNode(leaderNode)},
	{name: "kill proxyd of a peer", hit: killDaemonOf(peerNode, "proxyd", "daemon"), lasts: 2 * time.Second, mend: healNode(peerNode)},
	{name: "kill slurmd of the leader", hit: killDaemonOf(leaderNode, "slurmd", "-D"), lasts: 2 * time.Second, mend: healNode(leaderNode)},
	{name: "slurmctld is restarted", hit: stopDaemonOf(controllerNode, "slurmctld", "-D", "-i"), lasts: 3 * time.Second, mend: healNode(controllerNode)},
	{name: "kill slurmctld", hit: killDaemonOf(controllerNode, "slurmctld", "-D", "-i"), lasts: 3 * time.Second, mend: healNode(controllerNode)},
	{name: "leader's node dies", hit: powerOff(leaderNode), mend: rebootNode(leaderNode)},
	{name: "peer's node dies", hit: powerOff(peerNode), mend: rebootNode(peerNode)},
	{name: "leader's network is cut", hit: cutNetwork(leaderNode), lasts: beyond, mend: healNode(leaderNode)},
	{name: "peer's network is cut", hit: cutNetwork(peerNode), lasts: beyond, mend: healNode(peerNode)},
	{name: "the store is full", hit: fillDisk, lasts: 6 * time.Second, mend: (*scene).restoreAll, small: true},
	{name: "damaged chunks", hit: damageChunks, mend: (*scene).restoreAll, stored: true},
	{name: "damaged manifest", hit: damageManifest, mend: (*scene).restoreAll, stored: true},
	{name: "leader's shared folder is unmounted", hit: unmountStore(leaderNode), lasts: beyond, mend: (*scene).restoreAll},
	{name: "peer's shared folder is unmounted", hit: unmountStore(peerNode), lasts: beyond, mend: (*scene).restoreAll},
	{name: "another cluster's folder is mounted", hit: replaceFolder, lasts: beyond, mend: (*scene).restoreAll},
	{name: "the store is deleted", hit: deleteStore, mend: (*scene).restoreAll, stored: true},
	{name: "kill the leader's device server", hit: killDevices(leaderNode), mend: (*scene).restoreAll, devices: true},
	{name: "kill a peer's device server", hit: killDevices(peerNode), mend: (*scene).restoreAll, devices: true},
}

func leaderNode(s *scene) string   { return s.leader }
func peerNode(s *scene) string     { return s.peer }
func controllerNode(*scene) string { return "ctl" }

func killDaemonOf(where func(*scene) string, command ...string) func(context.Context, *scene) error {
	return func(_ context.Context, s *scene) error { return s.c.killDaemon(where(s), command...) }
}

// stopDaemonOf ends a daemon in order, as systemctl stop does: slurmctld writes down its state.
func stopDaemonOf(where func(*scene) string, command ...string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		pid, err := s.c.FindProcess(where(s), command...)
		if err != nil {
			return err
		}
		if err := unix.Kill(pid, unix.SIGTERM); err != nil {
			return err
		}
		return waitFor(ctx, 30*time.Second, func() (bool, string) {
			return unix.Kill(pid, 0) != nil, command[0] + " does not end"
		})
	}
}

func healNode(where func(*scene) string) func(*scene, context.Context) error {
	return func(s *scene, ctx context.Context) error {
		_, err := s.c.Run(ctx, "heal", where(s))
		return err
	}
}

func powerOff(where func(*scene) string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		if _, err := s.c.Run(ctx, "fail", where(s)); err != nil {
			return err
		}
		// Slurm would find out by itself, after half a minute.
		return s.c.Scontrol(ctx, "update", "NodeName="+where(s), "State=DOWN", "Reason=power")
	}
}

func rebootNode(where func(*scene) string) func(*scene, context.Context) error {
	return func(s *scene, ctx context.Context) error {
		if err := healNode(where)(s, ctx); err != nil {
			return err
		}
		// Slurm refuses a node in service: the node has registered already, as after a reset.
		_ = s.c.Scontrol(ctx, "update", "NodeName="+where(s), "State=RESUME")
		return nil
	}
}

func cutNetwork(where func(*scene) string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		_, err := s.c.Run(ctx, "cut", where(s))
		return err
	}
}

// restoreAll undoes the changes of the store.
func (s *scene) restoreAll(context.Context) error {
	var err error
	for _, f := range slices.Backward(s.undo) {
		err = errors.Join(err, f())
	}
	s.undo = nil
	return err
}

// fillDisk fills the file system of the checkpoints to the last byte.
func fillDisk(_ context.Context, s *scene) error {
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
			return nil //nolint:nilerr // now the folder is full
		}
	}
}

// coverStore mounts an empty file system over a node's shared folder: a node without its mount looks like that.
func (s *scene) coverStore(ctx context.Context, node string) error {
	if _, err := s.c.Exec(ctx, node, "root", "mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", sharedFolder); err != nil {
		return err
	}
	s.undo = append(s.undo, func() error {
		// A node that was off since then has the folder back already.
		_, err := s.c.Exec(context.WithoutCancel(ctx), node, "root", "umount", "-l", sharedFolder)
		return err
	})
	return nil
}

// sharedFolder is the shared folder's path on the nodes.
const sharedFolder = "/shared/singularity"

func unmountStore(where func(*scene) string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error { return s.coverStore(ctx, where(s)) }
}

// replaceFolder has every node see the shared folder of another cluster, which is empty.
func replaceFolder(ctx context.Context, s *scene) error {
	for _, n := range nodes {
		if err := s.coverStore(ctx, n); err != nil {
			return err
		}
		// proxyd init refuses a node that worked with another folder.
		mark := `{"version":1,"id":"00112233445566778899aabbccddeeff","cluster":"another","made":"2026-01-01T00:00:00Z"}`
		if _, err := s.c.Exec(ctx, n, "root", "sh", "-c", "echo '"+mark+"' > "+filepath.Join(sharedFolder, markFile)); err != nil {
			return err
		}
	}
	return nil
}

// killDevices kills the process that holds the software GPUs of the job on a node.
func killDevices(where func(*scene) string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		_, err := s.c.Exec(ctx, where(s), "root", "sh", "-c",
			`kill -9 $(sed -n 's/.*"pid":\([0-9]*\).*/\1/p' /var/lib/singularity-slurm/devices/`+s.j.id+`.*/server.json)`)
		return err
	}
}

// deleteStore moves all chunks and manifests away. Its undo function moves them back beside the files that were made
// since.
func deleteStore(_ context.Context, s *scene) error {
	here, away := filepath.Join(s.store, "store"), filepath.Join(s.store, "store.away")
	s.undo = append(s.undo, func() error { return errors.Join(moveFiles(away, here), os.RemoveAll(away)) })
	return errors.Join(moveFiles(filepath.Join(here, "chunks"), filepath.Join(away, "chunks")),
		moveFiles(filepath.Join(here, "manifests"), filepath.Join(away, "manifests")))
}

// moveFiles moves the files below a folder to the same places below another folder, but for files that are there already.
func moveFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // swept
		}
		if err != nil || d.IsDir() {
			return err
		}
		place := filepath.Join(to, strings.TrimPrefix(path, from))
		if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
			return err
		}
		if err := os.Link(path, place); err != nil {
			if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		return os.Remove(path)
	})
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
		return s.damageFile(path, st.Size)
	})
	if err == nil && len(seen) == 0 {
		err = errors.New("no chunks to damage")
	}
	return err
}

// damageManifest changes a byte of the job's newest manifest.
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
	return s.damageFile(newest, st.Size())
}

// damageFile inverts bytes of a file, and remembers where.
func (s *scene) damageFile(path string, size int64) error {
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
