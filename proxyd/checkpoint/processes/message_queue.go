// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
)

// mqueueMagic is MQUEUE_MAGIC of the kernel's ipc/mqueue.c, which no header of the kernel for programs has.
const mqueueMagic = 0x19800202

const (
	removedQueueCure = "remove the name (mq_unlink) when the program no longer needs the queue"
	notifiedCure     = "wait for messages in a thread (mq_receive), or with poll"
	queuePathCure    = "open the queue with mq_open, not by its path"
)

// queueObstacle says why a descriptor of a process, of which the link is given, cannot be captured if it is a POSIX
// message queue. what is "" if the descriptor is none, or can be captured.
func queueObstacle(pid int, fd, link string) (what, cure string) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd))
	if err != nil {
		return "", ""
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return "", ""
	}
	path := fmt.Sprintf("/proc/%d/fd/%s", pid, fd)
	kind, mounted := kindOfMount(string(mounts), mountOfDescriptor(string(info)))
	if mounted && kind != "mqueue" || !mounted && !isMessageQueue(path, link) {
		return "", ""
	}
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", "" // the folder of the queues
	}
	if mounted {
		return "has the POSIX message queue " + link + " open by its path", queuePathCure
	}
	if st.Nlink == 0 {
		return "has the POSIX message queue " + strings.TrimSuffix(link, " (deleted)") + " open, which was removed", removedQueueCure
	}
	if owner, err := messagequeue.Notified(path); err == nil && owner == pid {
		return "is to be notified of messages in the POSIX message queue " + link + " (mq_notify)", notifiedCure
	}
	return "", ""
}

// isMessageQueue tells whether a descriptor below /proc, which is on no mount of the process, is a POSIX message queue.
// mq_open opens the queue by a mount that the kernel keeps for itself: the link is the queue's name, as if the queue
// were a file in the root folder. Only of such a descriptor is the file system asked: another may be of a server that
// does not answer.
func isMessageQueue(path, link string) bool {
	if strings.LastIndexByte(link, '/') != 0 {
		return false
	}
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	return err == nil && st.Type == mqueueMagic
}

// mountOfDescriptor is the number of the mount in the text of /proc/PID/fdinfo/FD; "" if there is none.
func mountOfDescriptor(info string) string {
	for line := range strings.Lines(info) {
		if number, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(number)
		}
	}
	return ""
}

// kindOfMount returns the type of the file system that is mounted as this number in the text of a mountinfo.
func kindOfMount(mounts, number string) (kind string, mounted bool) {
	for line := range strings.Lines(mounts) {
		if own, rest, _ := strings.Cut(line, " "); own == number {
			_, after, _ := strings.Cut(rest, " - ")
			kind, _, _ = strings.Cut(after, " ")
			return kind, true
		}
	}
	return "", false
}
