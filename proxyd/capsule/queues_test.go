// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
)

// TestMessageQueues: init returns the messages in the queues, more than a packet holds, and leaves the queues as they
// are, also if callers go away while init reads.
func TestMessageQueues(t *testing.T) {
	c := newCapsule(t)
	q := messagequeue.Queue{Name: "large", UID: user, GID: user, Mode: 0o600, MaxMessages: 10, MessageSize: 8192}
	for n := range 10 {
		data := slices.Repeat([]byte{byte(n)}, 8192)
		q.Messages = append(q.Messages, messagequeue.Message{Priority: uint32(20 - n/2), Data: data})
	}
	if err := messagequeue.Restore(t.Context(), fmt.Sprintf("/proc/%d/ns/ipc", c.PID()), &messagequeue.State{Queues: []messagequeue.Queue{q}}); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		leaveRequest(t, c, request{Op: opQueues, PID: 1})
	}
	for range 2 {
		s, err := c.MessageQueues(testDeadline(t), 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Queues) != 1 || s.Queues[0].File == "" {
			t.Fatalf("MessageQueues = %+v, want one queue with its file", s)
		}
		s.Queues[0].File = ""
		if got, want := fmt.Sprint(s.Queues[0]), fmt.Sprint(q); got != want {
			t.Errorf("got %.200s\nwant %.200s", got, want)
		}
	}
	if _, err := c.MessageQueues(testDeadline(t), 999999); err == nil {
		t.Error("the queues of no process")
	}
}

// leaveRequest sends init a request and goes away without the reply.
func leaveRequest(t *testing.T, c *Capsule, ask request) {
	t.Helper()
	conn, err := localsock.Dial(c.dir + "/" + controlName)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
}

// TestOlderInit: an init that does not know message queues is no reason to fail a checkpoint.
func TestOlderInit(t *testing.T) {
	c := newCapsule(t)
	_, _, err := c.callInit(context.Background(), request{Op: "of a newer build"})
	if !isUnknownRequest(err) {
		t.Errorf("unknown request: error %v, want one that isUnknownRequest knows", err)
	}
	if _, _, err := c.callInit(context.Background(), request{Op: opOpen, Name: "nobody"}); err == nil || isUnknownRequest(err) {
		t.Errorf("request for an unknown program: error %v, want another error than for an unknown request", err)
	}
}
