// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/checkpoint-restore/go-criu/v7/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/regfile"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// A user may have a file of the user's open in a way that its permissions now forbid: git writes to files that it has
// made with mode 0444, and writes through a mapping need no permission once the mapping exists. The owner could change
// the permissions, so this package opens such a file, and gives criu the descriptor under a name that replaces the path
// in files.img. The path is walked with the user's rights and without following any link, and only a file that belongs
// to the user is opened.

// handedFiles are open files for criu, in the order of their descriptors.
type handedFiles struct {
	files []*os.File
	names map[uint32]string // criu's name, by the number in files.img
}

func (h *handedFiles) closeFiles() { localsock.CloseAll(h.files) }

// criuOptions are options for criu; first is the number of the first descriptor of these files.
func (h *handedFiles) criuOptions(first int) []string {
	var args []string
	for i, f := range h.files {
		args = append(args, "--inherit-fd", fmt.Sprintf("fd[%d]:%s", first+i, f.Name()))
	}
	return args
}

// handFiles opens the user's files that criu, with the user's rights, cannot open. nameOf returns
// the name of a file that has another name than in the image.
func (i *Image) handFiles(init int, as *rights, src Source, nameOf func(*regfile.RegFileEntry) string) (*handedFiles, error) {
	h := &handedFiles{names: map[uint32]string{}}
	wanted, err := i.forbiddenFiles(src)
	if err != nil || len(wanted) == 0 {
		return h, err
	}
	root, err := os.Open(fmt.Sprintf("/proc/%d/root", init))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	table, err := mounts.Of(init)
	if err != nil {
		return nil, err
	}
	// A user's server may not answer, and this is the daemon. criu will say that it cannot open the file.
	wanted = slices.DeleteFunc(wanted, func(f *regfile.RegFileEntry) bool {
		return table.IsServedByUser(cmp.Or(nameOf(f), f.GetName()))
	})
	paths := make([]int, len(wanted))
	if err := as.onThread(func() {
		for i, f := range wanted {
			how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
			if paths[i], err = unix.Openat2(int(root.Fd()), strings.TrimPrefix(cmp.Or(nameOf(f), f.GetName()), "/"), how); err != nil {
				paths[i] = -1 // criu will report the reason
			}
		}
	}); err != nil {
		return nil, err
	}
	for i, f := range wanted {
		if paths[i] < 0 {
			continue
		}
		if err := h.openFile(paths[i], f, as); err != nil {
			h.closeFiles()
			return nil, fmt.Errorf("%s: %w", f.GetName(), err)
		}
		unix.Close(paths[i])
	}
	return h, nil
}

// openFile opens a file by its O_PATH descriptor as it was open, if the file is the same and belongs to the user.
func (h *handedFiles) openFile(path int, f *regfile.RegFileEntry, as *rights) error {
	var st unix.Stat_t
	if err := unix.Fstat(path, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if st.Uid != as.uid || st.Mode != f.GetMode() || f.Size != nil && uint64(st.Size) != f.GetSize() {
		return nil
	}
	const never = unix.O_CREAT | unix.O_EXCL | unix.O_TRUNC | unix.O_NOFOLLOW | unix.O_TMPFILE&^unix.O_DIRECTORY
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", path), int(f.GetFlags())&^never|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // an NFS server does not accept root; criu will report that it may not open the file
	}
	if _, err := unix.Seek(fd, int64(f.GetPos()), unix.SEEK_SET); err != nil {
		unix.Close(fd)
		return os.NewSyscallError("lseek", err)
	}
	name := fmt.Sprintf("singularity-handed-%d", f.GetId())
	h.files = append(h.files, os.NewFile(uintptr(fd), name))
	h.names[f.GetId()] = name
	return nil
}

// forbiddenFiles returns the regular files of an image that were open or mapped in a way that their
// owner's permissions forbid.
func (i *Image) forbiddenFiles(src Source) ([]*regfile.RegFileEntry, error) {
	r, err := src.Open(filesName)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", filesName, err)
	}
	defer r.Close()
	var all []*regfile.RegFileEntry
	err = eachEntry(bufio.NewReader(r), filesMagic, func(b []byte) error {
		var m fdinfo.FileEntry
		if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%w: %w", errImage, err)
		}
		f := m.GetReg()
		if f == nil || f.GetMode()&unix.S_IFMT != unix.S_IFREG || f.GetFlags()&unix.O_PATH != 0 {
			return nil
		}
		if f.GetMode()&unix.S_IRUSR == 0 || f.GetMode()&unix.S_IWUSR == 0 {
			all = append(all, f)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", filesName, err)
	}
	if len(all) == 0 {
		return nil, nil
	}
	written, err := i.mappedToWrite(src)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(f *regfile.RegFileEntry) bool {
		if written[f.GetId()] {
			f.Flags = proto.Uint32(unix.O_RDWR)
		}
		needs := map[uint32]uint32{unix.O_RDONLY: unix.S_IRUSR, unix.O_WRONLY: unix.S_IWUSR}[f.GetFlags()&unix.O_ACCMODE]
		if needs == 0 {
			needs = unix.S_IRUSR | unix.S_IWUSR
		}
		return f.GetMode()&needs == needs
	}), nil
}

// mappedToWrite returns the numbers, in files.img, of files that are mapped and were open to be written, although writes
// to a private mapping do not go to the file: criu opens the file of each mapping as it was open. The mapping's entry
// tells how: the number in files.img stands for the mapping alone, and its flags there are meaningless.
func (i *Image) mappedToWrite(src Source) (map[uint32]bool, error) {
	written := map[uint32]bool{}
	for _, file := range i.Files {
		if !isMaps(file.Name) {
			continue
		}
		r, err := src.Open(file.Name)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", file.Name, err)
		}
		m, _, err := readMaps(r)
		r.Close()
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", file.Name, err)
		}
		for _, v := range m.GetVmas() {
			if v.GetStatus()&mappedFile != 0 && v.GetFdflags()&unix.O_ACCMODE == unix.O_RDWR {
				written[uint32(v.GetShmid())] = true
			}
		}
	}
	return written, nil
}

// mappedFile are the statuses of a mapping of a file, private or shared (criu/include/image.h, VMA_FILE_PRIVATE and
// VMA_FILE_SHARED).
const mappedFile = 1<<6 | 1<<7

// onThread calls f on a thread that has a user's rights to files, and no more.
func (r *rights) onThread(f func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		done <- func() error {
			groups := append([]uint32{}, r.groups...)
			var first unsafe.Pointer
			if len(groups) > 0 {
				first = unsafe.Pointer(&groups[0])
			}
			// Not Go's functions of these names, which change all threads.
			if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); e != 0 {
				return os.NewSyscallError("setgroups", e)
			}
			_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, uintptr(r.gid), 0, 0)
			_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(r.uid), 0, 0) // drops root's capabilities as well
			const ask = ^uintptr(0)
			uid, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ask, 0, 0)
			gid, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, ask, 0, 0)
			if uint32(uid) != r.uid || uint32(gid) != r.gid {
				return errors.New("setfsuid: not permitted")
			}
			f()
			return nil
		}()
	}()
	return <-done
}
