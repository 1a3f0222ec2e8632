// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package nodesocket listens to the processes of this node that belong to Slurm's side: to the
// SPANK plugin and to runners, as root, and to sing-srun, as any user from inside a capsule. The
// package finds out which process sends a request and passes the request to the conductor; the
// conductor makes all decisions.
package nodesocket

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// Names of the sockets in the run folder.
const (
	SpankSocket = "spank.sock" // for root alone
	SrunSocket  = "srun.sock"  // for all users: the kernel says which process asks
)

// Conductor decides about the tasks of jobs. Its methods are called concurrently.
type Conductor interface {
	// Join decides how a task runs. The caller closes the files of the answer. If Join returns an
	// error, the user is shown it, and the task fails.
	Join(ctx context.Context, j Join) (Admission, error)
	// End is called when Slurm has ended a job on this node; after nil no part of the job is left on
	// the node.
	End(ctx context.Context, job uint32) error
}

// SrunRequests decides about the requests of sing-srun, for a program of a capsule, and of the runners of sruns. Its
// methods are called concurrently.
type SrunRequests interface {
	// Admit says whether a caller of srun.sock may make requests. Admit is called before a packet is
	// received from the caller.
	Admit(who Peer) error
	// Srun begins an srun for a program of a capsule, or, with a key, returns to the srun that
	// the program began before the program was captured. give sends the caller's connection,
	// with the descriptors in its queue, over a socket; the process at the other end of that
	// socket receives them.
	Srun(ctx context.Context, who Peer, key string, give func(to *os.File) error)
	// TellFailure says whether the user is to be told of the failure of the srun with the folder
	// dir.
	TellFailure(ctx context.Context, dir string) bool
	// TellMessage says whether the user is to be told of a failure that the srun with the folder
	// dir has printed: whether the job stays on its nodes.
	TellMessage(ctx context.Context, dir string) bool
	// Signal sends a signal to an srun of the caller's capsule.
	Signal(ctx context.Context, who Peer, key string, sig syscall.Signal) error
	// NoteRequeue is called before a program of a capsule has Slurm requeue a job, as a rule its
	// own.
	NoteRequeue(ctx context.Context, who Peer) error
}

// Join describes a task that is about to start.
type Join struct {
	Job      uint32
	Step     string // "batch" or a number
	Task     int    // global
	Tasks    int    // of the step
	UID, GID uint32
	Restarts int    // restart count that the srun was given; only with Key
	Key      string // by which our srun knows the step; "": another program started the step
	Script   string // of the batch step
	Dir      string
	Warden   string // the installed file
	// Container is the bundle of the container that the task wants; "": no container. ContainerPID is a process that
	// another plugin of Slurm's has put into a container for the task, or 0. Groups are the task's supplementary
	// groups, and are known if it wants a container.
	Container    string
	ContainerPID int
	Groups       []uint32
	Shim         string            // the installed file; "": no shim is preloaded
	PID          int               // of the task, which becomes the warden
	Alive        func() error      `json:"-"` // as Peer.Alive
	Options      map[string]string // as the user gave them, by their short names
	// Terminated is closed when Slurm sends SIGTERM to the waiting task of a step; nil: a SIGTERM is not
	// told.
	Terminated <-chan struct{} `json:"-"`
}

// Mode says how a task is to start.
type Mode string

// The modes.
const (
	Fresh    Mode = "fresh"    // start the task in the capsule
	Restore  Mode = "restore"  // the task is restored into the capsule
	Plain    Mode = "plain"    // start the task without a capsule
	Finished Mode = "finished" // the task had ended before the checkpoint
)

// Admission is the answer to a Join: how a task runs, and where.
type Admission struct {
	Mode       Mode
	Name       string     // of the program, Fresh and Restore
	Namespaces []*os.File // Fresh and Restore, in the order in which they are joined
	Kit        string     // folder where the capsule has the warden and the shim
	Container  *Container // Fresh: the root of the task's program; nil: the capsule's
	Env        []string   // name, value, …: variables that the task gets, Fresh and Restore
	Status     syscall.WaitStatus
	Reason     string // Plain
}

