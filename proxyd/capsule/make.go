// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// Arg is the hidden first argument by which a main runs Init.
const Arg = "capsule-init"

// Spec describes a capsule to be made.
type Spec struct {
	Dir      string // the capsule's folder, absolute; created if missing. It must be empty otherwise
	Hostname string // as `hostname` shows it
	Owner    uint32 // the uid of wardens that init accepts, besides root's
	// Containers is the folder of the capsule in which the roots of containers are shown; "": the capsule has no
	// containers. It is a folder of the node's, or is made as Bind.Target is.
	Containers string
	Hosts      []byte           // contents of /etc/hosts; nil: the node's
	Binds      []Bind           // applied in this order
	Cgroups    string           // the node's cgroup v2 hierarchy, see CgroupRoot; "": programs have no cgroups of their own
	Address    string           // of eth0 with its prefix, "10.88.1.1/32"; "": Network sets eth0 up
	Clocks     *Clocks          // initial CLOCK_MONOTONIC and CLOCK_BOOTTIME; nil: the node's
	Restore    bool             // programs will be restored: keep PIDs above 300 free for them; call LoadLastPID afterwards
	Hold       []syscall.Signal // signals requested by a warden that become a SignalWithheld event, until the maker sends them or has not watched for 10 s

	// Network, if set, puts eth0 into the network namespace of the process pid. Network is called
	// when the capsule is built, before any program can run there.
	Network func(pid int) error `json:"-"`
}

// Bind shows a file or folder of the node at a path of the capsule.
type Bind struct {
	Source string // on the node, symbolic links followed
	// Target in the capsule, symbolic links followed. If the path does not exist on the node, only the capsule gets the
	// missing folders; see places. Only root may have write access to the folders on the way.
	Target   string
	ReadOnly bool
	// Alone replaces the folder of Target in the capsule by a folder that contains only Target.
	// Later changes of the node's folder are then not visible: otherwise a bind on a file ends
	// when the node removes or replaces that file.
	Alone bool
}

// Clocks are readings of the clocks that count from the node's boot.
type Clocks struct{ Monotonic, Boottime time.Duration }

// Descriptors of a starting init, after 0, 1 and 2.
const (
	orderFD   = 3 // from the maker: an order and later a second order, as JSON
	answerFD  = 4 // to the maker: an answer to each
	controlFD = 5 // the control socket, listening
	procFD    = 6 // O_PATH, the maker's /proc
)

// order is the first message that init reads; the second is empty and means go.
type order struct {
	ID   string
	Spec Spec
}

// answer says that an order was carried out, or has the error.
type answer struct {
	Error string
	Errno syscall.Errno `json:",omitempty"`
}

// maker is a capsule being made.
type maker struct {
	spec       Spec
	rec        record
	cmd        *exec.Cmd
	pid        int
	orders     *json.Encoder
	answers    *json.Decoder
	hangUp     func()      // closes the pipes; nil before start. May be called twice
	stopHangUp func() bool // detaches init from the context
	capsule    *Capsule
}

// makeSteps lists the steps that make a capsule. Until the last step init ends with its maker; after any error no
// process or file of the capsule is left.
var makeSteps = []struct {
	name string
	do   func(*maker, context.Context) error
}{
	{"folder", (*maker).prepareFolder},
	{"init", (*maker).startInit},
	{"build", (*maker).buildTree},
	{"network", (*maker).makeNetwork},
	{"record", (*maker).recordInit},
	{"go", (*maker).detachInit},
}

// Make makes a capsule and returns when programs can be started in it. Make needs root and
// CAP_SYS_ADMIN. The capsule outlives the process that made it: Adopt finds the capsule again.
// Under systemd that requires KillMode=process, because init is in the maker's cgroup.
//
// The error wraps ErrExists if s.Dir has a capsule already.
func Make(ctx context.Context, s Spec) (*Capsule, error) {
	m := &maker{spec: s}
	for _, step := range makeSteps {
		if err := step.do(m, ctx); err != nil {
			err = fmt.Errorf("capsule %s: %s: %w", s.Hostname, step.name, err)
			if !errors.Is(err, ErrExists) {
				err = errors.Join(err, m.undoMake())
			}
			return nil, err
		}
	}
	return m.capsule, nil
}

