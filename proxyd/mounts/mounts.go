// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package mounts reads the mounts of a mount namespace, and the data that the kernel has of a file without asking the
// server of its file system.
//
// A user may have a server of a file system, by FUSE. The server may answer all users, and never root: a stat of a file
// of such a server keeps a thread waiting forever, and SIGKILL does not end that thread. A root process that looks at
// files that users have open therefore uses Stat.
package mounts

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is a file system that is mounted.
type Mount struct {
	Number string // as in /proc/PID/fdinfo
	Device uint64 // of its files, except on btrfs and overlays
	Root   string // the part of the file system that is mounted, as a path within it
	Point  string // seen from the root of the process that was read
	Kind   string // mqueue, nfs4, fuse.sshfs

	ReadOnly bool // the mount; the file system may be writable
	served   bool // by a process of an ordinary user
}

// Table has the mounts that a process sees.
type Table struct {
	byNumber map[string]Mount
	byDevice map[uint64]Mount
}

// maxTable bounds the bytes that are read of a mountinfo: some 50,000 mounts. A capsule has some hundred.
const maxTable = 8 << 20

// Of reads the mounts that a process sees. Mounts beyond maxTable are unknown.
func Of(pid int) (*Table, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseTable(io.LimitReader(f, maxTable))
}

func parseTable(r io.Reader) (*Table, error) {
	t := &Table{byNumber: map[string]Mount{}, byDevice: map[uint64]Mount{}}
	all, err := Parse(r)
	for _, m := range all {
		t.byNumber[m.Number] = m
		if known, twice := t.byDevice[m.Device]; !twice || !known.served {
			t.byDevice[m.Device] = m
		}
	}
	return t, err
}

// ListOf reads the mounts that a process sees, in the kernel's order. More than maxTable is an error.
func ListOf(pid int) ([]Mount, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := io.LimitedReader{R: f, N: maxTable}
	all, err := Parse(&text)
	if err == nil && text.N == 0 {
		err = fmt.Errorf("%s: more than %d bytes", f.Name(), maxTable)
	}
	return all, err
}

// Parse reads the text of a mountinfo.
func Parse(r io.Reader) (all []Mount, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20) // an overlay has all its folders in a line
	for s.Scan() {
		if m, ok := parseMount(s.Text()); ok {
			all = append(all, m)
		}
	}
	return all, s.Err()
}

// parseMount reads a line: number, parent, device, root, point, options, fields that vary, "-", kind, source, options
// of the file system.
func parseMount(line string) (m Mount, ok bool) {
	before, after, ok := strings.Cut(line, " - ")
	// The kernel escapes spaces in names, and no other character that Unicode takes for one. A user's source may be empty.
	left, right := strings.Split(before, " "), strings.SplitN(after, " ", 3)
	if !ok || len(left) < 6 || len(right) < 3 {
		return m, false
	}
	major, minor, _ := strings.Cut(left[2], ":")
	a, errA := strconv.ParseUint(major, 10, 32)
	b, errB := strconv.ParseUint(minor, 10, 32)
	if errA != nil || errB != nil {
		return m, false
	}
	m = Mount{
		Number: left[0], Device: unix.Mkdev(uint32(a), uint32(b)), Root: unescape.Replace(left[3]), Point: unescape.Replace(left[4]), Kind: right[0],
		ReadOnly: left[5] == "ro" || strings.HasPrefix(left[5], "ro,"),
	}
	if m.Kind == "fuse" || m.Kind == "fuseblk" || strings.HasPrefix(m.Kind, "fuse.") {
		// The kernel shows the user that has mounted the file system. Root is responsible for servers that root mounts.
		m.served = !strings.Contains(","+right[2]+",", ",user_id=0,")
	}
	return m, true
}

// unescape undoes the escapes that the kernel uses in the names of mount points.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// ByNumber returns a mount by its number.
func (t *Table) ByNumber(number string) (m Mount, ok bool) {
	m, ok = t.byNumber[number]
	return m, ok
}

// ByDevice returns a mount of the file system with a device. Where an ordinary user has given a mount the same device, the
// result is the other mount.
func (t *Table) ByDevice(device uint64) (m Mount, ok bool) {
	m, ok = t.byDevice[device]
	return m, ok
}

// Points returns where file systems of a kind are mounted, in no order.
func (t *Table) Points(kind string) (all []string) {
	for _, m := range t.byNumber {
		if m.Kind == kind {
			all = append(all, m.Point)
		}
	}
	return all
}

// IsServedBySystem tells whether a file is on a mount that the kernel or root serves. A file system that an ordinary user
// serves may let a question about a file wait for ever. For a file on none of these mounts the result is false: a file
// system that was unmounted while it is in use may be of any kind.
func (t *Table) IsServedBySystem(f File) bool {
	m, ok := t.byNumber[f.Mount]
	if f.Mount == "" {
		m, ok = t.byDevice[f.Device]
	}
	return ok && !m.served
}

// IsServedByUser tells whether a path, without links, leads through a file system that an ordinary user serves.
func (t *Table) IsServedByUser(path string) bool {
	for _, m := range t.byNumber {
		if m.served && (path == m.Point || strings.HasPrefix(path, strings.TrimSuffix(m.Point, "/")+"/")) {
			return true
		}
	}
	return false
}

// File has the kernel's data of a file.
type File struct {
	Device, Inode uint64
	Mode          uint32 // type and permissions
	UID, GID      uint32
	Rdev          uint64 // of a device
	Links         uint32
	Size          uint64
	Mount         string // its number; "" on Linux before 5.8
}

// Kind is the type of the file, S_IFREG for instance.
func (f File) Kind() uint32 { return f.Mode & unix.S_IFMT }

// Stat returns the kernel's data of the file that a path leads to, without asking the server of the file system. For a
// local file the data are complete. The path must be a link of /proc to a file of a process: another path may lead
// through a user's server.
func Stat(path string) (File, error) { return statAt(unix.AT_FDCWD, path, 0) }

// Fstat is Stat of a descriptor's file.
func Fstat(fd int) (File, error) { return statAt(fd, "", unix.AT_EMPTY_PATH) }

func statAt(fd int, path string, flags int) (File, error) {
	var x unix.Statx_t
	if err := unix.Statx(fd, path, flags|unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &x); err != nil {
		return File{}, err
	}
	f := File{
		Device: unix.Mkdev(x.Dev_major, x.Dev_minor), Inode: x.Ino, Mode: uint32(x.Mode), UID: x.Uid, GID: x.Gid,
		Rdev: unix.Mkdev(x.Rdev_major, x.Rdev_minor), Links: x.Nlink, Size: x.Size,
	}
	if x.Mask&unix.STATX_MNT_ID != 0 {
		f.Mount = strconv.FormatUint(x.Mnt_id, 10)
	}
	return f, nil
}
