// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// A program may give the file of its socket another name after bind: by rename(2), or by link(2) and the removal of the
// first name, as ssh does for the socket of a shared connection (ControlPath). For the kernel the socket's name stays
// the first one, and CRIU would bind the restored socket there. So a checkpoint notes the name that the file has. The
// kernel knows that name after rename(2); after link(2) the folder of the first name is searched.

const (
	// maxMoved bounds the sockets of a capsule that are noted with another name, in the checkpoint's description.
	maxMoved = 4096
	// maxSearched bounds the entries of folders that are searched for names.
	maxSearched = 1 << 17
	// maxSocketName is the longest name that bind(2) takes of a socket.
	maxSocketName = 107
)

// movedFile is the file of a socket that has another name than the socket.
type movedFile struct {
	socket int    // number in the list of sockets
	path   string // the kernel's
}

// isMoved tells whether the file of a socket, which the kernel calls path, may have another name than the socket.
func isMoved(name, path string, file mounts.File) bool {
	return file.Links > 0 && baseOf(path) != baseOf(name)
}

// baseOf returns the last element of a path.
func baseOf(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// findMoved sets Moved of sockets.
func findMoved(ctx context.Context, init int, sockets []BoundSocket, moved []movedFile) error {
	if len(moved) == 0 || len(moved) > maxMoved {
		return nil
	}
	table, err := mounts.Of(init)
	if err != nil {
		return err
	}
	search := folderSearch{init: init, table: table, left: maxSearched, names: map[string]map[BoundFile]string{}}
	wanted := map[BoundFile]bool{}
	for _, m := range moved {
		wanted[sockets[m.socket].File] = true
	}
	for _, m := range moved {
		s := &sockets[m.socket]
		names, err := search.namesIn(ctx, path.Dir(m.path), wanted)
		if err != nil {
			return err
		}
		if name := names[s.File]; name != "" {
			s.Moved = replaceName(s.Name, m.path, name)
		}
	}
	return nil
}

// replaceName returns the name to which a restored socket is bound: it was bound to name, and its file, which the kernel
// calls at, has the name base now. The result is "" if bind(2) does not take it.
func replaceName(name, at, base string) string {
	dir := name[:len(name)-len(baseOf(name))]
	if now := path.Dir(at); baseOf(at) != baseOf(name)+removedWord && now != path.Dir(name) {
		dir = strings.TrimSuffix(now, "/") + "/" // by rename(2)
	}
	if len(dir)+len(base) > maxSocketName || !utf8.ValidString(dir+base) { // else no string of JSON
		return ""
	}
	return dir + base
}

// folderSearch finds the names of sockets' files in folders of a capsule.
type folderSearch struct {
	init  int
	table *mounts.Table
	left  int // entries that may still be looked at
	names map[string]map[BoundFile]string
}

// namesIn returns the names that wanted files have in a folder, the first in order for a file with several. The result
// is empty if a user serves the folder, and incomplete if folders have too many entries. The error is that of ctx.
func (s *folderSearch) namesIn(ctx context.Context, dir string, wanted map[BoundFile]bool) (map[BoundFile]string, error) {
	if known, searched := s.names[dir]; searched {
		return known, nil
	}
	found := map[BoundFile]string{}
	s.names[dir] = found
	folder, err := s.openFolder(dir)
	if err != nil {
		return found, nil //nolint:nilerr // the socket is restored by its first name
	}
	defer folder.Close()
	for s.left > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		names, err := folder.Readdirnames(min(s.left, 1024))
		if err != nil {
			break
		}
		s.left -= len(names)
		for _, name := range names {
			file, err := socketIn(folder, name)
			if err == nil && wanted[file] && (found[file] == "" || name < found[file]) {
				found[file] = name
			}
		}
	}
	return found, nil
}

// openFolder opens a folder of the capsule, through no link and not if a user serves it.
func (s *folderSearch) openFolder(dir string) (*os.File, error) {
	if s.table.IsServedByUser(dir) {
		return nil, unix.EOPNOTSUPP
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", s.init), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	look, err := unix.Openat2(root, strings.TrimPrefix(dir, "/"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, err
	}
	defer unix.Close(look)
	if file, err := mounts.Fstat(look); err != nil || !s.table.IsServedBySystem(file) {
		return nil, errors.Join(err, unix.EOPNOTSUPP)
	}
	fd, err := unix.Openat(look, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return os.NewFile(uintptr(fd), dir), err
}

// socketIn returns the file of a socket in a folder. What is mounted there is not asked.
func socketIn(folder *os.File, name string) (BoundFile, error) {
	fd, err := unix.Openat2(int(folder.Fd()), name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return BoundFile{}, err
	}
	defer unix.Close(fd)
	file, err := mounts.Fstat(fd)
	if err == nil && file.Kind() != unix.S_IFSOCK {
		err = errOtherKind
	}
	return BoundFile{file.Device, file.Inode}, err
}