func (m *maker) prepareFolder(context.Context) error {
	if err := prepareFolder(m.spec.Dir); err != nil {
		return err
	}
	boot, err := procfs.BootID()
	if err != nil {
		return err
	}
	m.rec = record{ID: rand.Text(), Boot: boot, Hostname: m.spec.Hostname, Cgroups: m.spec.Cgroups}
	if m.spec.Hosts != nil {
		path := filepath.Join(m.spec.Dir, hostsName)
		if err := os.WriteFile(path, m.spec.Hosts, 0o644); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o644); err != nil { // independent of the umask
			return err
		}
	}
	return m.rec.writeRecord(m.spec.Dir)
}

func (m *maker) startInit(ctx context.Context) error {
	control, err := listenControl(m.spec.Dir)
	if err != nil {
		return err
	}
	defer control.Close()
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer orderR.Close()
	answerR, answerW, err := os.Pipe()
	if err != nil {
		orderW.Close()
		return err
	}
	defer answerW.Close()
	m.orders, m.answers = json.NewEncoder(orderW), json.NewDecoder(answerR)
	// Closed with the context, so that a step that waits for init does not hang; init sees the
	// end of its orders and exits.
	m.hangUp = func() {
		orderW.Close()
		answerR.Close()
	}
	m.stopHangUp = context.AfterFunc(ctx, m.hangUp)
	log, err := os.OpenFile(filepath.Join(m.spec.Dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	proc, err := os.OpenFile("/proc", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer proc.Close()
	m.cmd = exec.Command("/proc/self/exe", Arg, m.spec.Hostname)
	m.cmd.Args[0] = "singularity"
	m.cmd.Env = []string{}
	m.cmd.Dir = "/"
	m.cmd.Stderr = log
	m.cmd.ExtraFiles = []*os.File{orderR, answerW, control, proc}
	m.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	m.pid = m.cmd.Process.Pid
	init, err := openPidfd(m.pid)
	if err != nil {
		return err
	}
	m.capsule = &Capsule{dir: m.spec.Dir, init: init, reaped: make(chan struct{})}
	go func() {
		m.cmd.Wait()
		close(m.capsule.reaped)
	}()
	return nil
}

func (m *maker) buildTree(ctx context.Context) error {
	return m.sendOrder(ctx, order{ID: m.rec.ID, Spec: m.spec})
}

func (m *maker) makeNetwork(context.Context) error {
	if m.spec.Network == nil {
		return nil
	}
	return m.spec.Network(m.pid)
}

func (m *maker) recordInit(context.Context) error {
	p, err := readStat(m.pid)
	if err != nil {
		return err
	}
	m.rec.PID, m.rec.Start = m.pid, p.start
	m.capsule.rec = m.rec
	return m.rec.writeRecord(m.spec.Dir)
}

func (m *maker) detachInit(ctx context.Context) error {
	if err := m.sendOrder(ctx, order{}); err != nil {
		return err
	}
	m.stopHangUp()
	m.hangUp()
	return nil
}

// sendOrder sends init an order and waits for the answer.
func (m *maker) sendOrder(ctx context.Context, o order) error {
	var got answer
	err := m.orders.Encode(o)
	if err == nil {
		err = m.answers.Decode(&got)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("init died while it was starting: %w (see %s)", err, filepath.Join(m.spec.Dir, logName))
	case got.Error != "":
		return &localsock.ToldError{Text: got.Error, Errno: got.Errno}
	}
	return nil
}

// undoMake removes a capsule that could not be made.
func (m *maker) undoMake() error {
	if m.hangUp != nil {
		m.stopHangUp()
		m.hangUp()
	}
	if m.capsule != nil {
		_ = m.capsule.init.signal(syscall.SIGKILL) // the process may be gone already
		<-m.capsule.reaped
		m.capsule.init.close()
	}
	return os.RemoveAll(m.spec.Dir)
}
