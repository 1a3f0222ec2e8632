// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// makeSpoolFolder is the part of MakeSpoolFolder in the capsule.
func makeSpoolFolder(name string, u User) error {
	parent := filepath.Dir(name)
	var st unix.Stat_t
	var on unix.Statfs_t
	if err := errors.Join(unix.Lstat(parent, &st), unix.Statfs(parent, &on)); err != nil {
		return fmt.Errorf("%s: %w", parent, err)
	}
	if on.Type != unix.TMPFS_MAGIC || st.Uid != 0 || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o022 != 0 {
		return nil
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Lchown(name, int(u.UID), int(u.GID))
}

// runWithRightsOf calls f with the rights on files that a user has, and root's rights to mount. The
// user cannot signal or trace the thread: only the ids by which files are opened are the user's.
func runWithRightsOf(u User, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		err := assumeRightsOf(u)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// assumeRightsOf changes the calling thread. Package syscall would change all threads.
func assumeRightsOf(u User) error {
	var first unsafe.Pointer
	if len(u.Groups) > 0 {
		first = unsafe.Pointer(&u.Groups[0])
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(u.Groups)), uintptr(first), 0); errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	for _, id := range []struct {
		call  uintptr
		value uint32
		name  string
	}{{unix.SYS_SETFSGID, u.GID, "setfsgid"}, {unix.SYS_SETFSUID, u.UID, "setfsuid"}} {
		_, _, _ = unix.RawSyscall(id.call, uintptr(id.value), 0, 0)
		// The call returns no error. A second call with an invalid id changes no id and returns the current one.
		if now, _, _ := unix.RawSyscall(id.call, uintptr(^uint32(0)), 0, 0); uint32(now) != id.value {
			return fmt.Errorf("%s: %w", id.name, syscall.EPERM)
		}
	}
	return nil
}

// readPlan reads a bundle's config.json with the rights of the calling thread.
func readPlan(want ContainerRequest) (ContainerPlan, error) {
	name := filepath.Join(want.Bundle, "config.json")
	fd, err := openOrdinary(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if errors.Is(err, fs.ErrNotExist) {
		return planContainer(want, nil)
	}
	if err != nil {
		return ContainerPlan{}, fmt.Errorf("%s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return ContainerPlan{}, fmt.Errorf("%s: not a regular file", name)
	}
	var on unix.Statfs_t
	if err := unix.Fstatfs(fd, &on); err != nil || on.Type == unix.PROC_SUPER_MAGIC {
		return ContainerPlan{}, fmt.Errorf("%s: a file of /proc", name) // of this process, as /proc/self
	}
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return ContainerPlan{}, err
	}
	if len(b) > maxConfig {
		return ContainerPlan{}, fmt.Errorf("%s: longer than %d bytes", name, maxConfig)
	}
	return planContainer(want, b)
}

// showAt mounts a plan at a folder of root's, with rootfs, a clone of the container's root, or leaves no mount there
// after an error. check is called after each mount. The calling thread has the user's rights on files.
func (p ContainerPlan) showAt(root string, rootfs int, check func() error) (err error) {
	if err := makeFolderAsRoot(root); err != nil {
		return err
	}
	if err := attachClone(rootfs, root); err != nil {
		return fmt.Errorf("root %s: %w", p.Rootfs, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Unmount(root, unix.MNT_DETACH))
		}
	}()
	if err := check(); err != nil {
		return err
	}
	if p.ReadOnly {
		// Make missing mount points while the root can be written. The loop below reports those that cannot be made.
		for _, m := range p.Mounts {
			if fd, err := m.openTarget(rootfs); err == nil {
				unix.Close(fd)
			}
		}
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(rootfs, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
			return fmt.Errorf("root %s: make read-only: %w", p.Rootfs, err)
		}
	}
	for _, m := range p.Mounts {
		if err := m.attachAt(rootfs); err != nil {
			return fmt.Errorf("mount at %s: %w", m.Target, err)
		}
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// makeFolderAsRoot makes a mount point in a folder of root's. The calling thread has a user's rights
// on files, so another thread makes the mount point.
func makeFolderAsRoot(name string) error {
	made := make(chan error)
	go func() {
		made <- makeEntry(name, true)
	}()
	return <-made
}

// attachAt mounts m below a container's root.
func (m ContainerMount) attachAt(rootfs int) error {
	if m.Make {
		if err := os.MkdirAll(m.Source, 0o755); err != nil {
			return err
		}
	}
	source, err := cloneOrdinary(m.Source)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Source, err)
	}
	defer unix.Close(source)
	target, err := m.openTarget(rootfs)
	if err != nil {
		if m.Optional && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	defer unix.Close(target)
	if m.ReadOnly {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(source, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
			return fmt.Errorf("make read-only: %w", err)
		}
	}
	if err := unix.MoveMount(source, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("%s: %w", m.Source, err)
	}
	return nil
}

// openTarget opens the place of a mount, and makes it as the user if it is missing. No link leads out of the
// container's root.
func (m ContainerMount) openTarget(rootfs int) (int, error) {
	fd, err := openInside(rootfs, m.Target)
	if !errors.Is(err, fs.ErrNotExist) || m.Optional {
		return fd, err
	}
	st, err := os.Stat(m.Source)
	if err != nil {
		return -1, err
	}
	parts := strings.Split(strings.Trim(m.Target, "/"), "/")
	for i := range parts {
		at := "/" + path.Join(parts[:i+1]...)
		if err := makeInside(rootfs, at, i < len(parts)-1 || st.IsDir()); err != nil {
			return -1, err
		}
	}
	return openInside(rootfs, m.Target)
}

// makeInside makes a folder or an empty file below a container's root, unless it exists.
func makeInside(rootfs int, at string, folder bool) error {
	parent, err := openInside(rootfs, path.Dir(at))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	if folder {
		err = unix.Mkdirat(parent, path.Base(at), 0o755)
	} else {
		var fd int
		fd, err = unix.Openat(parent, path.Base(at), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err == nil {
			unix.Close(fd)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make %s: %w", at, err)
	}
	return nil
}

// openInside opens a path below a container's root, as a process with that root would.
func openInside(rootfs int, at string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	return openPatiently(rootfs, at, &how)
}

// openOrdinary opens a path of the capsule. Links of /proc that lead to open files of a process are not followed:
// /proc/self is this process, which has the node's /proc open.
func openOrdinary(name string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	return openPatiently(unix.AT_FDCWD, name, &how)
}

// cloneOrdinary is cloneTree of a path that openOrdinary opens. The clone does not include the containers' folder.
// Later mounts of the node do not appear in the clone: a user can have thousands of clones, and the node's mount would
// be made in each, or fail for lack of room.
func cloneOrdinary(name string) (int, error) {
	fd, err := openOrdinary(name, unix.O_PATH)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	clone, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, err
	}
	attr := unix.MountAttr{Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(clone, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(clone)
		return -1, fmt.Errorf("make private: %w", err)
	}
	return clone, nil
}

// cloneOnNode is cloneOrdinary with the mounts of the node, which a process of the node sees, and with the rights of a
// user: the node's /tmp is covered in the capsule. The path is opened by a thread of its own, which then ends.
func cloneOnNode(proc *os.File, pid int, name string, u User) (clone int, err error) {
	ns, err := unix.Openat(localsock.Descriptors([]*os.File{proc})[0], fmt.Sprintf("%d/ns/mnt", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("mounts of the node: %w", err)
	}
	defer unix.Close(ns)
	err = runWithRightsOf(User{}, func() error {
		// Threads share root and working directory, and a process that shares these cannot change its mounts.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		if err := unix.Setns(ns, unix.CLONE_NEWNS); err != nil {
			return os.NewSyscallError("setns", err)
		}
		if err := assumeRightsOf(u); err != nil {
			return err
		}
		clone, err = cloneOrdinary(name)
		return err
	})
	return clone, err
}

// maxOpenTries bounds the attempts to open a path while its user keeps renaming folders.
const maxOpenTries = 64

// openPatiently opens a path, and tries again when a folder on the way was renamed.
func openPatiently(at int, name string, how *unix.OpenHow) (fd int, err error) {
	for range maxOpenTries {
		fd, err = unix.Openat2(at, name, how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fd, err
}
