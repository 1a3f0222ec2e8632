// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/checkpoint-restore/go-criu/v7/crit/images/fdinfo"
	rfp "github.com/checkpoint-restore/go-criu/v7/crit/images/remap-file-path"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// Where checkNumbering returns an error, root restores a program with System V objects, if the site allows that. If root
// opens a file at a wrong place, Image.compareOpened finds that; but a file that root makes there stays. So the files
// that CRIU makes again, removed files and places of sockets, are allowed to such a program only where no process can
// change paths meanwhile: in the capsule's private folders, while no other program of the capsule is there, and on a
// path without links: the user may have left links to the user's folders in the private folders.

const (
	remapName  = "remap-fpath.img"
	remapMagic = 0x59133954 // criu/include/magic.h
)

// privateFolders are a capsule's own; on the node only root comes to them.
var privateFolders = []string{"/tmp/", "/var/tmp/", "/dev/shm/"}

// checkRecreatedPaths returns an error unless all files that CRIU makes again are in private folders, and no process
// is there to change these.
func (i *Image) checkRecreatedPaths(init int, src Source, reset map[uint32]bool) error {
	made, err := recreatedPaths(src, reset, i.Program.Moved)
	if err != nil || len(made) == 0 {
		return err
	}
	members, err := listMembers(init)
	if err != nil {
		return err
	}
	root, err := os.Open(fmt.Sprintf("/proc/%d/root", init))
	if err != nil {
		return err
	}
	defer root.Close()
	for _, path := range made {
		if len(members) > 1 || !inPrivateFolder(root, path) {
			return fmt.Errorf("the program has System V objects and %s, a removed file or the place of a socket, which CRIU would make again as root", path)
		}
	}
	return nil
}

// inPrivateFolder tells whether a file that is made at a path comes into a private folder. The path of a socket is the
// one that the program gave to bind(2), which may have links and ".." in it.
func inPrivateFolder(root *os.File, name string) bool {
	in := func(dir string) bool { return strings.HasPrefix(name, dir) }
	if path.Clean(name) != name || !slices.ContainsFunc(privateFolders, in) {
		return false
	}
	// CRIU makes the folders that are missing.
	for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
		how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
		fd, err := unix.Openat2(int(root.Fd()), strings.TrimPrefix(dir, "/"), how)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return false
		}
		unix.Close(fd)
		return true
	}
	return false
}

// recreatedPaths returns the paths at which CRIU makes files again: files that were removed, and places of sockets.
// Sockets that are reset get no place, and sockets in moved (Program.Moved) get another.
func recreatedPaths(src Source, reset map[uint32]bool, moved map[uint32]string) ([]string, error) {
	removedFiles := map[uint32]bool{}
	r, err := src.Open(remapName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		defer r.Close()
		err := eachEntry(bufio.NewReader(r), remapMagic, func(b []byte) error {
			var m rfp.RemapFilePathEntry
			if err := proto.Unmarshal(b, &m); err != nil {
				return fmt.Errorf("%w: %w", errImage, err)
			}
			removedFiles[m.GetOrigId()] = true
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", remapName, err)
		}
	}
	files, err := src.Open(filesName)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	var made []string
	err = eachEntry(bufio.NewReader(files), filesMagic, func(b []byte) error {
		var m fdinfo.FileEntry
		if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%w: %w", errImage, err)
		}
		if f := m.GetReg(); f != nil && removedFiles[f.GetId()] {
			made = append(made, f.GetName())
		}
		s := m.GetUsk()
		if !hasPlace(s) || losesName(s) || reset[s.GetIno()] {
			return nil
		}
		moveSocket(s, moved)
		name := string(bytes.TrimRight(s.GetName(), "\x00"))
		if !strings.HasPrefix(name, "/") {
			name = strings.TrimSuffix(s.GetNameDir(), "/") + "/" + name
		}
		made = append(made, name)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", filesName, err)
	}
	return made, nil
}
