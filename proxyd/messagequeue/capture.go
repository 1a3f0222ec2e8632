// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package messagequeue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// ErrIncomplete tells that messages were taken out of a queue and could not all be put back. The queue's programs must
// not run on.
var ErrIncomplete = errors.New("messages could not be put back into their queue")

// Capture returns the queues of an IPC namespace, a file below /proc. The queues are left as they were, unless the
// error is an ErrIncomplete. The error is a *NotifiedError if a process is to be notified of a message; then no message
// was taken. See the package's comment for the duties of the caller.
func Capture(namespace string) (*State, error) {
	s := &State{}
	err := inNamespace(namespace, func() error {
		var err error
		if s.Limits, err = readLimits(); err != nil {
			return err
		}
		names, err := listQueues()
		if err != nil {
			return err
		}
		for _, name := range names {
			q, err := captureQueue(name)
			if err != nil {
				return fmt.Errorf("message queue /%s: %w", name, err)
			}
			s.Queues = append(s.Queues, *q)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Device returns the number of the device of all files that are queues of an IPC namespace, a file below /proc.
func Device(namespace string) (device uint64, err error) {
	err = inNamespace(namespace, func() error {
		dir, err := openQueues()
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		var st unix.Stat_t
		if err := unix.Fstat(dir, &st); err != nil {
			return os.NewSyscallError("stat mqueue", err)
		}
		device = st.Dev
		return nil
	})
	return device, err
}

// listQueues returns the names of the thread's queues, in order.
func listQueues() ([]string, error) {
	dir, err := openQueues()
	if errors.Is(err, unix.ENODEV) {
		return nil, nil // a kernel without message queues
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dir), "mqueue")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// openQueues opens the folder of the thread's queues. The file system is mounted nowhere: no other process sees the
// mount.
func openQueues() (int, error) {
	fs, err := unix.Fsopen("mqueue", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen mqueue", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, os.NewSyscallError("fsconfig mqueue", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsmount mqueue", err)
	}
	defer unix.Close(mount)
	// A mount's own descriptor is as if opened with O_PATH.
	dir, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return dir, os.NewSyscallError("open mqueue", err)
}

func captureQueue(name string) (*Queue, error) {
	if !utf8.ValidString(name) {
		return nil, errors.New("the name is not UTF-8, and cannot be noted")
	}
	fd, err := openQueue(name, unix.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	q, err := describeQueue(name, fd)
	if err != nil {
		return nil, err
	}
	size, notified, err := readStatus(fd)
	if err != nil {
		return nil, err
	}
	if notified != 0 {
		return nil, &NotifiedError{name, notified}
	}
	a, err := readAttributes(fd)
	if err != nil {
		return nil, err
	}
	q.MaxMessages, q.MessageSize = a.MaxMessages, a.MessageSize
	q.Messages, err = copyMessages(fd, a, size)
	return q, err
}

// copyMessages takes all messages out of a queue and puts them back. All memory is allocated before the first
// message is taken.
func copyMessages(fd int, a attributes, size int64) ([]Message, error) {
	all := make([]Message, 0, a.Messages)
	room := make([]byte, size+a.MessageSize)
	for range a.Messages {
		n, priority, err := receiveMessage(fd, room[:a.MessageSize])
		if err != nil {
			return nil, fmt.Errorf("%w: receive: %w", errors.Join(ErrIncomplete, sendAll(fd, all)), err)
		}
		all = append(all, Message{priority, room[:n:n]})
		room = room[n:]
		if int64(len(room)) < a.MessageSize { // more bytes than the kernel has reported
			room = make([]byte, a.MessageSize)
		}
	}
	if err := sendAll(fd, all); err != nil {
		return nil, errors.Join(ErrIncomplete, err)
	}
	return all, nil
}

// sendPatience limits the time for which the kernel may lack memory for a message.
const sendPatience = 10 * time.Second

// sendAll puts messages into a queue.
func sendAll(fd int, all []Message) error {
	until := time.Now().Add(sendPatience)
	for _, m := range all {
		err := sendMessage(fd, m)
		for errors.Is(err, unix.ENOMEM) && time.Now().Before(until) {
			<-time.After(10 * time.Millisecond) // there is no event to wait for
			err = sendMessage(fd, m)
		}
		if err != nil {
			return os.NewSyscallError("mq_send", err)
		}
	}
	return nil
}

func describeQueue(name string, fd int) (*Queue, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/thread-self/fdinfo/%d", fd))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(info)) {
		var mount int
		if n, _ := fmt.Sscanf(line, "mnt_id: %d", &mount); n == 1 {
			return &Queue{Name: name, UID: st.Uid, GID: st.Gid, Mode: st.Mode & 0o7777, File: fmt.Sprintf("file[%x:%x]", mount, st.Ino)}, nil
		}
	}
	return nil, errors.New("the kernel does not say on which mount the queue is")
}

func readStatus(fd int) (size int64, notified int, err error) {
	b := make([]byte, 128)
	n, err := unix.Pread(fd, b, 0)
	if err != nil {
		return 0, 0, os.NewSyscallError("read", err)
	}
	return parseStatus(string(b[:n]))
}

// Notified returns the process that is to be notified of the next message in an open queue, a file below /proc; 0 if
// no process is.
func Notified(path string) (pid int, err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	_, pid, err = readStatus(fd)
	return pid, err
}

const limitsFolder = "/proc/sys/fs/mqueue"

func readLimits() (Limits, error) {
	files, err := os.ReadDir(limitsFolder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l := Limits{}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(limitsFolder, f.Name()))
		if err != nil {
			return nil, err
		}
		l[f.Name()] = strings.TrimSpace(string(b))
	}
	return l, nil
}
