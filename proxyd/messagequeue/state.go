// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package messagequeue

import (
	"fmt"
	"slices"
	"strings"
)

// State is the state of the message queues of an IPC namespace.
type State struct {
	Limits Limits  `json:"limits"`
	Queues []Queue `json:"queues"` // ordered by name
}

// Limits are the contents of the files in /proc/sys/fs/mqueue, by their names.
type Limits map[string]string

// Queue is a queue that has a name.
type Queue struct {
	Name        string    `json:"name"` // without the slash
	UID         uint32    `json:"uid"`
	GID         uint32    `json:"gid"`
	Mode        uint32    `json:"mode"` // permissions
	MaxMessages int64     `json:"max_messages"`
	MessageSize int64     `json:"message_size"`
	File        string    `json:"file"`     // as CRIU names the open queue: file[MOUNT:INODE] in hexadecimal
	Messages    []Message `json:"messages"` // in the order in which they are received
}

// Message is a message in a queue.
type Message struct {
	Priority uint32 `json:"priority"`
	Data     []byte `json:"data"`
}

// Find returns the queue with this name for CRIU, or nil.
func (s *State) Find(file string) *Queue {
	if s == nil {
		return nil
	}
	i := slices.IndexFunc(s.Queues, func(q Queue) bool { return q.File == file })
	if i < 0 {
		return nil
	}
	return &s.Queues[i]
}

// Len is the number of queues; s may be nil.
func (s *State) Len() int {
	if s == nil {
		return 0
	}
	return len(s.Queues)
}

// NotifiedError tells that a process is to be notified of the next message in a queue (mq_notify). Only that process could
// ask for the notification again.
type NotifiedError struct {
	Queue string
	PID   int
}

func (e *NotifiedError) Error() string {
	return fmt.Sprintf("process %d is to be notified of the next message in the POSIX message queue /%s", e.PID, e.Queue)
}

// parseStatus reads the kernel's text about a queue: its size in bytes, and the process to notify, 0 for no
// process (mqueue_read_file).
func parseStatus(text string) (size int64, notified int, err error) {
	var kind, signal int
	if _, err := fmt.Sscanf(strings.TrimSpace(text), "QSIZE:%d NOTIFY:%d SIGNO:%d NOTIFY_PID:%d", &size, &kind, &signal, &notified); err != nil {
		return 0, 0, fmt.Errorf("status of a message queue, %q: %w", text, err)
	}
	return size, notified, nil
}
