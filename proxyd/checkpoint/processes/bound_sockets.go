// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
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

// BoundSockets returns the files of the unix sockets that frozen programs of a capsule have, by the names to which the
// sockets are bound. init is the init of the capsule. A connection that such a socket accepted has the name too, and is left
// out: a restored one has no name. Two sockets may have the same name, if that is relative or if the file of the older was
// removed: both are left out.
func BoundSockets(ctx context.Context, init int, programs []capsule.Program) (map[string]BoundFile, error) {
	bound, err := unixSockets(fmt.Sprintf("/proc/%d/ns/net", init), func(s unixSocket) bool {
		return s.hasFile && (s.datagram || !s.connected)
	})
	if err != nil || len(bound) == 0 {
		return nil, err
	}
	found := map[string]BoundFile{}
	for _, p := range programs {
		for _, pid := range InCgroup(p.Cgroup) {
			err := visitDescriptors(ctx, pid, func(d procfs.Descriptor) bool {
				link, err := d.Link()
				s, isBound := bound[link]
				if err != nil || !isBound {
					return true
				}
				delete(bound, link) // seen: other processes may share the socket
				if file, err := fileOfSocket(link, p.Cgroup, pid, d.Number); err == nil {
					addNamed(found, strings.TrimRight(s.name, "\x00"), file)
				}
				return len(bound) > 0
			})
			if err != nil {
				return nil, err
			}
		}
	}
	for name, file := range found {
		if file == (BoundFile{}) {
			delete(found, name)
		}
	}
	return found, nil
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

// fileOfSocket returns the file of a unix socket that a frozen process has open, as stat identifies it. No path is
// followed.
func fileOfSocket(link, cgroup string, pid, fd int) (number BoundFile, err error) {
	socket, err := openSocket(link, cgroup, pid, fd)
	if err != nil {
		return number, err
	}
	defer func() { err = errors.Join(err, socket.Close()) }()
	look, err := unix.IoctlRetInt(int(socket.Fd()), siocUnixFile)
	if err != nil {
		return number, os.NewSyscallError("SIOCUNIXFILE", err)
	}
	defer unix.Close(look)
	f, err := mounts.Fstat(look)
	return BoundFile{Device: f.Device, Inode: f.Inode}, err
}
