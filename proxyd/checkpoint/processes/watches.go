// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// CRIU opens a watched file (inotify) by the file's handle. Most overlay file systems open no handles (they would with
// the option nfs_export), and a dump fails then (package criu, watches.go).

// overlays tells which overlay file systems of a capsule open files by their handles. It is made once for each look.
type overlays struct {
	init   int // of the capsule
	table  *mounts.Table
	opened map[uint64]bool // whether a handle could be opened, by device
}

// maxWatchText bounds the bytes that are read of a descriptor's watches: a user may have any number of them.
const maxWatchText = 1 << 20

// isObstacle tells whether a descriptor of a process, of which the link is given, watches a file of an overlay that opens
// no handles.
func (o overlays) isObstacle(d procfs.Descriptor, link string) bool {
	if link != "anon_inode:inotify" {
		return false
	}
	f, err := os.Open(d.InfoPath())
	if err != nil {
		return false // closed meanwhile
	}
	defer f.Close()
	for s := bufio.NewScanner(io.LimitReader(f, maxWatchText)); s.Scan(); {
		if w, ok := parseWatch(s.Text()); ok && o.isHidden(w) {
			return true
		}
	}
	return false
}

// watch is a watched file as the kernel shows it.
type watch struct {
	device uint64
	handle *unix.FileHandle // nil where the file system gives none
}

// parseWatch reads a line of a descriptor's fdinfo, as
// inotify wd:1 ino:13 sdev:4e mask:2 ignored_mask:0 fhandle-bytes:24 fhandle-type:f8 f_handle:00fb2104…
// Numbers are hexadecimal.
func parseWatch(line string) (w watch, ok bool) {
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "inotify" {
		return w, false
	}
	fields := map[string]string{}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, ":")
		fields[name] = value
	}
	const minorBits = 20
	device, err := strconv.ParseUint(fields["sdev"], 16, 32)
	if err != nil {
		return w, false
	}
	w.device = unix.Mkdev(uint32(device>>minorBits), uint32(device&(1<<minorBits-1)))
	kind, err := strconv.ParseUint(fields["fhandle-type"], 16, 31)
	bytes, bad := hex.DecodeString(fields["f_handle"])
	if err == nil && bad == nil {
		handle := unix.NewFileHandle(int32(kind), bytes)
		w.handle = &handle
	}
	return w, true
}

// isHidden tells whether a watched file is on an overlay that opens no handles.
func (o overlays) isHidden(w watch) bool {
	m, ok := o.table.ByDevice(w.device)
	if !ok || m.Kind != "overlay" {
		return false
	}
	opens, known := o.opened[w.device]
	if !known {
		opens = o.opensHandle(m, w.handle)
		o.opened[w.device] = opens
	}
	return !opens
}

// opensHandle tells whether a file can be opened by its handle on a mount of the capsule. If that cannot be tried, the
// result is true: CRIU finds the obstacle.
func (o overlays) opensHandle(m mounts.Mount, handle *unix.FileHandle) bool {
	if handle == nil {
		return false
	}
	if o.table.IsServedByUser(m.Point) {
		return true
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", o.init), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return true // the capsule has ended
	}
	defer unix.Close(root)
	mount, err := unix.Openat2(root, m.Point, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return true
	}
	defer unix.Close(mount)
	fd, err := unix.OpenByHandleAt(mount, *handle, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}