// Container is the root that the program of a task sees in place of its capsule's.
type Container struct {
	Root   string // path in the capsule
	Cwd    string // in the container
	Script string // path of the batch script in the container; "": the program is as Slurm has it
}

// Server listens.
type Server struct {
	conductor Conductor
	sruns     SrunRequests
	version   string
	log       *slog.Logger
	spank     *net.UnixListener
	srun      string // path of the socket
	door      *doorProcess
	calls     calls // of srun.sock, that are being answered
}

// Listen makes the two sockets in dir in place of a predecessor's. The program must
// call Door when its first argument is DoorArg.
func Listen(dir, version string, c Conductor, sruns SrunRequests, log *slog.Logger) (*Server, error) {
	s := &Server{conductor: c, sruns: sruns, version: version, log: log, srun: filepath.Join(dir, SrunSocket), calls: calls{of: map[uint32]int{}}}
	var err error
	if s.spank, err = localsock.Listen(filepath.Join(dir, SpankSocket), 0o600); err != nil {
		return nil, err
	}
	if s.door, err = openDoor(s.srun); err != nil {
		s.spank.Close()
		return nil, err
	}
	return s, nil
}

// Serve answers until ctx is done, and returns after the last answer.
func (s *Server) Serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { s.spank.Close() })
	defer stop()
	var all sync.WaitGroup
	all.Go(func() { s.acceptRoot(ctx, s.spank, s.answerPlugin) })
	all.Go(func() { s.serveDoors(ctx) })
	all.Wait()
}

// answerPlugin answers a request of the plugin or of a runner.
func (s *Server) answerPlugin(ctx context.Context, c *net.UnixConn, who Peer) {
	m, err := s.readRequest(c)
	if err == nil && who.UID != 0 {
		err = errors.New("only root may ask this")
	}
	if err != nil {
		s.sendRefusal(c, err)
		return
	}
	switch m.verb {
	case verbJoin:
		s.answerJoin(ctx, c, m, who)
	case verbSrunFailed:
		s.answerMayReport(c, s.sruns.TellFailure(ctx, m.vals["dir"]))
	case verbSrunMessage:
		s.answerMayReport(c, s.sruns.TellMessage(ctx, m.vals["dir"]))
	case verbEnd:
		job, err := m.readNumber("job")
		if err == nil {
			err = s.conductor.End(ctx, job)
		}
		if err != nil {
			s.log.Error("end of job", "job", job, "error", err)
			s.sendRefusal(c, err)
			return
		}
		s.sendAnswer(c, newMessage(verbOK))
	default:
		s.sendRefusal(c, fmt.Errorf("%w: verb %q", errMessage, m.verb))
	}
}

// answerMayReport tells a runner whether its user may be told of a failure.
func (s *Server) answerMayReport(c *net.UnixConn, told bool) {
	if told {
		s.sendAnswer(c, newMessage(verbOK))
		return
	}
	s.sendAnswer(c, newMessage(verbNo, "reason", "the job goes on elsewhere"))
}

