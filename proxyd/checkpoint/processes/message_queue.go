// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

const (
	removedQueueCure = "remove the name (mq_unlink) when the program no longer needs the queue"
	notifiedCure     = "wait for messages in a thread (mq_receive), or with poll"
	queuePathCure    = "open the queue with mq_open, not by its path"
)

// queues has the facts about the message queues of a capsule that FindObstacles needs. They are read once for each
// look.
type queues struct {
	init   int // the capsule's
	mounts *mounts.Table
	points []string               // where the capsule has its queues mounted, with "/" at the end
	device func() (uint64, error) // of the capsule's queues, mounted or not
}

func openQueues(init int, table *mounts.Table) queues {
	q := queues{init: init, mounts: table}
	for _, point := range table.Points("mqueue") {
		q.points = append(q.points, strings.TrimSuffix(point, "/")+"/")
	}
	q.device = sync.OnceValues(func() (uint64, error) { return messagequeue.Device(fmt.Sprintf("/proc/%d/ns/ipc", init)) })
	return q
}

// mayBe tells whether a link can be that of a queue. mq_open opens the queue by a mount that the kernel keeps for itself:
// the link is the queue's name, as if the queue were a file in the root folder.
func (q queues) mayBe(link string) bool {
	return strings.LastIndexByte(link, '/') == 0 ||
		slices.ContainsFunc(q.points, func(point string) bool { return strings.HasPrefix(link, point) })
}

// findObstacle says why a descriptor of a process, of which the link is given, cannot be captured if it is a POSIX
// message queue of the capsule. what is "" if the descriptor is no queue, or can be captured. The process runs: its
// descriptor may be another file at each look, of a server that does not answer. So the file is opened with O_PATH,
// which asks no server.
func (q queues) findObstacle(pid int, d procfs.Descriptor, link string) (what, cure string) {
	if !q.mayBe(link) {
		return "", ""
	}
	file, err := unix.Open(d.Path(), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", ""
	}
	defer unix.Close(file)
	st, err := mounts.Fstat(file)
	if err != nil || st.Kind() != unix.S_IFREG { // else the folder of the queues
		return "", ""
	}
	if device, err := q.device(); err != nil || st.Device != device {
		return "", ""
	}
	info, err := os.ReadFile(d.InfoPath())
	if err != nil {
		return "", ""
	}
	if _, mounted := q.mounts.ByNumber(mountOfDescriptor(string(info))); mounted {
		return "has the POSIX message queue " + link + " open by its path", queuePathCure
	}
	if st.Links == 0 {
		return "has the POSIX message queue " + strings.TrimSuffix(link, " (deleted)") + " open, which was removed", removedQueueCure
	}
	if owner, err := messagequeue.Notified(fmt.Sprintf("/proc/self/fd/%d", file)); err == nil && owner == pid {
		return "is to be notified of messages in the POSIX message queue " + link + " (mq_notify)", notifiedCure
	}
	return "", ""
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
