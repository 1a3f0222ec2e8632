// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// siocUnixFile is SIOCUNIXFILE of linux/un.h: it opens the file of a unix socket, as with O_PATH.
const siocUnixFile = unix.SIOCPROTOPRIVATE

// BoundFile identifies the file that a unix socket is bound to, by the values of stat.
type BoundFile struct{ Device, Inode uint64 }

// BoundSocket is a unix socket that is bound to a name in the file system.
type BoundSocket struct {
	Inode   uint32 // of the socket itself
	Program string
	Name    string // as given to bind
	File    BoundFile
	// Moved is the name that a restored socket is to be bound to, where the file has another name than Name by now.
	Moved string
}

// BoundSockets returns the unix sockets with a file that frozen programs of a capsule have. init is the init of the
// capsule. A connection that such a socket accepted has the name too, and is left out: a restored one has no name.
func BoundSockets(ctx context.Context, init int, programs []capsule.Program) ([]BoundSocket, error) {
	bound, err := unixSockets(fmt.Sprintf("/proc/%d/ns/net", init), func(s unixSocket) bool {
		return s.hasFile && (s.datagram || !s.connected)
	})
	if err != nil || len(bound) == 0 {
		return nil, err
	}
	var found []BoundSocket
	var moved []movedFile
	for _, p := range programs {
		for _, pid := range InCgroup(p.Cgroup) {
			err := visitDescriptors(ctx, pid, func(d procfs.Descriptor) bool {
				link, err := d.Link()
				s, isBound := bound[link]
				if err != nil || !isBound {
					return true
				}
				delete(bound, link) // seen: other processes may share the socket
				name := strings.TrimRight(s.name, "\x00")
				if file, at, err := fileOfSocket(link, p.Cgroup, pid, d.Number); err == nil {
					if isMoved(name, at, file) {
						moved = append(moved, movedFile{len(found), at})
					}
					found = append(found, BoundSocket{Inode: s.inode, Program: p.Name, Name: name, File: BoundFile{file.Device, file.Inode}})
				}
				return len(bound) > 0
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return found, findMoved(ctx, init, found, moved)
}

// FilesByName returns the files of sockets by the names to which restored sockets are bound. Two sockets may have the
// same name, if that is relative or if the file of the older was removed: both are left out.
func FilesByName(sockets []BoundSocket) map[string]BoundFile {
	found := map[string]BoundFile{}
	for _, s := range sockets {
		addNamed(found, cmp.Or(s.Moved, s.Name), s.File)
	}
	for name, file := range found {
		if file == (BoundFile{}) {
			delete(found, name)
		}
	}
	return found
}

// addNamed adds a file by its name. If there is one of the same name, both are replaced by the zero BoundFile.
func addNamed(found map[string]BoundFile, name string, file BoundFile) {
	_, twice := found[name]
	switch {
	case twice:
		found[name] = BoundFile{}
	case utf8.ValidString(name): // else no key of JSON
		found[name] = file
	}
}

// fileOfSocket returns the file of a unix socket that a frozen process has open, and the kernel's path of the file. No
// path is followed.
func fileOfSocket(link, cgroup string, pid, fd int) (file mounts.File, path string, err error) {
	socket, err := openSocket(link, cgroup, pid, fd)
	if err != nil {
		return file, "", err
	}
	defer func() { err = errors.Join(err, socket.Close()) }()
	look, err := unix.IoctlRetInt(int(socket.Fd()), siocUnixFile)
	if err != nil {
		return file, "", os.NewSyscallError("SIOCUNIXFILE", err)
	}
	defer unix.Close(look)
	if path, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", look)); err != nil {
		return file, "", err
	}
	file, err = mounts.Fstat(look)
	return file, path, err
}
