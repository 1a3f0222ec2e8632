//go:build live

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
)

// serveArg makes the test binary a proxyd for a node: it makes capsules and knows no
// checkpoints. Its argument is the folder where it records its requests.
const serveArg = "serve"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case capsule.Arg:
			os.Exit(capsule.Init(os.Args[2:]))
		case nodesocket.DoorArg:
			os.Exit(nodesocket.Door(os.Args[2:]))
		case serveArg:
			if err := serveFolder(os.Args[2]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// receivedRequest is a request that a node's proxyd got; the file has one JSON object a line.
type receivedRequest struct {
	Node string
	Join *nodesocket.Join `json:",omitempty"`
	End  uint32           `json:",omitempty"` // the job
	Left []string         `json:",omitempty"` // programs that were still there at its end
}

// node gives the answers that the tests ask for by --singularity-exclude.
type node struct {
	dir, name string

	mu       sync.Mutex
	out      *os.File
	capsules map[uint32]*capsule.Capsule
}

func serveFolder(dir string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(dir, name+".heard"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	n := &node{dir: dir, name: name, out: out, capsules: map[uint32]*capsule.Capsule{}}
	const run = "/run/singularity-slurm"
	if err := os.MkdirAll(run, 0o755); err != nil {
		return err
	}
	s, err := nodesocket.Listen(run, "of the tests", n, n, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s.Serve(ctx)
	return nil
}

func (n *node) noteHeard(h receivedRequest) {
	h.Node = n.name
	b, err := json.Marshal(h)
	if err != nil {
		panic(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.out, "%s\n", b)
}

// Join implements nodesocket.Conductor.
func (n *node) Join(ctx context.Context, j nodesocket.Join) (nodesocket.Admission, error) {
	n.noteHeard(receivedRequest{Join: &j})
	how, arg, _ := strings.Cut(strings.TrimPrefix(j.Options["exclude"], "/"), "-")
	switch how {
	case "refuse":
		return nodesocket.Admission{}, errors.New("the checkpoint 3 cannot be restored: as the test wants it")
	case "plain":
		return nodesocket.Admission{Mode: nodesocket.Plain, Reason: "as the test wants it"}, nil
	case "batchplain":
		if j.Step == "batch" {
			return nodesocket.Admission{Mode: nodesocket.Plain}, nil
		}
	case "finished":
		status, err := strconv.Atoi(arg)
		return nodesocket.Admission{Mode: nodesocket.Finished, Status: syscall.WaitStatus(status)}, err
	case "hang":
		select {
		case <-ctx.Done():
			return nodesocket.Admission{}, ctx.Err()
		case <-j.Terminated:
			return nodesocket.Admission{}, errors.New("the task was ended while it waited")
		}
	case "die":
		// Exit like a daemon that is killed; the test starts the next daemon.
		f, err := os.OpenFile(filepath.Join(n.dir, fmt.Sprintf("%d.died", j.Job)), os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
		f.Close()
	}
	c, err := n.findCapsule(ctx, j)
	if err != nil {
		return nodesocket.Admission{}, err
	}
	files, err := c.Namespaces()
	if err != nil {
		return nodesocket.Admission{}, err
	}
	name := j.Step
	if name != "batch" {
		name = fmt.Sprintf("s%s.%d", j.Step, j.Task)
	}
	return nodesocket.Admission{Mode: nodesocket.Fresh, Name: name, Namespaces: files}, nil
}

// findCapsule returns the job's capsule, and makes it at first.
func (n *node) findCapsule(ctx context.Context, j nodesocket.Join) (*capsule.Capsule, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.capsules[j.Job]; c != nil {
		return c, nil
	}
	c, err := capsule.Make(ctx, capsule.Spec{
		Dir:      filepath.Join("/var/lib/singularity-slurm/capsules", fmt.Sprint(j.Job)),
		Hostname: "in-" + n.name,
		Owner:    j.UID,
	})
	if err == nil {
		n.capsules[j.Job] = c
	}
	return c, err
}

// End implements nodesocket.Conductor.
func (n *node) End(ctx context.Context, job uint32) error {
	n.mu.Lock()
	c := n.capsules[job]
	delete(n.capsules, job)
	n.mu.Unlock()
	h := receivedRequest{End: job}
	if c != nil {
		programs, err := c.Programs(ctx)
		if err != nil {
			return err
		}
		for _, p := range programs {
			h.Left = append(h.Left, p.Name)
		}
		if err := c.Remove(ctx); err != nil {
			return err
		}
	}
	n.noteHeard(h)
	return nil
}

// Admit and Srun implement nodesocket.Conductor.
func (n *node) Admit(nodesocket.Peer) error { return errors.New("not here") }

func (n *node) Srun(context.Context, nodesocket.Peer, string, func(*os.File) error) {}

func (n *node) TellFailure(context.Context, string) bool { return true }
func (n *node) TellMessage(context.Context, string) bool { return true }

// NoteRequeue implements nodesocket.Conductor.
func (n *node) NoteRequeue(context.Context, nodesocket.Peer) error { return errors.New("not here") }

// Signal implements nodesocket.Conductor.
func (n *node) Signal(context.Context, nodesocket.Peer, string, syscall.Signal) error {
	return errors.New("not here")
}