func (s *Server) answerJoin(ctx context.Context, c *net.UnixConn, m message, who Peer) {
	j, err := parseJoin(m, who)
	if err != nil {
		s.sendRefusal(c, err)
		return
	}
	// A restore may take long; the end of the task ends the restore.
	serving := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	j.Alive = who.Alive
	if err := c.SetReadDeadline(time.Time{}); err == nil {
		terminated := make(chan struct{})
		j.Terminated = terminated
		go func() {
			defer cancel()
			if readTermination(c) {
				close(terminated)
				_, _ = c.Read(make([]byte, 1)) // returns at the end of the connection; the plugin sends no more messages
			}
		}()
	}
	p, err := s.conductor.Join(ctx, j)
	if err != nil && serving.Err() != nil { // This daemon ends. Without an answer the plugin asks the next daemon.
		s.log.Info("task not placed any more", "job", j.Job, "step", j.Step, "task", j.Task, "error", err)
		return
	}
	if err != nil {
		s.log.Error("task refused", "job", j.Job, "step", j.Step, "task", j.Task, "error", err)
		s.sendRefusal(c, err)
		return
	}
	defer localsock.CloseAll(p.Namespaces)
	s.log.Info("task placed", "job", j.Job, "step", j.Step, "task", j.Task, "mode", p.Mode, "name", p.Name, "reason", p.Reason)
	switch p.Mode {
	case Plain:
		s.sendAnswer(c, newMessage(verbOK, "mode", string(p.Mode), "reason", p.Reason))
	case Finished:
		s.sendAnswer(c, newMessage(verbOK, "mode", string(p.Mode), "status", strconv.Itoa(int(p.Status))))
	default:
		pairs := []string{"mode", string(p.Mode), "name", p.Name, "kit", p.Kit}
		for i := 0; i+1 < len(p.Env); i += 2 {
			pairs = append(pairs, keyEnv+p.Env[i], p.Env[i+1])
		}
		if in := p.Container; in != nil {
			pairs = append(pairs, "root", in.Root, "root_cwd", in.Cwd, "root_script", in.Script)
		}
		s.sendAnswer(c, newMessage(verbOK, pairs...), p.Namespaces...)
	}
}

// readTermination waits for the end of a task's connection, or for the packet that says that the task was sent SIGTERM. Only
// then it returns true.
func readTermination(c *net.UnixConn) bool {
	packet := make([]byte, 1024)
	n, err := c.Read(packet)
	if err != nil {
		return false
	}
	m, err := decodeMessage(packet[:n])
	return err == nil && m.verb == verbTerminate
}

// options are the keys of a join that carry the user's options.
var options = []string{"singularity", "interval", "gpus", "on_failure", "exact", "outside", "listen", "exclude", "lease"}

func parseJoin(m message, who Peer) (Join, error) {
	j := Join{Step: m.vals["step"], Key: m.vals["key"], Script: m.vals["script"], Dir: m.vals["cwd"], Warden: m.vals["warden"], Shim: m.vals["shim"], PID: who.PID, Options: map[string]string{}}
	var task, tasks, restarts uint32
	for _, f := range []struct {
		key  string
		into *uint32
		must bool
	}{
		{"job", &j.Job, true}, {"uid", &j.UID, true}, {"gid", &j.GID, true},
		{"task", &task, false}, {"tasks", &tasks, false}, {"restarts", &restarts, false},
	} {
		n, err := m.readOptional(f.key, 0)
		if err == nil && f.must && m.vals[f.key] == "" {
			err = fmt.Errorf("%w: no %s", errMessage, f.key)
		}
		if err != nil {
			return j, err
		}
		*f.into = n
	}
	j.Task, j.Tasks, j.Restarts = int(task), int(tasks), int(restarts)
	if _, err := m.readNumber("step"); err != nil && j.Step != "batch" {
		return j, fmt.Errorf("%w: step=%q", errMessage, j.Step)
	}
	inside, err := m.readOptional("container_pid", 0)
	if err != nil {
		return j, err
	}
	j.ContainerPID = int(inside)
	if j.Container = m.vals["container"]; j.Container != "" || j.ContainerPID != 0 {
		for word := range strings.FieldsSeq(m.vals["groups"]) {
			gid, err := strconv.ParseUint(word, 10, 32)
			if err != nil {
				return j, fmt.Errorf("%w: groups=%q", errMessage, m.vals["groups"])
			}
			j.Groups = append(j.Groups, uint32(gid))
		}
	}
	for _, o := range options {
		if v, given := m.vals[o]; given {
			j.Options[o] = v
		}
	}
	return j, nil
}
