// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors that criu starts with, after 0, 1 and 2.
const (
	imagesFD  = 3 // the images folder
	askFD     = 4 // the gate's script writes its PID
	goFD      = 5 // and reads the answer
	firstFree = 6
)

// imagesFolder is criu's images folder and the near ends of the gate. An imagesFolder is for one operation.
type imagesFolder struct {
	folder   int // of a tmpfs that is mounted nowhere
	listener int // the streamer socket, as named by capture or serve
	ask      int // where the gate's script writes its turn and its PID
	answer   int // the answer that the gate waits for

	child []*os.File // imagesFD, askFD, goFD; closed when criu has started
}

// Names of the streamer sockets (criu/img-streamer.c).
const (
	captureSocket = "streamer-capture.sock"
	serveSocket   = "streamer-serve.sock"
)

// gate is the script that criu calls at each turn. It reaches the pipes by way of /proc, because criu closes all
// descriptors of its scripts. $PPID is criu.
//
// A restore needs a PID for each call and one for criu. These must differ from the PIDs of all
// processes that are being restored in the capsule: so the script begins to count anew.
const gate = `#!/bin/sh
case $CRTOOLS_SCRIPT_ACTION in
pre-restore) echo 1 >/proc/sys/kernel/ns_last_pid; exit ;;
post-dump | post-restore | pre-resume) ;;
*) exit 0 ;;
esac
echo $CRTOOLS_SCRIPT_ACTION $$ >/proc/$PPID/fd/4 || exit 1
read -r word </proc/$PPID/fd/5 && [ "$word" = go ]
`

// gateName is relative to criu's working directory, which is the images folder.
const gateName = "./gate"

// The turns of criu at which the gate's script asks.
const (
	turnDumped   = "post-dump"    // all images are written
	turnRestored = "post-restore" // everything is open and mapped; every process has criu's rights still
	turnResume   = "pre-resume"   // every thread stands in ptrace
)

// newImagesFolder makes an images folder for a criu that runs as root, or with the rights of as.
func newImagesFolder(socket string, as *rights) (*imagesFolder, error) {
	s := &imagesFolder{folder: -1, listener: -1, ask: -1, answer: -1}
	err := s.makeImagesFolder(socket)
	if err == nil && as != nil {
		err = s.makeUsableBy(socket, as)
	}
	if err != nil {
		s.closeImagesFolder()
		return nil, fmt.Errorf("images folder: %w", err)
	}
	return s, nil
}

func (s *imagesFolder) makeImagesFolder(socket string) error {
	var err error
	if s.folder, err = detachedTmpfs(); err != nil {
		return err
	}
	if err := s.writeGate(); err != nil {
		return err
	}
	s.listener, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(s.listener, &unix.SockaddrUnix{Name: s.pathOf(socket)}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(s.listener, 1); err != nil {
		return os.NewSyscallError("listen", err)
	}
	var ask, answer [2]int
	if err := unix.Pipe2(ask[:], unix.O_CLOEXEC); err != nil {
		return os.NewSyscallError("pipe", err)
	}
	s.ask = ask[0]
	s.child = append(s.child, os.NewFile(uintptr(ask[1]), "ask"))
	if err := unix.Pipe2(answer[:], unix.O_CLOEXEC); err != nil {
		return os.NewSyscallError("pipe", err)
	}
	s.answer = answer[1]
	s.child = append(s.child, os.NewFile(uintptr(answer[0]), "answer"))
	folder, err := unix.FcntlInt(uintptr(s.folder), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	s.child = append([]*os.File{os.NewFile(uintptr(folder), "images")}, s.child...)
	return nil
}

// makeUsableBy makes the folder, the socket and the gate usable for a criu with a user's rights.
// No other process comes to them: they have no name, and the kernel lets no process of the user's
// look into another that has more capabilities.
func (s *imagesFolder) makeUsableBy(socket string, as *rights) error {
	uid, gid := int(as.uid), int(as.gid)
	if known, err := os.ReadFile(kerndat); err != nil {
		return err
	} else if err := os.WriteFile(s.pathOf(kerndatName), known, 0o444); err != nil {
		return err
	}
	for _, fd := range []int{s.folder, int(s.child[askFD-imagesFD].Fd()), int(s.child[goFD-imagesFD].Fd())} {
		if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil { // the folder is O_PATH
			return os.NewSyscallError("fchownat", err)
		}
	}
	for _, name := range []string{socket, gateName} {
		if err := os.Chown(s.pathOf(name), uid, gid); err != nil {
			return err
		}
	}
	return nil
}

func detachedTmpfs() (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "mode", "0700"); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	folder, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	return folder, os.NewSyscallError("fsmount", err)
}

// pathOf is a path to a name of the folder for this process. It is short enough for a socket's address, wherever the
// caller keeps files.
func (s *imagesFolder) pathOf(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", s.folder, name)
}

func (s *imagesFolder) writeGate() error {
	// A process that is forked meanwhile would have the script open for writing until
	// its execve, and the script could not be run until then.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(s.pathOf(gateName), []byte(gate), 0o700)
}

// closeInherited closes the descriptors that criu has inherited.
func (s *imagesFolder) closeInherited() {
	for _, f := range s.child {
		f.Close()
	}
	s.child = nil
}

func (s *imagesFolder) closeImagesFolder() {
	s.closeInherited()
	for _, fd := range []*int{&s.folder, &s.listener, &s.ask, &s.answer} {
		closeFD(fd)
	}
}

// closeFD closes *fd unless *fd is -1, and sets *fd to -1.
func closeFD(fd *int) {
	if *fd >= 0 {
		unix.Close(*fd)
		*fd = -1
	}
}
