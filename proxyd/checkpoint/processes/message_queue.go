// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mqueueMagic is MQUEUE_MAGIC of the kernel's ipc/mqueue.c, which no header of the kernel for programs has.
const mqueueMagic = 0x19800202

const messageQueueCure = "close the queue before a checkpoint, or talk through a unix socket or a System V queue"

// isMessageQueue tells whether a descriptor of a process, of which the link is given, is a POSIX message queue.
// mq_open opens the queue by a mount that the kernel keeps for itself: the link is the queue's name, as if the queue
// were a file in the root folder, and no mount of the process has the descriptor's number. Only of such a descriptor
// is the file system asked: a mounted one may be of a server that does not answer.
func isMessageQueue(pid int, fd, link string) bool {
	if strings.LastIndexByte(link, '/') != 0 {
		return false
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd))
	if err != nil {
		return false
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil || hasMount(string(mounts), mountOfDescriptor(string(info))) {
		return false
	}
	var st unix.Statfs_t
	err = unix.Statfs(filepath.Join(fmt.Sprintf("/proc/%d/fd", pid), fd), &st)
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

// hasMount tells whether a mount of this number is in the text of a mountinfo.
func hasMount(mounts, number string) bool {
	for line := range strings.Lines(mounts) {
		if own, _, _ := strings.Cut(line, " "); own == number {
			return true
		}
	}
	return false
}
