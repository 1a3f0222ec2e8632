//go:build faults

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// volume is a small file system in the place of /shared/singularity on every node.
type volume struct {
	c   *cluster
	dir string // a path of this machine
}

// volumeSize has room for a few checkpoints of the counting program.
const volumeSize = "size=600m,mode=755"

// markFile names the cluster of the shared folder. A daemon does not work with a folder without this file.
const markFile = "cluster.json"

// mountVolume puts the nodes' daemons onto a volume that has only the mark of the cluster's shared folder. The cluster
// must have no jobs.
func (c *cluster) mountVolume(ctx context.Context) (_ *volume, err error) {
	v := &volume{c: c, dir: filepath.Join("/var/lib/minicluster", c.Name+".volume")}
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		return nil, err
	}
	if err := unix.Mount("volume", v.dir, "tmpfs", 0, volumeSize); err != nil {
		return nil, err
	}
	mark, err := os.ReadFile(filepath.Join(c.Shared("singularity"), markFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(v.dir, markFile), mark, 0o644)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Unmount(v.dir, unix.MNT_DETACH))
	}
	for _, n := range nodes {
		if err := c.runWithin(n, func() error { return nil }, v.attachMount); err != nil {
			return nil, errors.Join(err, v.restoreStores(ctx))
		}
		if _, err := c.Run(ctx, "restart", n, "proxyd"); err != nil {
			return nil, errors.Join(err, v.restoreStores(ctx))
		}
	}
	return v, nil
}

// attachMount is called in a node's mount namespace with a copy of the volume's mount.
func (v *volume) attachMount(tree int) error {
	return unix.MoveMount(tree, "", unix.AT_FDCWD, "/shared/singularity", unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// restoreStores removes the volume from the nodes, which then see their shared folder again.
func (v *volume) restoreStores(ctx context.Context) error {
	var errs []error
	for _, n := range nodes {
		err := v.c.runWithin(n, nil, func(int) error { return unix.Unmount("/shared/singularity", unix.MNT_DETACH) })
		if err == nil {
			_, err = v.c.Run(ctx, "restart", n, "proxyd")
		}
		errs = append(errs, err)
	}
	errs = append(errs, unix.Unmount(v.dir, unix.MNT_DETACH), os.Remove(v.dir))
	return errors.Join(errs...)
}

// runWithin runs do in a node's mount namespace. Unless before is nil, do gets a copy of the
// volume's mount, taken outside.
func (c *cluster) runWithin(host string, before func() error, do func(tree int) error) error {
	pid, err := c.FindProcess(host, "slurmd", "-D")
	if err != nil {
		return err
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return err
	}
	defer ns.Close()
	tree := -1
	if before != nil {
		dir := filepath.Join("/var/lib/minicluster", c.Name+".volume")
		if tree, err = unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err != nil {
			return fmt.Errorf("copy of the mount: %w", err)
		}
		defer unix.Close(tree)
	}
	said := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS)
		}
		if err == nil {
			err = do(tree)
		}
		said <- err
	}()
	return <-said
}
